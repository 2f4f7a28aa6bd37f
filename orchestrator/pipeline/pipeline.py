"""Pipelines: legs, gate, fusion, refiners and selection as one value, and the one function that runs them.

    first legs -> gate -> fallback legs, if the gate is closed -> fusion -> refiners -> select

A leg or a refiner of the user that fails is named in a warning. The votes of a user's refiner count like those
of the others.
"""

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import isawaitable
from itertools import chain
from math import isfinite
from numbers import Real
from typing import Any

from orchestrator import telemetry
from orchestrator.common.fields import settings
from orchestrator.errors import InvalidInput
from orchestrator.pipeline.selection.select import select as select_matches
from orchestrator.pipeline.state import State
from orchestrator.records.decision import Decision

PipelineStage = Callable[[State], State | Awaitable[State]]
"""A function that returns the state with its own part added. It may be async."""
Gate = Callable[[State], bool]
"""A function that returns True if the results of the first legs are enough."""
Select = Callable[[State], Decision]
"""A function that makes the Decision from the state."""

GATE, SELECT = "gate", "select"
logger = logging.getLogger(__name__)
_PACKAGE = __name__.partition(".")[0]


class Clock:
    """The milliseconds of one request by stage.

    Attributes:
        spent: The milliseconds by the name of the stage.
    """

    def __init__(self) -> None:
        self._last = time.perf_counter()
        # Asked once: a route has many stages, and a provider is set before the first one.
        self._is_traced = telemetry.traces()
        self.spent: dict[str, float] = {}

    def book(self, stage: str) -> None:
        """Book the time since the last call to this stage."""
        now = time.perf_counter()
        seconds = now - self._last
        self.spent[stage] = self.spent.get(stage, 0.0) + seconds * 1000
        if self._is_traced:
            telemetry.stage(stage, seconds)
        self._last = now

    def total(self) -> dict[str, float]:
        """Return all times, with their sum as `total`."""
        return {**self.spent, "total": sum(self.spent.values())}


