"""Spelling: a misspelt word is read as the one word of the catalogue that is one slip away."""

import pytest

from orchestrator.index.spelling import MOST, corrections
from orchestrator.index.text import terms
from orchestrator.routing.router import Router

KNOWN = terms("refund the customer, translate a document, weather forecast, calendar, message messages")


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("custmer", "customer"),
        ("wheather", "weather"),
        ("trnslate", "translate"),
        ("messsage", "message"),
        ("customer", ""),
        ("qwxzptf", ""),
        ("doc", ""),
        ("кастомер", ""),
        ("custmer42", ""),
    ],
)
def test_one_slip_is_corrected_and_everything_else_stays(word: str, right: str) -> None:
    assert corrections([word], KNOWN) == ({word: right} if right else {})


def test_only_so_many_unknown_words_are_looked_at() -> None:
    assert corrections([*(f"zzzz{chr(97 + n)}" for n in range(MOST)), "custmer"], KNOWN) == {}


async def test_a_decision_says_how_a_word_was_read(router: Router) -> None:
    decision = await router.route("refund the custmer")
    assert decision.matches[0].tool.key == "stripe:refund_charge"
    assert 'no tool says "custmer": read as "customer"' in decision.warnings
