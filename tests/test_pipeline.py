"""The pipeline as data: a user changes a preset, writes a leg, a gate, a refiner or a selection."""

from dataclasses import FrozenInstanceError, replace
from functools import partial

import pytest

from orchestrator.errors import InvalidInput
from orchestrator.pipeline.decide import decide
from orchestrator.pipeline.fusion import fuse
from orchestrator.pipeline.legs.keyword import keyword
from orchestrator.pipeline.legs.semantic import semantic
from orchestrator.pipeline.pipeline import PRESETS, Leg, Pipeline
from orchestrator.pipeline.state import Found, Ranking, Task
from orchestrator.records.decision import Decision
from orchestrator.records.request import Fusion
from orchestrator.records.tool import Stage
from orchestrator.runtime.router import Router
from tests.catalogues import sample

DEFAULT = Pipeline.named("default")
TASK = "refund charge ch_3PqX, the customer paid twice"
ELSEWHERE = "facilities:book_desk"


async def routed(pipeline: Pipeline, query: str = TASK) -> Decision:
    async with Router(sample(), pipeline=pipeline) as router:
        return await router.route(query)


def votes(task: Task, found: Found) -> Found:
    return replace(found, votes={**found.votes, "mine": {task.index.catalogue.positions[ELSEWHERE]: 0.999}})


async def votes_later(task: Task, found: Found) -> Found:
    return votes(task, found)


@pytest.mark.parametrize("leg", [votes, votes_later])
async def test_a_leg_of_ones_own_votes_for_tools_and_is_evidence_and_timed(leg: object) -> None:
    decision = await routed(replace(DEFAULT, cheap=(*DEFAULT.cheap, leg)))  # type: ignore[arg-type]
    first, second = decision.matches[:2]
    assert (first.tool.key, first.score, first.evidence["mine"]) == (ELSEWHERE, 0.999, 0.999)
    assert second.tool.key == "stripe:refund_charge"
    assert getattr(leg, "__name__", "") in decision.timings_ms


async def test_a_gate_of_ones_own_decides_whether_the_dear_legs_run() -> None:
    assert not (await routed(DEFAULT)).semantic_ran
    assert (await routed(replace(DEFAULT, gate=lambda task, found: False))).semantic_ran
    vague = "the boardroom is ice cold, warm it up"
    assert not (await routed(replace(DEFAULT, gate=lambda task, found: True), vague)).semantic_ran


async def test_a_refiner_of_ones_own_takes_a_ranking_and_returns_one() -> None:
    def last_first(task: Task, found: Found, ranking: Ranking) -> Ranking:
        return replace(ranking, order=ranking.order[::-1], notes=ranking.noted({ranking.order[-1]: "the last"}))

    plain = await routed(DEFAULT)
    refined = await routed(replace(DEFAULT, refiners=(*DEFAULT.refiners, last_first)))
    assert refined.matches[0].tool.key != plain.matches[0].tool.key
    assert refined.matches[0].why.startswith("the last; ")
    bare = await routed(replace(DEFAULT, refiners=()))
    assert {match.tool.key for match in bare.matches[:1]} == {"stripe:refund_charge"}


async def test_a_fusion_and_a_selection_are_exchanged() -> None:
    def first_alone(task: Task, found: Found, ranking: Ranking) -> Decision:
        return decide(replace(task, request=replace(task.request, limit=1)), found, ranking)

    assert len((await routed(replace(DEFAULT, select=first_alone))).matches) == 1
    vague = "create an issue about the broken login page"
    orders = []
    for fusion in (Fusion.LEARNT, Fusion.RRF):
        pipeline = replace(DEFAULT, gate=lambda task, found: False, fusion=partial(fuse, default=fusion))
        orders.append([match.tool.key for match in (await routed(pipeline, vague)).matches])
    assert orders[0] != orders[1]


LEGS: dict[str, tuple[tuple[Leg, ...], tuple[Leg, ...]]] = {
    "semantic": ((), (semantic,)),
    "semantic, cheap": ((semantic,), ()),
    "keyword": ((keyword,), ()),
    "keyword, dear": ((), (keyword,)),
    "both, at once": ((keyword, semantic), ()),
    "both, meaning first": ((semantic, keyword), ()),
}


@pytest.mark.parametrize("fusion", Fusion)
@pytest.mark.parametrize("legs", LEGS)
async def test_any_legs_make_a_pipeline_that_finds_by_these_alone(legs: str, fusion: Fusion) -> None:
    cheap, dear = LEGS[legs]
    pipeline = replace(DEFAULT, name=legs, cheap=cheap, dear=dear, fusion=partial(fuse, default=fusion))
    for task in (TASK, "create a jira issue and post it to slack", "it is ice cold in the boardroom"):
        decision = await routed(pipeline, task)
        evidence = {leg for match in decision.matches for leg in match.evidence} - {"required", "stated"}
        wanted = {"keyword", "semantic"} if "both" in legs else {legs.partition(",")[0]}
        assert evidence == wanted or (task.startswith("it") and evidence <= wanted)
    first = (await routed(pipeline)).matches[0].tool.key
    assert first == "stripe:refund_charge"


async def test_what_cannot_route_is_refused_when_it_is_made() -> None:
    with pytest.raises(InvalidInput, match="pipeline 'mine' has no leg"):
        replace(DEFAULT, name="mine", cheap=(), dear=())
    with pytest.raises(InvalidInput, match="pipeline 'mine': refiners holds 'related'; give a function"):
        replace(DEFAULT, name="mine", refiners=("related",))  # type: ignore[arg-type]


async def test_without_a_leg_that_finds_anything_the_answer_is_none() -> None:
    decision = await routed(replace(DEFAULT, cheap=(lambda task, found: found,), dear=()))
    assert (decision.stage, decision.recommended) == (Stage.NONE, ())


async def test_a_preset_goes_by_its_name_and_an_unknown_one_is_refused_with_those_there_are() -> None:
    assert [Pipeline.named(name).name for name in PRESETS] == list(PRESETS)
    async with Router(sample(), pipeline="default") as router:
        assert router.pipeline is DEFAULT
    with pytest.raises(InvalidInput, match=r"pipeline 'fast': give one of default"):
        Router(sample(), pipeline="fast")


def test_what_stages_pass_on_is_frozen() -> None:
    for record, field in (
        (DEFAULT, "name"),
        (Found(), "settled"),
        (Ranking(order=(), scores={}, evidence={}, confidence=0.0), "order"),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(record, field, None)
