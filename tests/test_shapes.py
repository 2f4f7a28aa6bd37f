"""Shapes: a channel and a URL say by their form what a task is about."""

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.text import stem
from orchestrator.language.shapes import with_shapes
from orchestrator.records.request import RouteRequest
from orchestrator.routing.router import Router
from orchestrator.routing.understand import QUOTED, understand
from tests.catalogues import tool
from tests.timing import seconds

TOOLS = [
    tool("chat:add_message", "Send a message to a channel."),
    tool("board:create_comment", "Comment on a card."),
    tool("board:list_done", "List the cards that are done."),
    tool("web:fetch_page", "Read the page at a URL."),
    tool("bank:create_transfer", "Transfer money between accounts."),
]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("tell #eng the deploy is done", "chat:add_message"),
        ("Schreib in #ops, dass alles wieder läuft", "chat:add_message"),
        ("summarise https://blog.example.com/our-transfer-fees", "web:fetch_page"),
    ],
)
async def test_a_task_is_read_by_the_shape_of_its_words(query: str, best: str) -> None:
    async with Router(Catalogue(TOOLS)) as router:
        decision = await router.route(RouteRequest(query=query, tenant="local"))
    assert decision.matches[0].tool.key == best


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("announce it in #releases.", "announce it in #releases channel message."),
        ("add Priya to #team-blue", "add Priya to #team-blue channel message"),
        ("see https://acme.io/a-b (soon)", "see https://acme.io/a-b url (soon)"),
    ],
)
def test_the_words_for_a_shape_stand_behind_it(text: str, read: str) -> None:
    assert with_shapes(text) == read


@pytest.mark.parametrize(
    "text",
    [
        "close issue #12",
        "posts tagged #travel",
        "a wall in #ff8800",
        "click on #submit",
        "compare it to acme/api#12",
        "change it to #Include",
        "AC/DC and/or 12/6",
    ],
    ids=["number", "hashtag", "colour", "selector", "reference", "capital", "slash"],
)
def test_what_only_looks_like_a_shape_stays_as_it_is(text: str) -> None:
    assert with_shapes(text) == text


def test_the_words_of_a_url_count_half_and_those_said_beside_it_in_full() -> None:
    weighted = understand("cancel the order, see https://acme.io/cancel-account").terms
    assert weighted[stem("cancel")] > 1
    assert weighted[stem("account")] == weighted[stem("url")] == QUOTED
    assert weighted[stem("order")] == 1


def test_an_embedder_reads_the_words_for_a_shape_too() -> None:
    assert (
        understand("tell #eng about the launch").texts[0]
        == "send channel message: tell #eng channel message about the launch"
    )


@pytest.mark.parametrize(
    "text", ["#a" * 2000, "in #" * 1000, "to #" + "a-" * 2000, "http://" * 600, "https://" + "a." * 2000]
)
def test_a_hostile_text_costs_no_time(text: str) -> None:
    assert seconds(lambda: bool(with_shapes(text))) < 0.05
