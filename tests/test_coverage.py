"""Coverage sets: as many tools as hold all needed ones with the wanted probability, and a word where none can."""

from typing import Any

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import InvalidInput
from orchestrator.index.coverage import LEVELS, conformities, shipped, smallest
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.tool import Stage, Tool
from orchestrator.runtime.router import Router
from tests.catalogues import tool

TASK = "refund charge ch_3PqX, the customer paid twice"
VAGUE = "sort out what the customer wrote about the order"


async def covering(router: Router, query: str, coverage: float, **given: Any) -> Decision:
    return await router.route(RouteRequest(query=query, tenant="local", coverage=coverage, **given))


async def test_the_wanted_coverage_decides_how_many_tools_there_are(router: Router) -> None:
    sizes = [len((await covering(router, TASK, wanted)).matches) for wanted in (0.5, 0.7, 0.8, 0.9)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 1
    assert sizes[-1] > 3
    assert len((await covering(router, VAGUE, 0.7)).matches) > sizes[1]


async def test_the_set_is_the_smallest_whose_tools_stand_above_the_threshold(router: Router) -> None:
    everything = await router.route(RouteRequest(query=TASK, tenant="local", limit=50, route_hint=RouteHint.SEMANTIC))
    scores = sorted((match.score for match in everything.matches), reverse=True)
    decision = await covering(router, TASK, 0.8)
    threshold = shipped()["both"][LEVELS.index(0.8)]
    assert len(decision.matches) == sum(score / scores[0] / place >= threshold for place, score in enumerate(scores, 1))
    assert decision.coverage == 0.8
    assert decision.semantic_ran
    assert not decision.warnings


async def test_what_fifty_tools_cannot_hold_is_told_with_what_they_reach(router: Router) -> None:
    decision = await covering(router, TASK, 0.999)
    assert len(decision.matches) == 50
    assert decision.coverage is not None
    assert decision.coverage < 0.999
    reached = f"the 50 best tools reach {decision.coverage:g}"
    assert any("coverage 0.999 " in warning and reached in warning for warning in decision.warnings)


async def test_a_set_that_is_the_whole_catalogue_misses_nothing() -> None:
    async with Router(Catalogue([tool("bank:pay", "Pay a bill"), tool("bank:list", "List the bills")])) as router:
        decision = await covering(router, "pay the bill", 0.999)
    assert (len(decision.matches), decision.coverage, decision.warnings) == (2, 1.0, ())


async def test_the_keyword_leg_alone_is_held_to_thresholds_of_its_own(router: Router) -> None:
    decision = await covering(router, TASK, 0.7, route_hint=RouteHint.KEYWORD)
    assert not decision.semantic_ran
    last = conformities([match.score for match in decision.matches])[-1]
    assert last >= shipped()["keyword"][LEVELS.index(0.7)]


@pytest.mark.parametrize("tools", [[], [tool("bank:pay", "Pay a bill")]], ids=["none", "one"])
async def test_what_holds_all_tools_there_are_but_none_that_fits_is_not_called_sure(tools: list[Tool]) -> None:
    async with Router(Catalogue(tools)) as router:
        decision = await covering(router, "hello", 0.9)
    assert (decision.stage, decision.coverage, len(decision.matches)) == (Stage.NONE, 0.0, len(tools))
    assert "coverage 0.9 is not reached: nothing fits" in decision.warnings
    assert not any("best tools" in warning for warning in decision.warnings)


@pytest.mark.parametrize("coverage", [0.0, 1.0, float("nan")])
async def test_what_is_no_probability_is_refused(router: Router, coverage: float) -> None:
    with pytest.raises(InvalidInput, match=r"coverage=.*between 0 and 1"):
        await covering(router, TASK, coverage)


def test_a_wanted_level_takes_the_next_threshold_above_it() -> None:
    thresholds = {"both": [1 - level for level in LEVELS]}
    scores = [1.0, 0.9, 0.3, 0.2]  # Conformities 1, 0.45, 0.1 and 0.05; the threshold of a level is what it leaves.
    found = smallest(scores, 0.545, "both", most=50, thresholds=thresholds)
    assert (found.count, found.coverage) == (2, 0.545)
    capped = smallest(scores, 0.93, "both", most=2, thresholds=thresholds)
    assert capped.count == 2
    assert capped.coverage == pytest.approx(0.89)
