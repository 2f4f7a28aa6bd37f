"""Legs and refiners of the user: one that fails is named in a warning, and its votes count like those of the others."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from numbers import Real
from typing import Any

from orchestrator.pipeline.state import State

logger = logging.getLogger(__name__)
_OURS = __name__.partition(".")[0]


def is_users(stage: Any) -> bool:
    """Return True if a stage is the user's own, not of this package."""
    module = getattr(getattr(stage, "func", stage), "__module__", None) or ""
    return module.partition(".")[0] != _OURS


def failed(before: State, name: str, error: Exception, *, refines: bool) -> State:
    """Return the state without the failed stage's result, with a warning. The traceback is logged.

    Args:
        before: The state before the stage.
        name: The stage's name.
        error: The error.
        refines: True for a refiner.
    """
    logger.warning("stage %r failed", name, exc_info=error)
    return _without(before, name, f"failed ({type(error).__name__}: {error})", refines)


def checked(before: State, name: str, after: Any, *, refines: bool) -> State:
    """Return the usable parts of a stage's result. A warning names the unusable parts.

    Args:
        before: The state before the stage.
        name: The stage's name.
        after: The stage's result.
        refines: True for a refiner.
    """
    if not isinstance(after, State):
        given = "None" if after is None else f"a {type(after).__name__}"
        return _without(before, name, f"returned {given}, not the state", refines)
    changed = [own for leg, own in after.lists.items() if before.lists.get(leg) is not own]
    for scores in [*changed, *([after.scores] if refines else [])]:
        if wrong := _wrong(after, scores):
            return _without(before, name, wrong, refines)
    return _counted(before, name, after) if refines else after


def _without(state: State, name: str, why: str, refines: bool) -> State:
    warning = f"{'refiner' if refines else 'leg'} {name!r} {why}: its result is ignored"
    return replace(state, warnings=(*state.warnings, warning))


def _wrong(state: State, scores: Mapping[Any, Any]) -> str:
    """Return the problem with scores by position, or ""."""
    count = len(state.task.index.catalogue)
    for place, score in scores.items():
        if isinstance(place, bool) or not hasattr(place, "__index__") or not 0 <= place < count:
            return f"scored {place!r}, which is not a tool's position (state.task.index.catalogue.positions[key])"
        if not isinstance(score, Real) or not isfinite(score):
            return f"returned the score {score!r}, which is not a number"
    return ""


def _counted(before: State, name: str, after: State) -> State:
    """Return the state with a refiner's votes as evidence and reason. The confidence follows a new first tool."""
    votes = {place: score for place, score in after.scores.items() if before.scores.get(place) != score}
    voted = after.with_evidence(name, votes).noted(
        {place: f"{name}: probability {score:.2f}" for place, score in votes.items()}
    )
    first, led = next(iter(after.scores), None), next(iter(before.scores), None)
    if not votes or first is None or after.confidence != before.confidence or (first == led and first not in votes):
        return voted
    return replace(voted, confidence=after.scores[first])
