"""Word pairs: what is said side by side in a tool and in a task is evidence beyond the two words."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.bigrams import WordPairs, side_by_side
from orchestrator.index.keyword import KeywordIndex
from orchestrator.index.said import Document, Said
from orchestrator.index.text import terms
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.routing.router import Router
from orchestrator.routing.understand import understand
from tests.catalogues import tool

DOCUMENTS = [
    [(["pull", "request", "merg"], 1.0), (["pull", "request"], 1.0)],
    [(["pull"], 1.0), (["request", "timeout"], 1.0)],
    [(["request", "pull", "pull"], 1.0)],
    [([], 1.0)],
]


def pairs_of(documents: Sequence[Document]) -> WordPairs:
    return WordPairs.of(Said.of(documents))


PULL_REQUEST = {("pull", "request"): 1.0}


def test_a_pair_counts_once_in_its_order_and_within_a_field() -> None:
    scores = pairs_of(DOCUMENTS).scores([PULL_REQUEST])
    assert scores.tolist() == [pytest.approx([math.log1p(3.5 / 1.5), 0, 0, 0])]


def test_pairs_weigh_what_is_asked_of_them_part_by_part() -> None:
    once, half, none = pairs_of(DOCUMENTS).scores([PULL_REQUEST, {("pull", "request"): 0.5}, {}])
    assert half == pytest.approx(once / 2)
    assert not none.any()


def test_documents_that_are_left_out_count_nowhere() -> None:
    left = np.array([True, False, True, False])
    among = pairs_of(DOCUMENTS).scores([PULL_REQUEST], left)[0]
    alone = pairs_of([DOCUMENTS[0], DOCUMENTS[2]]).scores([PULL_REQUEST])[0]
    assert among[left] == pytest.approx(alone)
    assert not among[~left].any()


@pytest.mark.parametrize("documents", [[], [[]], [[([], 1.0)]], [[(["pull"], 1.0)]]])
def test_where_nothing_is_said_side_by_side_nothing_scores(documents: list[Document]) -> None:
    assert pairs_of(documents).scores([PULL_REQUEST, {}]).tolist() == [[0.0] * len(documents)] * 2


def test_a_pair_weighs_as_its_lesser_word_and_a_repeated_word_makes_none() -> None:
    weights = {"cancel": 0.5, "subscript": 2.0, "now": 1.5}
    pairs = side_by_side(["cancel", "subscript", "subscript", "now"], weights)
    assert pairs == {("cancel", "subscript"): 0.5, ("subscript", "now"): 1.0}


def test_a_task_and_its_parts_have_their_own_pairs_without_stop_words_and_as_slips_are_meant() -> None:
    known = {"merg", "pull", "request", "list"}
    understood = understand("merge the pull requst and then list open issues", known=known)
    assert ("pull", "request") in understood.pairs
    assert [set(clause.pairs) for clause in understood.clauses] == [
        {("merg", "pull"), ("pull", "request")},
        {("list", "open"), ("open", "issu")},
    ]


def test_pairs_of_earlier_texts_weigh_as_those_texts_even_where_the_task_says_their_words_apart() -> None:
    pairs = understand("merge the request or pull it", earlier=[("open pull request", 0.5), ("pull merge", 0.25)]).pairs
    assert pairs == {
        ("merg", "request"): 1.0,
        ("request", "pull"): 1.0,
        ("open", "pull"): 0.5,
        ("pull", "request"): 0.5,
        ("pull", "merg"): 0.25,
    }


def test_pairs_that_only_a_quoted_message_says_weigh_half() -> None:
    pairs = understand("send Bob a mail saying 'cancel the call'").pairs
    assert pairs["bob", "mail"] == 1.0
    assert pairs["cancel", "call"] == 0.5


def test_pairs_are_found_in_scripts_without_spaces_and_beside_signs_that_no_encoding_holds() -> None:
    texts = ["合并拉取请求", "请求合并拉取", "\ud800pull\udfff request"]
    pairs = pairs_of([[(terms(text), 1.0)] for text in texts])
    for place, text in enumerate(texts):
        read = terms(text)
        assert pairs.scores([side_by_side(read, dict.fromkeys(read, 1.0))])[0].argmax() == place


def test_a_pair_counts_less_in_a_tool_that_says_much() -> None:
    long = "Merge a pull request " + " ".join(f"or thing{number}" for number in range(60))
    index = KeywordIndex([tool("a:one", long), tool("b:two", "Merge a pull request")])
    told, plain = index.score({"pull": 1.0}, pairs=[PULL_REQUEST]).pairs[0]
    assert 0 < told < plain / 2


async def test_of_tools_with_the_same_words_the_one_that_says_them_side_by_side_is_first() -> None:
    texts = {
        "apart": "Request a review: pull the newest open issue and merge it into the report",
        "beside": "Merge an open pull request into the newest report: review an issue",
    }
    others = [tool(f"files:read_{number}", f"Read table {number} from disk") for number in range(60)]
    for order in (list(texts), list(reversed(texts))):
        tools = [tool(f"repos:{letter}_{name}", texts[name]) for letter, name in zip("pq", order, strict=True)]
        async with Router(Catalogue([*tools, *others])) as router:
            request = RouteRequest(query="merge the open pull request", tenant="local", route_hint=RouteHint.KEYWORD)
            decision = await router.route(request)
            assert decision.matches[0].tool.name.endswith("beside"), order
