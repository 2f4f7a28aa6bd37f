"""Legs and refiners of the user: one that fails is named in a warning, and its votes count like those of the others."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isfinite
from numbers import Real
from typing import Any

from orchestrator.pipeline.state import State

logger = logging.getLogger(__name__)
_PACKAGE = __name__.partition(".")[0]


def is_users(stage: Any) -> bool:
    """Return True if a stage belongs to the user, not to this package."""
    function = getattr(stage, "func", stage)
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] != _PACKAGE


def failed(before: State, name: str, error: Exception, *, refines: bool) -> State:
    """Return the state without the failed stage's result, with a warning. The traceback is logged.

    Args:
        before: The state before the stage.
        name: The stage's name.
        error: The error.
        refines: True for a refiner.
    """
    logger.warning("stage %r failed", name, exc_info=error)
    return _ignored(before, name, f"failed ({type(error).__name__}: {error})", refines)


def checked(before: State, name: str, after: Any, *, refines: bool) -> State:
    """Return the usable parts of a stage's result. A warning names the unusable parts.

    Args:
        before: The state before the stage.
        name: The stage's name.
        after: The stage's result.
        refines: True for a refiner.
    """
    if not isinstance(after, State):
        kind = "None" if after is None else f"a {type(after).__name__}"
        return _ignored(before, name, f"returned {kind}, not the state", refines)
    for scores in _new_scores(before, after, refines):
        problem = _problem(after, scores)
        if problem:
            return _ignored(before, name, problem, refines)
    return _with_votes(before, name, after) if refines else after


def _new_scores(before: State, after: State, refines: bool) -> Iterator[Mapping[Any, Any]]:
    """Yield the scores by position that a stage has changed."""
    for leg, scores in after.lists.items():
        if before.lists.get(leg) is not scores:
            yield scores
    if refines:
        yield after.scores


def _ignored(state: State, name: str, why: str, refines: bool) -> State:
    kind = "refiner" if refines else "leg"
    return state.warned(f"{kind} {name!r} {why}: its result is ignored")


def _problem(state: State, scores: Mapping[Any, Any]) -> str:
    """Return the problem with scores by position, or ""."""
    tools = len(state.task.index.tools)
    for position, score in scores.items():
        is_number = hasattr(position, "__index__") and not isinstance(position, bool)
        if not is_number or not 0 <= position < tools:
            return f"scored {position!r}, which is not a tool's position (state.task.index.catalogue.positions[key])"
        if not isinstance(score, Real) or not isfinite(score):
            return f"returned the score {score!r}, which is not a number"
    return ""


def _with_votes(before: State, name: str, after: State) -> State:
    """Return the state with a refiner's votes as evidence and reason. The confidence follows a new first tool."""
    votes = {
        position: score
        for position, score in after.scores.items()
        if before.scores.get(position) != score
    }
    if not votes:
        return after
    reasons = {position: f"{name}: probability {score:.2f}" for position, score in votes.items()}
    voted = after.with_evidence(name, votes).noted(reasons)
    first = after.first
    has_new_first = first != before.first or first in votes
    if first is None or after.confidence != before.confidence or not has_new_first:
        return voted
    return replace(voted, confidence=after.scores[first])
