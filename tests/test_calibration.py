"""Gate and confidence: the features of their maps, and the limits of a tool's probability."""

import pytest

from orchestrator import Catalogue, RouteHint, Router, RouteRequest, Stage
from orchestrator.index.calibration import CONFIDENCE, GATE, shipped
from orchestrator.index.features import KEYWORD, QUERY, SEMANTIC
from orchestrator.pipeline.sentences import ORDER
from tests.catalogues import sample, tool


def test_the_shipped_maps_read_the_features_that_routing_computes_in_their_order() -> None:
    maps = shipped()
    assert maps.keyword.features == (*KEYWORD, *QUERY)
    assert maps.semantic.features == (*SEMANTIC, *QUERY)
    assert maps.merged.features == (*KEYWORD, *SEMANTIC, *QUERY)
    assert maps.order.features == ORDER
    assert (maps.gate.features, maps.confidence.features) == (GATE, CONFIDENCE)


@pytest.mark.parametrize("query", ["refund", "refund him", "refund Ottokar Blumenthal Zwetschge Quendel"])
async def test_the_gate_stays_closed_where_the_best_tool_holds_one_word(router: Router, query: str) -> None:
    decision = await router.route(query)
    assert decision.gate_confidence <= 2 / 5
    assert decision.semantic_ran
    assert decision.matches[0].tool.key == "stripe:refund_charge"


async def test_a_long_task_is_surer_where_one_of_its_parts_fits_well(router: Router) -> None:
    """The words are the same, as parts and as one long part."""
    said = "please refund the charge {} tell the team about the outcome {} water the plants in the office {} call me"
    sure = []
    for joint in (", then", "with"):
        task = said.format(joint, joint, joint)
        decision = await router.route(RouteRequest(query=task, route_hint=RouteHint.SEMANTIC))
        sure.append((len(decision.parts), decision.confidence))
    assert sure[0][0] > 1
    assert sure[0][1] > sure[1][1]


async def test_a_tool_beside_its_like_is_less_surely_the_right_one() -> None:
    own = tool("pdf:merge_files", "Joins several PDF documents into one")
    twin = tool("docs:merge_files", "Joins several PDF documents into one document")
    request = RouteRequest(query="put these scans together", route_hint=RouteHint.SEMANTIC)
    sure = []
    for tools in ([own], [own, twin]):
        async with Router(Catalogue([*sample().tools, *tools])) as router:
            sure.append((await router.route(request)).confidence)
    assert sure[1] < sure[0]


async def test_a_shared_word_without_any_meaning_in_common_is_no_answer(router: Router) -> None:
    decision = await router.route("good morning")
    assert decision.matches[0].words == {"description": ("good",)}
    assert decision.stage is Stage.NONE


def test_the_only_tool_of_a_catalogue_is_claimed_if_it_fits() -> None:
    with Router(Catalogue([tool("weather:current_weather", "Get the current weather of a city")])) as router:
        assert router.route_sync("what is the weather like in Oslo?").confidence >= 0.5
        assert router.route_sync("book a flight").recommended == ()
