"""The keyword leg: rank-bm25's numbers on sparse postings, and evidence that is term overlap."""

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from orchestrator.index.bm25 import Counts, PositiveBM25, Postings
from orchestrator.index.keyword import FIELDS, KeywordIndex
from orchestrator.index.said import Said
from orchestrator.records.tool import Tool
from tests.catalogues import sample, taking, tool


def corpus(documents: int, seed: int) -> list[list[str]]:
    """Random documents over a Zipf vocabulary."""
    random = np.random.default_rng(seed)
    return [[f"w{word}" for word in random.zipf(1.3, random.integers(1, 30)) % 500] for _ in range(documents)]


def counted(documents: list[list[str]]) -> Counts:
    """Documents of one field."""
    return Counts.of(Said.of([(words, 1.0)] for words in documents))


@pytest.mark.parametrize("size", [1, 2, 3, 50, 400])
def test_postings_score_as_rank_bm25_does(size: int) -> None:
    documents = corpus(size, seed=size)
    model = PositiveBM25(documents)
    postings = Postings(counted(documents))
    for query in corpus(30, seed=1_000 + size):
        words = list(dict.fromkeys(query))
        expected = model.get_scores(words)
        np.testing.assert_allclose(postings.scores(dict.fromkeys(words, 1.0)), expected, rtol=2e-6, atol=1e-6)


def test_only_the_inverse_document_frequency_differs_from_okapis_own() -> None:
    documents = corpus(300, seed=7)
    ours, okapi = PositiveBM25(documents), BM25Okapi(documents)
    okapi.idf = ours.idf
    words = ["w1", "w2", "w3", "w40", "unknown"]
    np.testing.assert_array_equal(ours.get_scores(words), okapi.get_scores(words))
    assert min(ours.idf.values()) > 0


def test_a_weighted_term_counts_as_often_as_its_weight() -> None:
    postings = Postings(counted(corpus(60, seed=3)))
    once, twice = postings.scores({"w1": 1.0}), postings.scores({"w1": 2.0})
    np.testing.assert_allclose(twice, 2 * once)


@pytest.mark.parametrize("others", [0, 1])
def test_in_a_catalogue_of_one_or_two_tools_a_match_scores_above_none(others: int) -> None:
    tools = [tool("files:read_file", "Read a file"), tool("notes:write_note", "Write a note")][: others + 1]
    scores = KeywordIndex(tools).score({"file": 1.0, "read": 1.0}).parts[0]
    assert scores[0] > 0
    assert (scores[1:] == 0).all()


def test_an_empty_catalogue_and_one_of_empty_tools_score_nothing() -> None:
    assert KeywordIndex([]).score({"file": 1.0}).parts[0].shape == (0,)
    assert KeywordIndex([tool(":-"), tool(":_")]).score({"file": 1.0}).parts[0].tolist() == [0, 0]


def test_evidence_is_a_shared_term_however_common_it_is() -> None:
    tools = [tool(f"s:file_{number}", "works on a file") for number in range(20)]
    index = KeywordIndex(tools)
    assert (index.score({"file": 1.0}).parts[0] > 0).all()
    assert (index.score({"mail": 1.0}).parts[0] == 0).all()


def test_each_field_that_holds_a_term_is_known() -> None:
    own = tool("mail:send", "Post a letter", keywords=("dispatch",), input_schema=taking(receiver="who gets it"))
    postings = KeywordIndex([own, tool("other:thing")]).postings
    for field, term in zip(FIELDS, ("mail", "send", "dispatch", "letter", "receiv"), strict=True):
        assert postings.columns([term]).held.tolist() == [[1 << FIELDS.index(field), 0]]
    assert postings.columns(["nowhere"]).held.tolist() == []


@pytest.mark.parametrize(
    "office",
    [
        tool("office-365:read", "Read a calendar."),
        tool("office:read_365", "Read a calendar."),
        tool("office:read", "Read a calendar.", keywords=("365",)),
    ],
)
def test_a_number_in_prose_is_no_evidence_and_one_in_a_name_or_keyword_is(office: Tool) -> None:
    pages = tool("wiki:list", "At most 365 pages.", input_schema=taking(limit="Up to 365"))
    named, told = KeywordIndex([office, pages]).score({"365": 1.0}).parts[0]
    assert named > told == 0


def test_no_document_scores_above_the_ceiling() -> None:
    index = KeywordIndex(sample().tools)
    for known in sample():
        query = dict.fromkeys(known.description.lower().split(), 1.0)
        assert index.score(query).parts[0].max() <= index.score(query).ceilings[0]


def test_a_clause_is_scored_by_itself_and_a_server_by_all_of_its_tools() -> None:
    tools = sample().tools
    index = KeywordIndex(tools)
    scores = index.score({"refund": 1.0, "weather": 1.0}, {"refund": 1.0}, {"weather": 1.0})
    np.testing.assert_allclose(scores.parts[1] + scores.parts[2], scores.parts[0], rtol=1e-6)
    assert index.servers[int(scores.servers.argmax())] == "weather"
    assert len(index.score({"refund": 1.0}).parts) == 1
