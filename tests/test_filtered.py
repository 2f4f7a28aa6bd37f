"""Filters: what they leave out counts nowhere, as if it were not in the catalogue."""

from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest

from orchestrator import Router
from orchestrator.catalogue.catalogue import Catalogue
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
