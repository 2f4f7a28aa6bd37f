"""Routing stage by stage. Each stage may run on another worker, and the findings pass between them as a plain record.

Each stage opens the tenant's index itself and runs the same pipeline as `Router.route`.
"""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import CatalogueChanged
from orchestrator.index.features import KEYWORD, SEMANTIC
from orchestrator.pipeline.legs.keyword import search_of
from orchestrator.pipeline.legs.semantic import KEYWORD_ALONE
from orchestrator.pipeline.pipeline import GATE, Clock, Pipeline
from orchestrator.pipeline.scoring import Candidates, ClauseScores
from orchestrator.pipeline.state import State, Task
from orchestrator.records import durable_names as names
from orchestrator.records.decision import Decision
from orchestrator.records.findings import Findings, PartEvidence
from orchestrator.records.request import RouteRequest
from orchestrator.runtime.report import report
from orchestrator.runtime.router import Router

Value = TypeVar("Value")
_STAGES = {
    names.MATCH_ALWAYS_AVAILABLE: "always",
    names.DETECT_EXPLICIT_SERVER: "explicit",
    names.KEYWORD_GATE: GATE,
}
"""The last stage of the pipeline that each activity runs. The semantic fallback runs it to the last fallback leg."""
_AS_THEY_ARE = ("settled", "explicit", "gate_confidence", "gate_open", "recalled", "usage", "about", "warnings")
"""The fields that State and Findings share unchanged."""
_ARRAYS: Mapping[str, Any] = {
    "overlap": np.bool_,
    **dict.fromkeys(("support", "keyword", "semantic", "chances"), np.float64),
}
"""The arrays of ClauseScores that are lists in a PartEvidence, shape [candidates]."""


async def find(router: Router, request: RouteRequest, before: Findings, activity: str) -> Findings:
    """Run the router's pipeline to the stage of this activity and return the findings.

    If the pipeline has no such stage, or has passed it, the findings do not change.

    Args:
        router: The Router.
        request: The request.
        before: The findings of the activities before.
        activity: The name of the activity.
    """
    stages = list(router.pipeline.stages)
    until = _stage_of(router.pipeline, activity)
    skips = tuple(name for name in (*_STAGES, names.SEMANTIC_FALLBACK) if not _stage_of(router.pipeline, name))
    start = stages.index(before.ran_until) + 1 if before.ran_until else 0
    if not until or stages.index(until) < start:
        return replace(before, skips=skips)
    state, clock = await _begin(router, request, before)
    state = await router.pipeline.run(state, clock, start=stages[start], until=until)
    return replace(_written(state, clock), ran_until=until, skips=skips)


async def merge(router: Router, request: RouteRequest, before: Findings, keyword_alone: str = "") -> Decision:
    """Return the Decision from the findings of all stages.

    Args:
        router: The Router.
        request: The request.
        before: The findings of all stages.
        keyword_alone: Why the semantic stage did not answer. Empty if it did.
    """
    state, clock = await _begin(router, request, before)
    if keyword_alone:
        state = replace(state, warnings=(*state.warnings, f"{KEYWORD_ALONE}{keyword_alone}"))
    last = _stage_of(router.pipeline, names.SEMANTIC_FALLBACK) or GATE
    return report(await router.pipeline.run(state, clock, start=router.pipeline.after(last)), {})


def _stage_of(pipeline: Pipeline, activity: str) -> str:
    """Return the name of the last stage that an activity runs. Empty if the pipeline has none."""
    if activity == names.SEMANTIC_FALLBACK:
        stages = list(pipeline.stages)
        return stages[stages.index(GATE) + len(pipeline.fallback)] if pipeline.fallback else ""
    name = _STAGES[activity]
    return name if name in pipeline.stages else ""


async def _begin(router: Router, request: RouteRequest, before: Findings) -> tuple[State, Clock]:
    """Return the state before the next stage. Raise CatalogueChanged if the findings belong to another catalogue."""
    request.validate()
    clock = Clock(before.timings_ms)
    state = await router._begin(request, clock, before.needs if before.catalogue else None)
    now = state.task.index.catalogue.fingerprint
    if before.catalogue and before.catalogue != now:
        raise CatalogueChanged(
            f"the earlier stages used the catalogue {before.catalogue}, but this worker has {now}: route again, and "
            "give all workers of a route the same catalogue or store"
        )
    return _read(state, before) if before.catalogue else state, clock


def _written(state: State, clock: Clock) -> Findings:
    candidates, task = state.candidates, state.task
    parts = (candidates.whole, *candidates.clauses) if candidates else ()
    return Findings(
        catalogue=task.index.catalogue.fingerprint,
        always=_by_key(task, state.always),
        allowed="" if state.allowed is None else base64.b64encode(np.packbits(state.allowed).tobytes()).decode(),
        parts=tuple(_part_written(task, part) for part in parts),
        no_tool_similarity=candidates.no_tool_similarity if candidates else 0.0,
        near_flagged=_by_key(task, state.near_flagged),
        lists={leg: _by_key(task, scores) for leg, scores in state.lists.items()},
        needs=tuple(need.text for need in task.understood.needs),
        timings_ms=dict(clock.spent),
        **{name: getattr(state, name) for name in _AS_THEY_ARE},
    )


def _read(state: State, found: Findings) -> State:
    task = state.task
    state = replace(
        state,
        always=_by_position(task, found.always),
        allowed=_bits(found.allowed, len(task.index.catalogue)) if found.allowed else None,
        near_flagged=_by_position(task, found.near_flagged),
        lists={leg: _by_position(task, scores) for leg, scores in found.lists.items()},
        **{name: getattr(found, name) for name in _AS_THEY_ARE},
    )
    if not found.parts:
        return state
    whole, *clauses = (_part_read(task, part) for part in found.parts)
    candidates = Candidates(
        search=search_of(state), whole=whole, clauses=tuple(clauses), no_tool_similarity=found.no_tool_similarity
    )
    return replace(state, candidates=candidates)


def _part_written(task: Task, part: ClauseScores) -> PartEvidence:
    tools, arrays = task.index.catalogue.tools, {name: getattr(part, name) for name in _ARRAYS}
    lists: dict[str, Any] = {n: None if values is None else tuple(values.tolist()) for n, values in arrays.items()}
    return PartEvidence(
        tools=tuple(tools[position].key for position in part.positions.tolist()),
        rows=base64.b64encode(part.rows.astype("<f8").tobytes()).decode(),
        query=tuple(part.query),
        sure=part.confidence,
        **lists,
    )


def _part_read(task: Task, part: PartEvidence) -> ClauseScores:
    positions, lists = task.index.catalogue.positions, {name: getattr(part, name) for name in _ARRAYS}
    arrays: dict[str, Any] = {
        name: None if values is None else np.array(values, _ARRAYS[name]) for name, values in lists.items()
    }
    features = len(KEYWORD) if part.semantic is None else len(KEYWORD) + len(SEMANTIC)
    return ClauseScores(
        positions=np.array([positions[key] for key in part.tools], np.int64),
        rows=np.frombuffer(base64.b64decode(part.rows), "<f8").reshape(len(part.tools), features),
        query=list(part.query),
        confidence=part.sure,
        **arrays,
    )


def _bits(text: str, size: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=size).astype(np.bool_)


def _by_key(task: Task, found: Mapping[int, Value]) -> dict[str, Value]:
    return {task.index.catalogue.tools[position].key: value for position, value in found.items()}


def _by_position(task: Task, found: Mapping[str, Value]) -> dict[int, Value]:
    return {task.index.catalogue.positions[key]: value for key, value in found.items()}
