"""Slips of the hand: which words of a query are read as others, and what a Decision says of it."""

import pytest

from orchestrator.index.text import stem
from orchestrator.language.slips import LONGEST, respelt, slips
from orchestrator.records.request import RouteHint, RouteRequest, Turn
from orchestrator.routing.router import Router
from tests.timing import seconds

KNOWN = {
    stem(word)
    for word in "weather forecasts payment plan plane refund email screenshots paint point posted mute".split()
}


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("forcast for tomorrow", {"forcast": "forecast"}),
        ("refnud the paymnet", {"refnud": "refund", "paymnet": "payment"}),
        ("an emaiil", {"emaiil": "email"}),
        ("Wether in Lyon", {"wether": "weather"}),
        ("take screenshts.", {"screenshts": "screenshots"}),
        ("the waether in Lyon", {"waether": "weather"}),
        ("a paymeent", {"paymeent": "payment"}),
        ("screenchots", {"screenchots": "screenshots"}),
    ],
)
def test_a_word_that_nobody_uses_is_read_as_the_one_that_is_one_slip_away(query: str, read: dict[str, str]) -> None:
    assert slips(query, KNOWN) == read


@pytest.mark.parametrize(
    "query",
    [
        "plants on the balcony",
        "weather forecasts",
        "the Refnud family",
        "read /tmp/refnud or see refnud.com and ask @refnud",
        'search for "refnud"',
        "plna it",
        "umbrella",
        "the pxint",
        "the cosmetics were pasted",
        "a mutex",
        "refund_paymnet",
        "погода завтра",
        "",
    ],
    ids=[
        "real word",
        "known",
        "name",
        "address",
        "quoted",
        "short",
        "not in the catalogue",
        "two readings",
        "real word near",
        "short, and an unlikely slip",
        "identifier",
        "script",
        "empty",
    ],
)
def test_real_words_names_and_what_is_quoted_stay_as_they_are(query: str) -> None:
    assert slips(query, KNOWN) == {}


def test_what_is_too_long_for_a_word_costs_no_more_than_one() -> None:
    assert seconds(lambda: slips("a" * 100_000, KNOWN) == {}) < 0.1
    assert slips("refnud " + "z" * LONGEST + "z", KNOWN) == {"refnud": "refund"}


def test_the_text_is_read_with_the_words_that_are_meant() -> None:
    assert respelt("Refnud it, the refnud is late", {"refnud": "refund"}) == "refund it, the refund is late"


@pytest.mark.parametrize("hint", [RouteHint.KEYWORD, RouteHint.SEMANTIC])
async def test_a_misspelt_task_finds_what_the_task_finds_and_says_how_it_was_read(
    router: Router, hint: RouteHint
) -> None:
    right, wrong = [
        await router.route(RouteRequest(query=query, tenant="local", route_hint=hint))
        for query in ("refund the customer's payment", "refnud the custmer's paymnet")
    ]
    assert [match.tool.key for match in wrong.matches] == [match.tool.key for match in right.matches]
    assert [match.score for match in wrong.matches] == pytest.approx([match.score for match in right.matches])
    assert 'no tool says "refnud": read as "refund"' in wrong.warnings
    assert not any("read as" in warning for warning in right.warnings)
    assert wrong.query == "refnud the custmer's paymnet"


async def test_a_misspelt_follow_up_leans_on_a_misspelt_turn(router: Router) -> None:
    decision = await router.route("again, please", conversation=[Turn(text="refnud the paymnet")])
    assert decision.matches[0].tool.key == "stripe:refund_charge"
