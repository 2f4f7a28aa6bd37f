"""Route stage by stage, each of them anywhere: what was found passes between them as a plain record.

Every stage opens the tenant's index by itself and runs the same callables as `Router.route`.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import CatalogueChanged
from orchestrator.index.features import KEYWORD, SEMANTIC
from orchestrator.pipeline.legs.keyword import search_of
from orchestrator.pipeline.legs.semantic import KEYWORD_ALONE
from orchestrator.pipeline.pipeline import Leg
from orchestrator.pipeline.running import Clock, conclude, run_legs
from orchestrator.pipeline.scoring import Candidates, ClauseScores
from orchestrator.pipeline.state import Found, Task
from orchestrator.records.decision import Decision
from orchestrator.records.findings import Findings, PartEvidence
from orchestrator.records.request import RouteRequest
from orchestrator.runtime.report import report
from orchestrator.runtime.router import Router

Value = TypeVar("Value")
_AS_THEY_ARE = ("settled", "explicit", "gate_confidence", "semantic_ran", "recalled", "needs", "about", "warnings")
"""What Found and Findings hold alike."""
_ARRAYS: Mapping[str, Any] = {
    "overlap": np.bool_,
    **dict.fromkeys(("support", "keyword", "semantic", "chances"), np.float64),
}
"""The arrays of a ClauseScores that are lists in a PartEvidence [candidates]."""


async def find(router: Router, request: RouteRequest, before: Findings, legs: Sequence[Leg]) -> Findings:
    """Return what is found once these legs of the router's pipeline ran, too."""
    task, found, clock = await _begin(router, request, before)
    found = await run_legs(legs, task, found, clock)
    gate_open = router.pipeline.gate(task, found)
    return _written(task, found, gate_open, clock.spent)


async def merge(router: Router, request: RouteRequest, before: Findings, keyword_alone: str = "") -> Decision:
    """Return the Decision made of what all stages found; keyword_alone: why the semantic one did not answer."""
    task, found, clock = await _begin(router, request, before)
    if keyword_alone:
        found = replace(found, warnings=(*found.warnings, f"{KEYWORD_ALONE}{keyword_alone}"))
    decision = await conclude(router.pipeline, task, found, clock)
    report(decision, {}, gate_open=before.gate_open)
    return decision


async def _begin(router: Router, request: RouteRequest, before: Findings) -> tuple[Task, Found, Clock]:
    """Raise CatalogueChanged where the findings hold for another catalogue than this router has now."""
    request.validate()
    clock = Clock(before.timings_ms)
    task, found = await router.begin(request, clock, before.needs if before.catalogue else None)
    now = task.index.catalogue.fingerprint
    if before.catalogue and before.catalogue != now:
        raise CatalogueChanged(
            f"the stages before used the catalogue {before.catalogue}, this worker has {now}: route again, and give "
            "workers that share a route the same catalogue or store"
        )
    return task, _read(task, before) if before.catalogue else found, clock


def _written(task: Task, found: Found, gate_open: bool, spent: Mapping[str, float]) -> Findings:
    candidates = found.candidates
    parts = (candidates.whole, *candidates.clauses) if candidates else ()
    return Findings(
        catalogue=task.index.catalogue.fingerprint,
        always=_by_key(task, found.always),
        allowed="" if found.allowed is None else base64.b64encode(np.packbits(found.allowed).tobytes()).decode(),
        gate_open=gate_open,
        parts=tuple(_part_written(task, part) for part in parts),
        no_tool_similarity=candidates.no_tool_similarity if candidates else 0.0,
        near_flagged=_by_key(task, found.near_flagged),
        votes={leg: _by_key(task, votes) for leg, votes in found.votes.items()},
        lists={leg: _by_key(task, scores) for leg, scores in found.lists.items()},
        timings_ms=dict(spent),
        **{name: getattr(found, name) for name in _AS_THEY_ARE},
    )


def _read(task: Task, found: Findings) -> Found:
    whole, *clauses = (_part_read(task, part) for part in found.parts) if found.parts else (None,)
    read = Found(
        always=_by_position(task, found.always),
        allowed=_bits(found.allowed, len(task.index.catalogue)) if found.allowed else None,
        candidates=Candidates(whole=whole, clauses=tuple(clauses), no_tool_similarity=found.no_tool_similarity)
        if whole
        else None,
        near_flagged=_by_position(task, found.near_flagged),
        votes={leg: _by_position(task, votes) for leg, votes in found.votes.items()},
        lists={leg: _by_position(task, scores) for leg, scores in found.lists.items()},
        **{name: getattr(found, name) for name in _AS_THEY_ARE},
    )
    return replace(read, search=search_of(task, read)) if whole else read


def _part_written(task: Task, part: ClauseScores) -> PartEvidence:
    tools, arrays = task.index.catalogue.tools, {name: getattr(part, name) for name in _ARRAYS}
    lists: dict[str, Any] = {n: None if values is None else tuple(values.tolist()) for n, values in arrays.items()}
    return PartEvidence(
        tools=tuple(tools[position].key for position in part.chosen.tolist()),
        rows=base64.b64encode(part.rows.astype("<f8").tobytes()).decode(),
        query=tuple(part.query),
        sure=part.sure,
        **lists,
    )


def _part_read(task: Task, part: PartEvidence) -> ClauseScores:
    positions, lists = task.index.catalogue.positions, {name: getattr(part, name) for name in _ARRAYS}
    arrays: dict[str, Any] = {
        name: None if values is None else np.array(values, _ARRAYS[name]) for name, values in lists.items()
    }
    features = len(KEYWORD) if part.semantic is None else len(KEYWORD) + len(SEMANTIC)
    return ClauseScores(
        chosen=np.array([positions[key] for key in part.tools], np.int64),
        rows=np.frombuffer(base64.b64decode(part.rows), "<f8").reshape(len(part.tools), features),
        query=list(part.query),
        sure=part.sure,
        **arrays,
    )


def _bits(text: str, size: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=size).astype(np.bool_)


def _by_key(task: Task, found: Mapping[int, Value]) -> dict[str, Value]:
    return {task.index.catalogue.tools[position].key: value for position, value in found.items()}


def _by_position(task: Task, found: Mapping[str, Value]) -> dict[int, Value]:
    return {task.index.catalogue.positions[key]: value for key, value in found.items()}
