"""The pipeline as data: a user changes a preset, writes a leg, a gate, a refiner or a selection."""

import asyncio
import re
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator import Catalogue, Decision, Fusion, Pipeline, PipelineStage, Router, Stage, State, preset
from orchestrator.errors import InvalidInput
from orchestrator.pipeline.fusion import fuse
from orchestrator.pipeline.legs.keyword import keyword
from orchestrator.pipeline.legs.semantic import semantic
from orchestrator.pipeline.selection.select import select
from tests.catalogues import PRESETS, keys, sample, tool
from tests.pages import ROOT, printed, python_of

DEFAULT = preset("default")
TASK = "refund charge ch_3PqX, the customer paid twice"
ELSEWHERE = "facilities:book_desk"


async def routed(pipeline: Pipeline, query: str = TASK) -> Decision:
    async with Router(sample(), pipeline=pipeline) as router:
        return await router.route(query)


def votes(state: State) -> State:
    return state.listed("mine", {state.task.index.catalogue.positions[ELSEWHERE]: 0.999})


async def votes_later(state: State) -> State:
    return votes(state)


@pytest.mark.parametrize("leg", [votes, votes_later])
async def test_a_leg_of_ones_own_votes_for_tools_and_is_evidence_and_timed(leg: object) -> None:
    decision = await routed(replace(DEFAULT, first=(*DEFAULT.first, leg)))  # type: ignore[arg-type]
    first, second = decision.matches[:2]
    assert (first.tool.key, first.probability, first.evidence["mine"]) == (ELSEWHERE, 0.999, 0.999)
    assert second.tool.key == "stripe:refund_charge"
    assert getattr(leg, "__name__", "") in decision.timings_ms


async def test_a_gate_decides_whether_fallback_legs_run() -> None:
    assert not (await routed(DEFAULT)).semantic_ran
    assert (await routed(replace(DEFAULT, gate=lambda state: False))).semantic_ran
    vague = "the boardroom is ice cold, warm it up"
    assert not (await routed(replace(DEFAULT, gate=lambda state: True), vague)).semantic_ran


async def test_a_refiner_reorders_and_annotates() -> None:
    def last_first(state: State) -> State:
        return state.moved(state.order[::-1]).noted({state.order[-1]: "the last"})

    plain = await routed(DEFAULT)
    refined = await routed(replace(DEFAULT, refiners=(*DEFAULT.refiners, last_first)))
    assert refined.matches[0].tool.key != plain.matches[0].tool.key
    assert refined.matches[0].why.startswith("the last; ")
    bare = await routed(replace(DEFAULT, refiners=()))
    assert {match.tool.key for match in bare.matches[:1]} == {"stripe:refund_charge"}


async def test_a_fusion_and_a_selection_are_exchanged() -> None:
    def first_alone(state: State) -> Decision:
        return select(replace(state, task=replace(state.task, request=replace(state.task.request, limit=1))))

    assert len((await routed(replace(DEFAULT, select=first_alone))).matches) == 1
    vague = "create an issue about the broken login page"
    orders = []
    for fusion in (Fusion.LEARNT, Fusion.RRF):
        pipeline = replace(DEFAULT, gate=lambda state: False, fusion=partial(fuse, default=fusion))
        orders.append(keys(await routed(pipeline, vague)))
    assert orders[0] != orders[1]


LEGS: dict[str, tuple[tuple[PipelineStage, ...], tuple[PipelineStage, ...]]] = {
    "semantic": ((), (semantic,)),
    "semantic, first": ((semantic,), ()),
    "keyword": ((keyword,), ()),
    "keyword, fallback": ((), (keyword,)),
    "both, at once": ((keyword, semantic), ()),
    "both, meaning first": ((semantic, keyword), ()),
}


@pytest.mark.parametrize("fusion", Fusion)
@pytest.mark.parametrize("legs", LEGS)
async def test_any_legs_make_a_pipeline_that_finds_by_these_alone(legs: str, fusion: Fusion) -> None:
    first, fallback = LEGS[legs]
    pipeline = replace(DEFAULT, name=legs, first=first, fallback=fallback, fusion=partial(fuse, default=fusion))
    wanted = {"keyword", "semantic"} if "both" in legs else {legs.partition(",")[0]}
    async with Router(sample(), pipeline=pipeline) as router:
        tasks = (TASK, "create a jira issue and post it to slack", "it is ice cold in the boardroom")
        decisions = [await router.route(task) for task in tasks]
    for decision in decisions:
        evidence = {leg for match in decision.matches for leg in match.evidence} - {"required", "stated"}
        assert evidence == wanted or (decision is decisions[-1] and evidence <= wanted)
    assert decisions[0].matches[0].tool.key == "stripe:refund_charge"


