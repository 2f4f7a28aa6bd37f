"""Filters: what they leave out counts nowhere, as if it were not in the catalogue."""

from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest

from orchestrator import Router
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.keyword import KeywordIndex
from orchestrator.index.vectors import SemanticIndex
from orchestrator.records.request import RouteHint, RouteRequest
from tests.catalogues import sample, tool

QUERIES = (
    "open an issue about the crash",
    "refund the last payment of this customer",
    "will it rain in Lisbon tomorrow",
    "find the slowest queries of the database",
    "translate this letter into German",
    "move the meeting to Friday",
    "who is on call tonight",
    "upload the report to the bucket",
    "tell me a joke",
)


@pytest.fixture(scope="module", params=(2, 4))
async def routers(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Router, Router]]:
    """One over the sample catalogue, its tools labelled in turn, and one over those labelled "kept" alone."""
    labelled = [
        replace(each, labels={"part": "kept" if number % request.param == 0 else "other"})
        for number, each in enumerate(sample())
    ]
    kept = [each for each in labelled if each.labels["part"] == "kept"]
    async with Router(Catalogue(labelled)) as whole, Router(Catalogue(kept)) as alone:
        yield whole, alone


@pytest.mark.parametrize("hint", [RouteHint.SEMANTIC, RouteHint.KEYWORD])
async def test_a_filtered_route_answers_as_the_catalogue_of_what_passes(
    routers: tuple[Router, Router], hint: RouteHint
) -> None:
    apart = []
    for query in QUERIES:
        request = RouteRequest(query=query, tenant="local", route_hint=hint)
        filtered = await routers[0].route(replace(request, filters={"part": "kept"}))
        alone = await routers[1].route(request)
        assert filtered.matches[0].tool.key == alone.matches[0].tool.key, query
        apart.append(abs(filtered.confidence - alone.confidence))
    assert np.mean(apart) < 0.03


def test_a_server_counts_by_the_tools_that_pass() -> None:
    tools = [
        tool("docs:print_page", "Print a page"),
        tool("docs:scan_page", "Scan a page"),
        tool("mail:send_mail", "Send a mail, or print it"),
    ]
    whole = KeywordIndex(tools)
    asked = {"print": 1.0, "page": 1.0}
    assert whole.score(asked).servers.argmax() == 0
    assert whole.score({"print": 1.0}, among=np.array([False, True, True])).servers.argmax() == 1
    assert whole.score(asked, among=np.array([False, False, True])).servers.tolist() == [0, 0]  # As of a single server.
    everything = whole.score(asked, among=np.ones(3, np.bool_))
    assert everything.servers == pytest.approx(whole.score(asked).servers)
    assert everything.parts == pytest.approx(whole.score(asked).parts)


def test_a_word_of_left_out_tools_alone_is_an_unknown_one() -> None:
    index = KeywordIndex([tool("a:one", "Compress a file"), tool("b:two", "Open a file")])
    asked = {"compress": 1.0, "file": 1.0}
    assert index.score(asked).says[0][0] == 2
    assert index.score(asked, among=np.array([False, True])).says[0][0] == 1


def test_word_pairs_are_as_rare_as_among_the_tools_that_pass() -> None:
    tools = [
        tool("a:merge", "Merge a pull request"),
        tool("b:open", "Open a pull request"),
        tool("c:send", "Send mail"),
    ]
    index, asked = KeywordIndex(tools), {"pull": 1.0, "request": 1.0}
    whole, passing = (
        index.score(asked, pairs=[{("pull", "request"): 1.0}], among=among).pairs[0]
        for among in (None, np.array([True, False, True]))
    )
    assert (whole > 0).tolist() == [True, True, False]
    assert (passing > 0).tolist() == [True, False, False]
    assert passing[0] / whole[0] == pytest.approx(np.log1p(1.5 / 1.5) / np.log1p(1.5 / 2.5))


def test_a_server_is_as_near_as_its_tools_that_pass() -> None:
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1], [0, 1]], np.float32)
    index = SemanticIndex([tool(key) for key in ("a:one", "a:two", "b:three", "b:four")], vectors)
    passing = np.array([False, True, True, False])
    cosines = index.score(np.array([[1, 0]], np.float32), passing).astype(np.float64)
    assert cosines[0].tolist() == pytest.approx([-1, 0.6, 0, -1])
    assert index.server_scores(cosines, passing)[0].tolist() == pytest.approx([0.6, 0])


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({"kind": "agnet"}, "no tool is left by kind=agnet; did you mean kind=agent?"),
        ({"sever": "jira"}, "no tool is left by sever=jira; did you mean server=jira?"),
        ({"server": "xxxxxxxx"}, "no tool is left by server=xxxxxxxx; `toolroute tools list` shows them all"),
    ],
)
async def test_a_filter_that_no_tool_passes_is_told_with_what_may_be_meant(filters: dict[str, str], told: str) -> None:
    async with Router(Catalogue(sample())) as router:
        assert told in (await router.route(RouteRequest(query="a page", tenant="local", filters=filters))).warnings
