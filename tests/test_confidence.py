"""The confidence: what its maps read, and how sure a tool beside its like may be."""

from orchestrator import Router
from orchestrator.catalogue import Catalogue
from orchestrator.confidence import CONFIDENCE, GATE, shipped
from orchestrator.features import KEYWORD, QUERY, SEMANTIC
from orchestrator.models import RouteHint, RouteRequest, Stage
from tests.catalogues import sample, tool


def test_the_shipped_maps_read_the_features_that_routing_computes_in_their_order() -> None:
    maps = shipped()
    assert maps.keyword.features == (*KEYWORD, *QUERY)
    assert maps.semantic.features == (*SEMANTIC, *QUERY)
    assert maps.merged.features == (*KEYWORD, *SEMANTIC, *QUERY)
    assert maps.gate.features == GATE
    assert maps.confidence.features == CONFIDENCE


async def test_a_tool_beside_its_like_is_less_surely_the_right_one() -> None:
    own = tool("pdf:merge_files", "Joins several PDF documents into one")
    twin = tool("docs:merge_files", "Joins several PDF documents into one document")
    request = RouteRequest(query="put these scans together", tenant="local", route_hint=RouteHint.SEMANTIC)
    sure = []
    for tools in ([own], [own, twin]):
        async with Router(Catalogue([*sample().tools, *tools])) as router:
            sure.append((await router.route(request)).confidence)
    assert sure[1] < sure[0]


async def test_a_shared_word_without_any_meaning_in_common_is_no_answer(router: Router) -> None:
    decision = await router.route("good morning")
    assert decision.matches[0].words == {"description": ("good",)}
    assert decision.stage is Stage.NONE