async def test_what_cannot_route_is_refused_when_it_is_made() -> None:
    with pytest.raises(InvalidInput, match="pipeline 'mine' has no leg"):
        replace(DEFAULT, name="mine", first=(), fallback=())
    with pytest.raises(InvalidInput, match="pipeline 'mine': refiners has the stage 'related'; give a function"):
        replace(DEFAULT, name="mine", refiners=("related",))  # type: ignore[arg-type]


async def test_without_a_leg_that_finds_anything_the_answer_is_none() -> None:
    decision = await routed(replace(DEFAULT, first=(lambda state: state,), fallback=()))
    assert (decision.stage, decision.recommended) == (Stage.NONE, ())


async def test_a_preset_goes_by_its_name_and_an_unknown_one_is_refused_with_those_there_are() -> None:
    assert [preset(name).name for name in PRESETS] == list(PRESETS)
    async with Router(sample(), pipeline="default") as router:
        assert router.pipeline is DEFAULT
    with pytest.raises(InvalidInput, match=f"unknown pipeline 'fast': give one of {', '.join(PRESETS)}$"):
        Router(sample(), pipeline="fast")


async def at_once(work: Callable[[], Any]) -> Any:
    return work()


def state(**scores: float) -> State:
    """Return a State with these probabilities. `p3=0.5` is the tool at position 3."""
    own = {int(name[1:]): score for name, score in scores.items()}
    task: Any = SimpleNamespace(compute=at_once, index=SimpleNamespace(tools=range(10)))
    return State(task=task, scores=own, confidence=max(own.values(), default=0.0))


def test_pipelines_and_states_are_frozen() -> None:
    for record, field in ((DEFAULT, "name"), (state(), "settled")):
        with pytest.raises(FrozenInstanceError):
            setattr(record, field, None)


def test_a_changed_probability_moves_its_tool_alone() -> None:
    ranked = state(p1=0.9, p2=0.5, p3=0.7, p4=0.1)  # 2 stands ahead of 3, as a refiner decided.
    assert ranked.rescored({4: 0.6}).order == (1, 2, 3, 4)
    assert ranked.rescored({4: 0.8}).order == (1, 4, 2, 3)
    assert ranked.rescored({1: 0.2, 5: 0.95}).order == (5, 2, 3, 1, 4)
    assert ranked.rescored({}) is ranked


def test_another_order_leaves_probabilities_and_bounds_the_confidence() -> None:
    ranked = state(p1=0.9, p2=0.5, p3=0.1).reordered([3, 7])
    assert dict(ranked.scores) == {3: 0.1, 7: 0.0, 1: 0.9, 2: 0.5}
    assert ranked.order == (3, 7, 1, 2)
    assert ranked.confidence == 0.1
    assert state().reordered([]).order == ()


async def test_a_pipeline_runs_from_one_stage_until_another() -> None:
    seen: list[str] = []

    def named(name: str) -> PipelineStage:
        def stage(state: State) -> State:
            seen.append(name)
            return state

        stage.__name__ = name
        return stage

    pipeline = Pipeline(
        name="mine",
        first=(named("a"), named("b")),
        gate=lambda state: True,
        fallback=(named("a"),),
        fusion=named("c"),
        refiners=(named("d"),),
    )
    assert [*pipeline.stages] == ["a", "b", "gate", "a_2", "c", "d", "select"]
    odd = replace(pipeline, first=(named("gate"), lambda state: state))
    assert [*odd.stages][:3] == ["gate_2", "stage", "gate"]
    await pipeline.run(state(), start="b", until="d")
    assert seen == ["b", "c", "d"]
    await pipeline.run(state(), until="a")
    assert seen[3:] == ["a"]
    with pytest.raises(KeyError, match="no stage 'e': it has a, b, gate"):
        await pipeline.run(state(), until="e")


def raises(state: State) -> State:
    raise RuntimeError("boom")


async def raises_later(state: State) -> State:
    raise RuntimeError("boom")


def nothing(state: State) -> State:
    state.listed("nothing", {0: 1.0})
    return None  # type: ignore[return-value]


def loud(state: State) -> State:
    return state.listed("loud", {0: 7.0})


def elsewhere(state: State) -> State:
    return state.listed("elsewhere", {10_000: 0.5})


def huge(state: State) -> State:
    return state.listed("huge", {0: 10**400})


async def without_lists(state: State) -> State:
    return replace(state, lists=None)  # type: ignore[arg-type]


