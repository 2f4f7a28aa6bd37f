"""The keyword leg: rank-bm25's numbers on sparse postings, and evidence that is term overlap."""

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from orchestrator import Catalogue, Decision, RouteHint, Router, Tool
from orchestrator.index.bm25 import Corpus, Counts, Postings
from tests.catalogues import taking, tool


async def by_words(query: str, *tools: Tool) -> Decision:
    async with Router(Catalogue(tools)) as router:
        return await router.route(query, route_hint=RouteHint.KEYWORD, limit=20)


def probabilities(decision: Decision) -> dict[str, float]:
    return {match.tool.key: match.evidence.get("keyword", 0.0) for match in decision.matches}


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


async def test_a_term_that_all_tools_share_is_evidence() -> None:
    found = await by_words("work on the file", *(tool(f"s:file_{number}", "works on a file") for number in range(20)))
    assert len(found.matches) == 20
    assert min(probabilities(found).values()) > 0


@pytest.mark.parametrize(
    "office", [tool("office-365:read"), tool("office:read_365"), tool("office:read", keywords=("365",))]
)
async def test_a_number_in_prose_is_no_evidence(office: Tool) -> None:
    pages = tool("wiki:list", "At most 365 pages.", input_schema=taking(limit="Up to 365"))
    found = probabilities(await by_words("open 365", office, pages))
    assert found[office.key] > found.get(pages.key, 0.0) == 0


async def test_two_words_side_by_side_count_more_than_apart() -> None:
    tools = (tool("a:x", "Merge a pull request"), tool("b:y", "Request to pull"), tool("c:z", "Send mail"))
    found = probabilities(await by_words("a pull request", *tools))
    assert found["a:x"] > found["b:y"] > 0
    assert found.get("c:z", 0.0) == 0
