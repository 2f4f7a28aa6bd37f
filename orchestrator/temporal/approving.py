"""A person's words on the steps whose tool may destroy something, and waiting for them. Deterministic."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from temporalio import workflow

from orchestrator.planning.approval import needs_approval
from orchestrator.records import durable_names as names
from orchestrator.records.plan import Step
from orchestrator.records.run import SHORTEST_S, RunRequest, StepOutcome, StepStatus
from orchestrator.records.tool import Tool
from orchestrator.temporal.ending import end


class Approvals:
    """The words of one run, and when each was asked for first, by the steps' ids: plain data for its Checkpoint."""

    def __init__(self, request: RunRequest) -> None:
        self._request = request
        before = request.checkpoint
        self.words = dict(before.approvals) if before else {}
        self.asked = dict(before.asked) if before else {}
        self.overruled = list(before.overruled) if before else []

    def needed(self, tool: Tool) -> bool:
        return needs_approval(tool, self._request.approve)

    def rejected(self, step: Step) -> bool:
        return self.words.get(step.id) is False

    def take(self, step: str, allowed: bool) -> None:
        """The word on a step; its last word before it starts counts, but a no stands."""
        if allowed and self.words.get(step) is False and workflow.patched(names.NO_STANDS):
            self.overruled += [step] if step not in self.overruled else []
        else:
            self.words[step] = allowed

    def ask_anew(self, step: Step) -> None:
        """Forgets a yes that came before there was anything to see; a no stands."""
        if not self.rejected(step):
            self.words.pop(step.id, None)

    async def word(self, step: Step, tool: Tool, stopping: Callable[[], bool]) -> StepOutcome | None:
        """Waits for it. How the step ends where it is a no or none comes; no word is there yet when the run stops.

        The time counts from when it was first asked for, in an earlier execution too; a word that is there already is
        heard before the shortest timer.
        """
        if step.id not in self.asked and self.words.get(step.id) and workflow.patched(names.ASKED_FIRST):
            self.ask_anew(step)
        waited_s = workflow.time() - self.asked.setdefault(step.id, workflow.time())
        left_s = max(SHORTEST_S, self._request.approval_timeout_s - waited_s)
        try:
            await workflow.wait_condition(
                lambda: stopping() or step.id in self.words, timeout=timedelta(seconds=left_s)
            )
        except TimeoutError:
            return end(step, StepStatus.NEEDS_APPROVAL, f"{tool.key} waits for approval; nobody approved")
        return _refused(step, tool) if self.rejected(step) else None

    def unheard(self, steps: Sequence[Step]) -> list[str]:
        """Warnings, where there were words on steps that the plan does not have, or a yes after a no."""
        known = [step.id for step in steps]
        strangers = [name for name in self.words if name not in known]
        those = f"its steps are {', '.join(known)}" if known else "it has no steps"
        warnings = []
        if strangers:
            told = f"approving or rejecting {_named(strangers)} did nothing"
            warnings.append(f"{told}: the plan has no such step; {those}")
        if self.overruled:
            warnings.append(f"approving {_named(self.overruled)} did nothing: it came after a rejection, which stands")
        return warnings

    def taken_back(self, step: Step, tool: Tool) -> StepOutcome | None:
        """How a step ends that was rejected after its approval, while it waited for its turn."""
        taken_back = self.needed(tool) and self.rejected(step) and workflow.patched(names.LAST_WORD)
        return _refused(step, tool) if taken_back else None


def _named(steps: Sequence[str]) -> str:
    return ", ".join(repr(name[:80]) for name in steps[:5])


def _refused(step: Step, tool: Tool) -> StepOutcome:
    return end(step, StepStatus.REFUSED, f"approval: {tool.key} was rejected")
