"""Pipelines: legs, gate, fusion, refiners and selection as one value, and the one function that runs them."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isawaitable
from typing import Any

from orchestrator import telemetry
from orchestrator.common.fields import settings
from orchestrator.errors import InvalidInput
from orchestrator.pipeline.select import select as select_matches
from orchestrator.pipeline.state import State
from orchestrator.pipeline.user_stages import checked, failed, is_users
from orchestrator.records.decision import Decision

PipelineStage = Callable[[State], State | Awaitable[State]]
"""A function that returns the state with its own part added. It may be async."""
Gate = Callable[[State], bool]
"""A function that returns True if the results of the first legs are enough."""
Select = Callable[[State], Decision]
"""A function that makes the Decision from the state."""

GATE, SELECT = "gate", "select"


class Clock:
    """The milliseconds of one request by stage, added to earlier ones."""

    def __init__(self, spent: Mapping[str, float] | None = None) -> None:
        self._last = time.perf_counter()
        # Asked once: a route has many stages, and a provider is set before the first one.
        self._is_traced = telemetry.traces()
        self.spent = dict(spent or {})

    def book(self, stage: str) -> None:
        """Book the time since the last call to this stage."""
        now = time.perf_counter()
        self.spent[stage] = self.spent.get(stage, 0.0) + (now - self._last) * 1000
        if self._is_traced:
            telemetry.stage(stage, now - self._last)
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
        >>> from orchestrator.pipeline.presets import preset
        >>> keywords_only = replace(preset("default"), name="keywords", fallback=())
    """

    name: str
    first: tuple[PipelineStage, ...]
    gate: Gate
    fallback: tuple[PipelineStage, ...]
    fusion: PipelineStage
    refiners: tuple[PipelineStage, ...]
    select: Select = select_matches
    stages: Mapping[str, PipelineStage] = field(init=False, repr=False, compare=False)
    _in_fallback: frozenset[str] = field(init=False, repr=False, compare=False)
    _legs: frozenset[str] = field(init=False, repr=False, compare=False)
    _guarded: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check()
        gate, select = self._gate, self._select
        stages: dict[str, PipelineStage] = {}
        legs = _add(stages, self.first)
        stages[GATE] = gate
        fallback = _add(stages, self.fallback)
        _add(stages, (self.fusion,))
        refiners = _add(stages, self.refiners)
        stages[SELECT] = select
        users = frozenset(name for name in (*legs, *fallback, *refiners) if is_users(stages[name]))
        object.__setattr__(self, "stages", stages)
        object.__setattr__(self, "_in_fallback", frozenset(fallback))
        object.__setattr__(self, "_legs", frozenset((*legs, *fallback)))
        object.__setattr__(self, "_guarded", users)

    def _check(self) -> None:
        """Raise InvalidInput if a stage cannot be called, or if there is no leg."""
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
        first = self._place(start) if start else 0
        last = self._place(until) if until else len(self.stages) - 1
        remaining = deque(list(self.stages)[first : last + 1])
        while remaining:
            state, pending = await state.task.compute(
                partial(self._advance, state, remaining, clock)
            )
            if pending is not None:
                state = await self._await_stage(remaining.popleft(), state, pending, clock)
        if clock and state.decision is not None:
            decision = replace(state.decision, timings_ms=clock.total())
            state = replace(state, decision=decision)
        return state

    def _advance(
        self, state: State, remaining: deque[str], clock: Clock | None
    ) -> tuple[State, Awaitable[State] | None]:
        """Run the remaining stages until one returns an awaitable. That stage remains in the list."""
        while remaining:
            name = remaining[0]
            if not (state.gate_open and name in self._in_fallback):
                result = self._call(name, state)
                if isawaitable(result):
                    return state, result
                state = self._finish(name, state, result, clock)
            remaining.popleft()
        return state, None

    def _call(self, name: str, state: State) -> State | Awaitable[State]:
        if name not in self._guarded:
            return self.stages[name](state)
        try:
            return self.stages[name](state)
        except Exception as error:
            return failed(state, name, error, refines=name not in self._legs)

    async def _await_stage(
        self, name: str, state: State, pending: Awaitable[State], clock: Clock | None
    ) -> State:
        if name not in self._guarded:
            return self._finish(name, state, await pending, clock)
        try:
            return self._finish(name, state, await pending, clock)
        except Exception as error:
            return failed(state, name, error, refines=name not in self._legs)

    def _finish(self, name: str, before: State, after: State, clock: Clock | None) -> State:
        """Return the state after a stage, once its time is booked."""
        is_leg = name in self._legs
        if name in self._guarded:
            after = checked(before, name, after, refines=not is_leg)
        elif not isinstance(after, State):
            raise InvalidInput(
                f"pipeline {self.name!r}: {name} returned {after!r:.80}, but a stage must return the State"
            )
        if clock and ((is_leg and after is not before) or name == SELECT):
            clock.book(_name(self.stages[name]))
        return after

    def after(self, name: str) -> str:
        """Return the name of the stage behind this one."""
        names = list(self.stages)
        return names[names.index(name) + 1]

    def _place(self, name: str) -> int:
        if name not in self.stages:
            raise KeyError(
                f"pipeline {self.name!r} has no stage {name!r}: it has {', '.join(self.stages)}"
            )
        return list(self.stages).index(name)

    def _gate(self, state: State) -> State:
        return replace(state, gate_open=self.gate(state))

    def _select(self, state: State) -> State:
        return replace(state, decision=self.select(state))


def _add(stages: dict[str, PipelineStage], group: Sequence[PipelineStage]) -> list[str]:
    """Add stages by their names, a second stage of a name with a number. Return the names."""
    names = []
    for stage in group:
        name = _name(stage)
        number = 1
        while name in stages or name in (GATE, SELECT):
            number += 1
            name = f"{_name(stage)}_{number}"
        stages[name] = stage
        names.append(name)
    return names


def _name(stage: Any) -> str:
    """Return the name of a stage's function, also of a bound or a partial one."""
    function = getattr(stage, "func", stage)
    name = str(getattr(function, "__name__", type(stage).__name__)).lstrip("_")
    return name if name.isidentifier() else "stage"
