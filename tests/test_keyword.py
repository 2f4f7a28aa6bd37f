"""The keyword leg: rank-bm25's numbers on sparse postings, and evidence that is term overlap."""

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.bm25 import Corpus, Counts, Postings
from orchestrator.index.index import Index
from orchestrator.index.keyword import FIELDS, KeywordIndex
from orchestrator.records.tool import Tool
from tests.catalogues import sample, taking, tool


def keyword_index(*tools: Tool) -> KeywordIndex:
    return Index(Catalogue(tools)).keyword


def corpus(documents: int, seed: int) -> list[list[str]]:
    """Random documents over a Zipf vocabulary."""
    random = np.random.default_rng(seed)
    return [[f"w{word}" for word in random.zipf(1.3, random.integers(1, 30)) % 500] for _ in range(documents)]


def postings(documents: list[list[str]]) -> Postings:
    return Postings(Counts.of(Corpus.of([[words] for words in documents], [1.0])))


@pytest.mark.parametrize("size", [1, 2, 3, 50, 400])
def test_postings_have_the_scores_of_rank_bm25(size: int) -> None:
    documents = corpus(size, seed=size)
    index = postings(documents)
    okapi = BM25Okapi(documents)
    okapi.idf = dict(zip(index.counts.ids, index.idf.tolist(), strict=True))  # Lucene's, which is never negative.
    assert min(okapi.idf.values()) > 0
    for query in corpus(30, seed=1_000 + size):
        np.testing.assert_allclose(index.get_scores(query), okapi.get_scores(query), rtol=2e-6, atol=1e-5)


def test_the_weight_of_a_word_multiplies_its_score() -> None:
    index = postings(corpus(50, seed=1))
    (query,) = corpus(1, seed=2)
    twice = index.weighted_scores(dict.fromkeys(query, 2.0))
    np.testing.assert_allclose(twice, 2 * index.weighted_scores(dict.fromkeys(query, 1.0)))


def test_an_empty_catalogue_and_one_of_empty_tools_score_nothing() -> None:
    assert keyword_index().score({"file": 1.0}).parts[0].shape == (0,)
    assert keyword_index(tool(":-"), tool(":_")).score({"file": 1.0}).parts[0].tolist() == [0, 0]


def test_evidence_is_a_shared_term_however_common_it_is() -> None:
    index = keyword_index(*(tool(f"s:file_{number}", "works on a file") for number in range(20)))
    assert (index.score({"file": 1.0}).parts[0] > 0).all()
    assert (index.score({"mail": 1.0}).parts[0] == 0).all()


def test_each_field_that_holds_a_term_is_known() -> None:
    own = tool("mail:send", "Post a letter", keywords=("dispatch",), input_schema=taking(receiver="who gets it"))
    held = keyword_index(own, tool("other:thing")).postings
    for field, term in zip(FIELDS, ("mail", "send", "dispatch", "letter", "receiv"), strict=True):
        assert held.columns([term]).held.tolist() == [[1 << FIELDS.index(field), 0]]


def test_a_number_in_prose_is_no_evidence_and_one_in_a_name_or_keyword_is() -> None:
    pages = tool("wiki:list", "At most 365 pages.", input_schema=taking(limit="Up to 365"))
    for office in (tool("office-365:read"), tool("office:read_365"), tool("office:read", keywords=("365",))):
        named, said = keyword_index(office, pages).score({"365": 1.0}).parts[0]
        assert named > said == 0


def test_no_document_scores_above_the_ceiling() -> None:
    index = Index(sample()).keyword
    for known in sample():
        found = index.score(dict.fromkeys(known.description.lower().split(), 1.0))
        assert found.parts[0].max() <= found.ceilings[0]


def test_a_clause_is_scored_by_itself_and_a_server_by_all_of_its_tools() -> None:
    index = Index(sample()).keyword
    found = index.score({"refund": 1.0, "weather": 1.0}, {"refund": 1.0}, {"weather": 1.0})
    np.testing.assert_allclose(found.parts[1] + found.parts[2], found.parts[0], rtol=1e-6)
    assert index.servers[int(found.servers.argmax())] == "weather"


def test_what_is_left_out_counts_nowhere_as_if_it_were_not_there() -> None:
    merge, mail, other = tool("a:merge", "Merge a pull request"), tool("c:send", "Send mail"), tool("b:open", "Open it")
    pairs = [{("pull", "request"): 1.0}]
    asked = {"pull": 1.0, "request": 1.0, "open": 1.0}
    whole = keyword_index(merge, other, mail).score(asked, pairs=pairs, among=np.array([True, False, True]))
    alone = keyword_index(merge, mail).score(asked, pairs=pairs)
    assert (whole.tools, whole.known) == (alone.tools, alone.known)
    np.testing.assert_array_equal(whole.parts[0] > 0, [True, False, False])
    everything = keyword_index(merge, other, mail).score(asked, pairs=pairs, among=np.ones(3, np.bool_))
    np.testing.assert_allclose(everything.servers, keyword_index(merge, other, mail).score(asked).servers)


def test_two_words_side_by_side_count_more_than_apart() -> None:
    index = keyword_index(tool("a:x", "Merge a pull request"), tool("b:y", "Request to pull"), tool("c:z", "Send mail"))
    together, apart, none = index.score({"pull": 1.0}, pairs=[{("pull", "request"): 1.0}]).pairs[0]
    assert together > apart == none == 0
