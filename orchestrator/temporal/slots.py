"""A step's turn: so many at a time, and each with tokens reserved for it. Deterministic, as workflow code is."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from temporalio import workflow

from orchestrator.planning.budget import Budget, Verdict
from orchestrator.records import durable_names as names
from orchestrator.records.plan import Step
from orchestrator.records.run import StepOutcome, StepStatus
from orchestrator.temporal.ending import end


class Slots:
    """The slots of one run over its budget; nobody gets one while `stopping`. `outcomes` are the run's own."""

    def __init__(
        self, most: int, budget: Budget, outcomes: Mapping[str, StepOutcome], stopping: Callable[[], bool]
    ) -> None:
        self._most, self._budget, self._outcomes, self._stopping = most, budget, outcomes, stopping
        self._taken = 0

    async def allowance(
        self, step: Step, estimate: int, taken_back: Callable[[], StepOutcome | None]
    ) -> int | StepOutcome | None:
        """Waits for a slot and for tokens; a step that could fit after others settle waits for them.

        The tokens that it may use, how it ends where it is refused or `taken_back`, or None where the run stops.
        """
        while True:
            await workflow.wait_condition(lambda: self._stopping() or self._taken < self._most)
            if self._stopping():
                return None
            if ended := taken_back():
                return ended
            if self._taken >= self._most and workflow.patched(names.ONE_SLOT_EACH):
                continue  # all that waited wake at once, and others were faster
            reserved = self._budget.reserve(step.id, estimate)
            if reserved.verdict is Verdict.REFUSED:
                return end(step, StepStatus.REFUSED, reserved.reason)
            if reserved.verdict is Verdict.GRANTED:
                return reserved.allowance
            held = self._budget.reserved
            await workflow.wait_condition(lambda: self._stopping() or self._budget.reserved != held)  # noqa: B023

    @contextmanager
    def taken(self, step: Step) -> Iterator[list[int]]:
        """A slot for a step that has its allowance; in the end what it used, added to the list, is settled."""
        self._taken += 1
        used: list[int] = []
        try:
            yield used
        finally:
            self._taken -= 1
            noted = self._outcomes.get(step.id)  # a call that is cancelled notes its outcome itself
            self._budget.settle(step.id, sum(used) + (noted.tokens if noted else 0))
