"""Run a pipeline: its legs in order, and the Decision that it makes of what they find."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable

from orchestrator import telemetry
from orchestrator.pipeline.pipeline import Leg, Pipeline
from orchestrator.pipeline.state import Found, Task
from orchestrator.records.decision import Decision


async def run_legs(legs: Sequence[Leg], task: Task, found: Found, clock: "Clock") -> Found:
    """Return what is found once each of these legs has run, in order."""
    for leg in legs:
        before, done = found, leg(task, found)
        found = await done if isawaitable(done) else done
        if found is not before:
            clock.book(getattr(leg, "__name__", type(leg).__name__))
    return found


async def conclude(pipeline: Pipeline, task: Task, found: Found, clock: "Clock") -> Decision:
    """Return the Decision that a pipeline makes of what its legs found."""
    ranking = pipeline.fusion(task, found)
    for refine in pipeline.refiners:
        refined = refine(task, found, ranking)
        ranking = await refined if isawaitable(refined) else refined
    decision = pipeline.select(task, found, ranking)
    clock.book("select")
    return replace(decision, timings_ms=clock.total())


class Clock:
    """One request's times by stage, in milliseconds, on top of those that were spent on it before."""

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
        """Return all times, with that of the whole."""
        return {**self.spent, "total": sum(self.spent.values())}
