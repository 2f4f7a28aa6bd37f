"""Pipelines: legs, gate, fusion, refiners and selection as one value, and the one function that runs them."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isawaitable

from orchestrator import telemetry
from orchestrator.common.fields import settings
from orchestrator.errors import InvalidInput
from orchestrator.pipeline.guard import checked, failed, is_users
from orchestrator.pipeline.select import select as select_matches
from orchestrator.pipeline.state import State
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
        self.spent = dict(spent or {})

    def book(self, stage: str) -> None:
        """Book the time since the last call to this stage."""
        now = time.perf_counter()
        self.spent[stage] = self.spent.get(stage, 0.0) + (now - self._last) * 1000
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
        groups: dict[str, tuple[object, ...]] = {"first": self.first, "gate": (self.gate,), "fallback": self.fallback}
        groups |= {"fusion": (self.fusion,), "refiners": self.refiners, "select": (self.select,)}
        for group, own in groups.items():
            for stage in own:
                if not callable(stage):
                    raise InvalidInput(f"pipeline {self.name!r}: {group} has the stage {stage!r}; give a function")
        if not self.first + self.fallback:
            raise InvalidInput(f"pipeline {self.name!r} has no leg: give one in first or fallback")
        stages: dict[str, PipelineStage] = {}
        for stage in (*self.first, self._gate, *self.fallback, self.fusion, *self.refiners, self._select):
            is_own = stage in (self._gate, self._select)  # Their names are no other stage's.
            stages[_name(stage) if is_own else _unused(_name(stage), {*stages, GATE, SELECT})] = stage
        names, behind = list(stages), len(self.first) + 1
        fallback = frozenset(names[behind : behind + len(self.fallback)])
        object.__setattr__(self, "stages", stages)
        object.__setattr__(self, "_in_fallback", fallback)
        legs = fallback.union(names[: len(self.first)])
        refiners = names[len(names) - 1 - len(self.refiners) : -1]
        object.__setattr__(self, "_legs", legs)
        object.__setattr__(self, "_guarded", frozenset(name for name in (*legs, *refiners) if is_users(stages[name])))

    async def run(self, state: State, clock: Clock | None = None, *, start: str = "", until: str = "") -> State:
        """Return the state once the stages from `start` to `until` have run, both included.

        Args:
            state: The state before the first of these stages.
            clock: Measures the time of each leg, and of all later stages together as `select`.
            start: The name of the first stage to run. Default: the first of all.
            until: The name of the last stage to run. Default: the last of all.

        Raises:
            KeyError: There is no stage of this name.
        """
        names = list(self.stages)
        left = deque(names[self._place(start, 0) : self._place(until, len(names) - 1) + 1])
        while left:
            state, waiting = await state.task.compute(partial(self._advance, state, left, clock))
            if waiting is not None:
                state = await self._answered(left.popleft(), state, waiting, clock)
        if clock and state.decision is not None:
            state = replace(state, decision=replace(state.decision, timings_ms=clock.total()))
        return state

    def _advance(self, state: State, left: deque[str], clock: Clock | None) -> tuple[State, Awaitable[State] | None]:
        """Run the remaining stages until one returns an awaitable. That stage remains in the list."""
        while left:
            if not (state.gate_open and left[0] in self._in_fallback):
                name, done = left[0], self._begun(left[0], state)
                if isawaitable(done):
                    return state, done
                state = self._ended(name, state, done, clock)
            left.popleft()
        return state, None

    def _begun(self, name: str, state: State) -> State | Awaitable[State]:
        try:
            return self.stages[name](state)
        except Exception as error:
            if name not in self._guarded:
                raise
            return failed(state, name, error, refines=name not in self._legs)

    async def _answered(self, name: str, state: State, waiting: Awaitable[State], clock: Clock | None) -> State:
        try:
            return self._ended(name, state, await waiting, clock)
        except Exception as error:
            if name not in self._guarded:
                raise
            return failed(state, name, error, refines=name not in self._legs)

    def _ended(self, name: str, before: State, after: State, clock: Clock | None) -> State:
        """Return the state after a stage, once its time is booked."""
        if name in self._guarded:
            after = checked(before, name, after, refines=name not in self._legs)
        elif not isinstance(after, State):
            raise InvalidInput(
                f"pipeline {self.name!r}: {name} returned {after!r:.80}, but a stage must return the State"
            )
        if clock and ((name in self._legs and after is not before) or name == SELECT):
            clock.book(_name(self.stages[name]))
        return after

    def after(self, name: str) -> str:
        """Return the name of the stage behind this one."""
        names = list(self.stages)
        return names[names.index(name) + 1]

    def _place(self, name: str, default: int) -> int:
        if not name:
            return default
        if name not in self.stages:
            raise KeyError(f"pipeline {self.name!r} has no stage {name!r}: it has {', '.join(self.stages)}")
        return list(self.stages).index(name)

    def _gate(self, state: State) -> State:
        return replace(state, gate_open=self.gate(state))

    def _select(self, state: State) -> State:
        return replace(state, decision=self.select(state))


def _name(stage: PipelineStage) -> str:
    """Return the name of a stage's function, also of a bound or a partial one."""
    function = getattr(stage, "func", stage)
    name = str(getattr(function, "__name__", type(stage).__name__)).lstrip("_")
    return name if name.isidentifier() else "stage"


def _unused(name: str, taken: Container[str]) -> str:
    number, found = 2, name
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found