@settings
@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """One way to route a task.

    A pipeline is a list of named stages: the first legs, the gate, the fallback legs, the fusion, the refiners and the
    selection. A stage has the name of its function. The second stage with the same name has `_2` after it. `gate` and
    `select` are the names of the pipeline's own gate and selection.

    Your own leg or refiner may raise, return no state, or score a position that is no tool. It is then named in the
    Decision's warnings, and the other stages answer. With a large catalogue, stages that are not coroutine functions
    run in a thread (`Router.route`).

    Attributes:
        name: The pipeline's name, for people.
        first: The legs that always run, in order.
        gate: Returns whether the first legs are enough. If they are not, the fallback legs run, too.
        fallback: The legs that run if the gate stays closed, in order.
        fusion: Turns the results of the legs into probabilities.
        refiners: Each one reorders, adds or annotates candidates, in order.
        select: Makes the Decision.

    Raises:
        InvalidInput: A stage cannot be called, or there is no leg at all.

    Examples:
        >>> from dataclasses import replace
        >>> from orchestrator import preset
        >>> keywords_only = replace(preset("default"), name="keywords", fallback=())
    """

    name: str
    first: tuple[PipelineStage, ...]
    gate: Gate
    fallback: tuple[PipelineStage, ...]
    fusion: PipelineStage
    refiners: tuple[PipelineStage, ...]
    select: Select = select_matches

    def __post_init__(self) -> None:
        groups: dict[str, tuple[object, ...]] = {
            "first": self.first,
            "gate": (self.gate,),
            "fallback": self.fallback,
            "fusion": (self.fusion,),
            "refiners": self.refiners,
            "select": (self.select,),
        }
        for group, stages in groups.items():
            for stage in stages:
                if not callable(stage):
                    raise InvalidInput(
                        f"pipeline {self.name!r}: {group} has the stage {stage!r}; give a function"
                    )
        if not self.first and not self.fallback:
            raise InvalidInput(f"pipeline {self.name!r} has no leg: give one in first or fallback")

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the stages by group, such as `first` and `fallback`, in the order in which they run."""
        names = _unique_names((*self.first, *self.fallback, self.fusion, *self.refiners))
        fallback_at = len(self.first)
        fusion_at = fallback_at + len(self.fallback)
        return {
            "first": tuple(names[:fallback_at]),
            "gate": (GATE,),
            "fallback": tuple(names[fallback_at:fusion_at]),
            "fusion": (names[fusion_at],),
            "refiners": tuple(names[fusion_at + 1 :]),
            "select": (SELECT,),
        }

    @cached_property
    def _in_order(self) -> tuple[str, ...]:
        return tuple(chain.from_iterable(self.names.values()))

    @cached_property
    def stages(self) -> Mapping[str, PipelineStage]:
        """The stages by name, in the order in which they run."""
        legs = (*self.first, self._gate, *self.fallback)
        rest = (self.fusion, *self.refiners, self._select)
        return dict(zip(self._in_order, (*legs, *rest), strict=True))

    @cached_property
    def _legs(self) -> frozenset[str]:
        return frozenset((*self.names["first"], *self.names["fallback"]))

    @cached_property
    def _of_user(self) -> frozenset[str]:
        """The legs and refiners that belong to the user, not to this package."""
        names = self._legs.union(self.names["refiners"])
        return frozenset(name for name in names if _is_users(self.stages[name]))

    async def run(
        self, state: State, clock: Clock | None = None, *, start: str = "", until: str = ""
    ) -> State:
        """Return the state once the stages from `start` to `until` have run, both included.

        Args:
            state: The state before the first of these stages.
            clock: Measures the time of each leg, and of all later stages together as `select`.
            start: The name of the first stage to run. Default: the first of all.
            until: The name of the last stage to run. Default: the last of all.

        Raises:
            KeyError: There is no stage of this name.
        """
        names = self._in_order
        first = self._position(start) if start else 0
        last = self._position(until) if until else len(names) - 1
        remaining = deque(names[first : last + 1])
        while remaining:
            advance = partial(self._advance, state, remaining, clock)
            state, pending = await state.task.compute(advance)
            if pending is not None:
                name = remaining.popleft()
                result = await self._awaited(name, state, pending)
                state = self._guarded(name, state, result, clock)
        if clock and state.decision is not None:
            decision = replace(state.decision, timings_ms=clock.total())
            state = replace(state, decision=decision)
        return state

    def after(self, name: str) -> str:
        """Return the name of the stage behind this one."""
        return self._in_order[self._position(name) + 1]

    def _position(self, name: str) -> int:
        names = self._in_order
        if name not in names:
            raise KeyError(
                f"pipeline {self.name!r} has no stage {name!r}: it has {', '.join(names)}"
            )
        return names.index(name)

    def _advance(
        self, state: State, remaining: deque[str], clock: Clock | None
    ) -> tuple[State, Awaitable[State] | None]:
        """Run the remaining stages until one returns an awaitable. That stage remains in the list."""
        while remaining:
            name = remaining[0]
            is_skipped = state.gate_open and name in self.names["fallback"]
            if not is_skipped:
                try:
                    result = self.stages[name](state)
                except Exception as error:
                    result = self._failed(name, state, error)
                if isawaitable(result):
                    return state, result
                state = self._guarded(name, state, result, clock)
            remaining.popleft()
        return state, None

    async def _awaited(self, name: str, state: State, pending: Awaitable[State]) -> State:
        try:
            return await pending
        except Exception as error:
            return self._failed(name, state, error)

    def _failed(self, name: str, state: State, error: Exception) -> State:
        """Return the state with a warning about a user's failed stage. An error of our own stage is raised again."""
        if name not in self._of_user:
            raise error
        logger.warning("stage %r failed", name, exc_info=error)
        return self._ignored(name, state, f"failed ({type(error).__name__}: {error})")

    def _guarded(self, name: str, before: State, after: State, clock: Clock | None) -> State:
        """Return the finished state. A user's stage may return parts that cannot even be checked: `lists=None`."""
        try:
            return self._finished(name, before, after, clock)
        except Exception as error:
            return self._failed(name, before, error)

    def _finished(self, name: str, before: State, after: State, clock: Clock | None) -> State:
        """Return the state after a stage, once its time is booked."""
        if name in self._of_user:
            after = self._checked(name, before, after)
        elif not isinstance(after, State):
            raise InvalidInput(
                f"pipeline {self.name!r}: {name} returned {after!r:.80}, but a stage must return the State"
            )
        has_searched = name in self._legs and after is not before
        if clock and (has_searched or name == SELECT):
            clock.book(_name(self.stages[name]))
        return after

    def _checked(self, name: str, before: State, after: Any) -> State:
        """Return the usable parts of the result of a user's stage. A warning names the unusable parts."""
        if not isinstance(after, State):
            kind = "None" if after is None else f"a {type(after).__name__}"
            return self._ignored(name, before, f"returned {kind}, not the state")
        refines = name in self.names["refiners"]
        for scores in _new_scores(before, after, refines=refines):
            problem = _problem(after, scores)
            if problem:
                return self._ignored(name, before, problem)
        return _with_votes(before, name, after) if refines else after

    def _ignored(self, name: str, state: State, why: str) -> State:
        kind = "refiner" if name in self.names["refiners"] else "leg"
        return state.warned(f"{kind} {name!r} {why}: its result is ignored")

    def _gate(self, state: State) -> State:
        return replace(state, gate_open=self.gate(state))

    def _select(self, state: State) -> State:
        return replace(state, decision=self.select(state))


def _unique_names(stages: Sequence[PipelineStage]) -> list[str]:
    """Return the names of these stages, a second stage of a name with a number."""
    names: list[str] = []
    for stage in stages:
        name = _name(stage)
        number = 1
        while name in names or name in (GATE, SELECT):
            number += 1
            name = f"{_name(stage)}_{number}"
        names.append(name)
    return names


def _name(stage: Any) -> str:
    """Return the name of a stage's function, also of a bound or a partial one."""
    function = getattr(stage, "func", stage)
    name = str(getattr(function, "__name__", type(stage).__name__)).lstrip("_")
    return name if name.isidentifier() else "stage"


def _is_users(stage: Any) -> bool:
    function = getattr(stage, "func", stage)
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] != _PACKAGE


def _new_scores(before: State, after: State, *, refines: bool) -> Iterator[Mapping[Any, Any]]:
    """Yield the scores by position that a stage has changed."""
    for leg, scores in after.lists.items():
        if before.lists.get(leg) is not scores:
            yield scores
    if refines:
        yield after.scores


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