def without_lists_at_once(state: State) -> State:
    return replace(state, lists=None)  # type: ignore[arg-type]


def no_number(state: State) -> State:
    return state.listed("no_number", {0: float("nan")})


@pytest.mark.parametrize(
    ("stage", "why"),
    [
        (raises, r"'raises' failed \(RuntimeError: boom\): its result is ignored"),
        (raises_later, r"'raises_later' failed \(RuntimeError: boom\)"),
        (nothing, "'nothing' returned None, not the state: its result is ignored"),
        (loud, r"leg 'loud' returned the score 7\.0: the leg is ignored; return probabilities"),
        (elsewhere, r"'elsewhere' scored 10000, which is not a tool's position \(state.task.index.catalogue.posi.*"),
        (huge, r"'huge' failed \(OverflowError: .*\): its result is ignored"),
        (without_lists, r"'without_lists' failed \(AttributeError: .*\): its result is ignored"),
        (without_lists_at_once, r"'without_lists_at_once' failed \(AttributeError: .*\): its result is ignored"),
        (no_number, "'no_number' returned the score nan, which is not a number"),
    ],
)
async def test_a_leg_or_refiner_that_fails_is_named_and_the_others_answer(stage: PipelineStage, why: str) -> None:
    plain = await routed(DEFAULT)
    leg = await routed(replace(DEFAULT, first=(*DEFAULT.first, stage)))
    refiner = await routed(replace(DEFAULT, refiners=(*DEFAULT.refiners, stage)))
    assert keys(leg) == keys(plain)
    assert [match.probability for match in refiner.matches] == [match.probability for match in plain.matches]
    assert re.fullmatch(f"(leg )?{why}.*", leg.warnings[0])
    if stage is not loud:  # Nothing reads lists any more when refiners run.
        assert re.fullmatch(f"refiner {why}.*", refiner.warnings[0])


async def test_a_fusion_of_ones_own_that_fails_has_no_other_to_answer() -> None:
    with pytest.raises(RuntimeError, match="boom"):
        await routed(replace(DEFAULT, fusion=raises))
    with pytest.raises(
        InvalidInput, match="pipeline 'default': nothing returned None, but a stage must return the State"
    ):
        await routed(replace(DEFAULT, fusion=nothing))


async def test_votes_of_ones_own_count_in_confidence_and_reason() -> None:
    by_leg = await routed(replace(DEFAULT, first=(*DEFAULT.first, votes)))
    assert by_leg.confidence == 0.999
    assert by_leg.matches[0].why.startswith("mine: probability 1.00")

    def promotes(state: State) -> State:
        return state.rescored({state.task.index.catalogue.positions[ELSEWHERE]: 0.999})

    def demotes(state: State) -> State:
        return state.rescored({state.order[0]: 0.01})

    by_refiner = await routed(replace(DEFAULT, refiners=(*DEFAULT.refiners, promotes)))
    first = by_refiner.matches[0]
    assert (first.tool.key, by_refiner.confidence, first.evidence["promotes"]) == (ELSEWHERE, 0.999, 0.999)
    assert "promotes: probability 1.00" in first.why
    assert (await routed(replace(DEFAULT, refiners=(*DEFAULT.refiners, demotes)))).confidence < 0.1


async def test_stages_leave_the_event_loop_over_a_large_catalogue() -> None:
    seen = list[bool]()

    def where(state: State) -> State:
        seen.append(threading.current_thread() is threading.main_thread())
        return state

    pipeline = replace(
        DEFAULT, first=(*DEFAULT.first, where), refiners=(where, *DEFAULT.refiners), gate=lambda _: False
    )
    tools = [tool(f"s{number % 50}:do_{number}", f"Do the thing with the number {number}") for number in range(2_000)]
    found = []
    for catalogue in (Catalogue(tools), Catalogue(tools[:-1])):
        async with Router(catalogue, pipeline=pipeline) as router:
            found.append(await router.route("do the thing with the number 7", limit=3))
    assert seen == [False, False, True, True]
    assert keys(found[0]) == keys(found[1])


async def test_the_leg_of_the_page_votes(tmp_path: Path) -> None:
    (code,) = python_of("docs/how-to/stages.md")
    shown = await asyncio.to_thread(printed, code, tmp_path)
    page = (ROOT / "docs/how-to/stages.md").read_text(encoding="utf-8")
    assert shown.startswith("[('stripe:list_disputes', 'favourites: probability 0.90; ")
    assert "('stripe:refund_charge', " in shown
    assert f"```text\n{shown}```" in page
