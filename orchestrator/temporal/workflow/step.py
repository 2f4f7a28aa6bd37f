"""The steps of a plan.

Each waits for earlier steps, for a person, for a slot and for the budget. This module is deterministic.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from temporalio import workflow
from temporalio.exceptions import FailureError

from orchestrator.common.fields import SHORTEST_S
from orchestrator.common.lines import as_json
from orchestrator.errors import InvalidInput, ToolChanged, ToolrouteError
from orchestrator.planning.budget import Budget, Grant, Verdict
from orchestrator.records import durable_names as names
from orchestrator.records.call import Approve, ToolCall
from orchestrator.records.completion import Filled
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, Step
from orchestrator.records.run import (
    Approval,
    Checkpoint,
    RunRequest,
    StepOutcome,
    StepProgress,
    StepStatus,
)
from orchestrator.records.tool import Tool
from orchestrator.temporal.worker.tracing import step_ended
from orchestrator.temporal.workflow.call import (
    ActivityConfig,
    call_tool,
    described,
    outcome_is_unknown,
    present_tool,
    was_cancelled,
    why_failed,
)
from orchestrator.temporal.workflow.model import Complete, fill
from orchestrator.temporal.workflow.step_answers import Answers
from orchestrator.trust.approval_rules import call_digest, earlier_call_digest, needs_approval

MAX_REASON = 1000
"""The maximum number of characters of a reason. The result has the whole text of a tool's own error."""

Work = Callable[[Step, Tool, int], Awaitable[tuple[StepOutcome | None, int]]]
"""The work of a step in its slot. It gets the step's tokens, and returns how the step ended (or None) and the tokens
that it used.
"""


@dataclass(eq=False)
class Steps:
    """Carries out the steps of one run and keeps their state. `stopping` is asked before each step starts."""

    request: RunRequest
    plan: Plan
    decisions: tuple[Decision, ...]
    budget: Budget
    config: ActivityConfig
    complete: Complete
    stopping: Callable[[int], bool]

    def __post_init__(self) -> None:
        self._started = 0
        self._slots = asyncio.Semaphore(self.request.parallel_steps)
        self._present: dict[str, Tool] = {}
        self.outcomes: dict[str, StepOutcome] = {}
        self.filled: dict[str, Filled] = {}
        self.answers = Answers(self.request.checkpoint)
        self._status: dict[str, StepStatus] = {}
        if self.request.checkpoint:
            self._continue_from(self.request.checkpoint)

    def _continue_from(self, done: Checkpoint) -> None:
        self.filled.update(done.filled)
        for outcome in done.outcomes:
            self.outcomes[outcome.step] = outcome
            self._status[outcome.step] = outcome.status

    async def carry_out(self) -> None:
        """Carry out all steps. If the run stops, only the steps that run are finished."""
        todo = [step for step in self.plan.steps if step.id not in self.outcomes]
        try:
            # A bug in one step does not leave the others running without anybody who waits for them.
            ended = await asyncio.gather(*map(self._carry_out, todo), return_exceptions=True)
        except asyncio.CancelledError:
            for step in todo:  # Each step has stopped by now.
                if step.id not in self.outcomes:
                    reason = "the run was cancelled before this step"
                    self._note(step, _end(step, StepStatus.CANCELLED, reason))
            raise
        for error in ended:
            if error is not None:
                raise error

    def progress(self) -> tuple[StepProgress, ...]:
        return tuple(map(self._progress, self.plan.steps))

    def check(self, approval: Approval) -> None:
        """Raise InvalidInput unless the step waits for approval and a given digest is that of its arguments."""
        waiting = {step.step: step for step in self.progress() if step.digest}
        step = approval.step
        call = waiting.get(step)
        if call is None:
            others = ", ".join(waiting) or "none"
            raise InvalidInput(f"step={step!r} does not wait for approval; waiting: {others}")
        if approval.digest and approval.digest != call.digest:
            raise InvalidInput(
                f"digest={approval.digest!r}: the call of {call.tool} by step {step} has another digest: look at "
                f"its arguments in the run's progress, then approve with the digest beside them"
            )

    def take(self, approval: Approval) -> None:
        """Take an answer that passed `check`. It is final."""
        self.answers.take(approval)

    async def _carry_out(self, step: Step) -> None:
        if ended := await self._ended(step):
            self._note(step, replace(ended, tokens=ended.tokens + self._spent(step)))

    async def _ended(self, step: Step) -> StepOutcome | None:
        """Return how the step ends. None if the run stops before the step starts."""
        self._status[step.id] = StepStatus.PENDING
        await workflow.wait_condition(
            lambda: self._stopping() or self.outcomes.keys() >= set(step.depends_on)
        )
        if not self.outcomes.keys() >= set(step.depends_on):
            return None
        tool = self._chosen(step)
        unready = self._unready(step)
        if tool is None or unready:
            return unready or _end(
                step, StepStatus.FAILED, f"no tool of the catalogue matches {step.task!r}"
            )
        # Before the approval, so that a person sees the whole call.
        if step.late and step.id not in self.filled:
            ended = await self._in_slot(step, tool, self._fill)
            if ended or step.id not in self.filled:
                return ended
        return await self._allowed(step, tool)

    def _chosen(self, step: Step) -> Tool | None:
        return next(
            (match for decision in self.decisions if (match := decision.tool(step.tool))), None
        )

    def _unready(self, step: Step) -> StepOutcome | None:
        undone = []
        for name in step.depends_on:
            status = self.outcomes[name].status
            if status is not StepStatus.DONE:
                undone.append(f"{name} has the status {status}")
        if undone:
            reason = f"a step that this step needs was not done: {', '.join(undone)}"
            return _end(step, StepStatus.SKIPPED, reason)
        if step.missing:
            missing = [f"{step.id}.{name}" for name in step.missing]
            return _end(step, StepStatus.NEEDS_INPUT, f"missing: {', '.join(missing)}")
        return None

    async def _allowed(self, step: Step, tool: Tool) -> StepOutcome | None:
        """Call the tool, after a person has approved it if that is needed. None if the run stops before that.

        The person sees the tool as its server defines it now, and is asked again if the definition
        changes before the call.
        """
        asks = needs_approval(tool, Approve(self.request.approve))
        approved = self.request.approved.get(step.id)
        while True:
            if asks:
                try:
                    tool = self._present[step.id] = await present_tool(
                        self._as_call(step, tool), self.config
                    )
                except (FailureError, ToolrouteError) as error:
                    status = StepStatus.CANCELLED if was_cancelled(error) else StepStatus.FAILED
                    return _end(step, status, described(error))
                ended = await self._approval(step, tool, approved)
                if ended or not self.answers.has(step.id):
                    return ended
            try:
                return await self._in_slot(step, tool, self._call)
            except _Changed:
                asks = True
                approved = None
                self.answers.forget(step.id)

    async def _approval(self, step: Step, tool: Tool, approved: str | None) -> StepOutcome | None:
        """Wait for a person's answer.

        Return how the step ends if it is not approved. None if it is, or if the run stops.
        """
        arguments = self._arguments(step)
        # A run that an earlier version began has shown its digests of 12 digits.
        is_current = workflow.patched(names.APPROVAL_DIGEST)
        digest = (
            call_digest(tool, arguments) if is_current else earlier_call_digest(tool, arguments)
        )
        self.answers.ask(step.id, digest)
        if approved == digest and not self.answers.has(step.id):
            by = self.request.actor or "the request"
            self.answers.take(Approval(step=step.id, digest=digest, by=by))
        self._status[step.id] = StepStatus.NEEDS_APPROVAL
        timeout = timedelta(seconds=self.request.approval_timeout_s)
        try:
            # A run that continued as new may have the answer already.
            if not self.answers.has(step.id):
                await workflow.wait_condition(
                    lambda: self._stopping() or self.answers.has(step.id), timeout=timeout
                )
        except TimeoutError:
            why = "nobody approved the call in time"
            if approved:
                why = f"the approved digest ({approved}) belongs to another call"
            elif self.request.approval_timeout_s <= SHORTEST_S:
                why = "the call needs approval, and nobody could be asked"
            ended = _end(step, StepStatus.NEEDS_APPROVAL, why)
            return replace(ended, arguments=arguments, digest=digest)
        if self.answers.allowed.get(step.id) is False:
            return _end(step, StepStatus.REFUSED, f"a person rejected the call of {tool.key}")
        return None

    async def _in_slot(self, step: Step, tool: Tool, work: Work) -> StepOutcome | None:
        """Do the work with a slot and reserved tokens. None if the run stops before that."""
        self._status[step.id] = StepStatus.WAITING
        async with self._slots:
            grant = await self._grant(step)
            if grant is None:
                return None
            if grant.verdict is Verdict.REFUSED:
                return _end(step, StepStatus.REFUSED, grant.reason)
            self._status[step.id] = StepStatus.RUNNING
            used = 0
            try:
                ended, used = await work(step, tool, grant.allowance)
            finally:
                self.budget.settle(step.id, used)
            return ended

    async def _grant(self, step: Step) -> Grant | None:
        """Return the budget's answer. A step that could fit after others have settled waits for them."""
        while not self._stopping():
            grant = self.budget.reserve(
                step.id, self.request.limits.max_tokens_per_step - self._spent(step)
            )
            if grant.verdict is not Verdict.WAIT:
                return grant
            reserved = self.budget.reserved
            await workflow.wait_condition(partial(self._has_budget_changed, reserved))
        return None

    def _has_budget_changed(self, reserved: int) -> bool:
        return self._stopping() or self.budget.reserved != reserved

    async def _fill(self, step: Step, tool: Tool, allowance: int) -> tuple[StepOutcome | None, int]:
        filled = await fill(step, tool, self.plan, self.outcomes, allowance, self.complete)
        self.filled[step.id] = filled
        return (
            _end(step, StepStatus.NEEDS_INPUT, filled.reason) if filled.reason else None
        ), filled.tokens

    async def _call(self, step: Step, tool: Tool, allowance: int) -> tuple[StepOutcome, int]:
        tokens_left = allowance - step.argument_tokens
        if reason := self.budget.no_room(step.id, tokens_left):
            return _end(step, StepStatus.REFUSED, reason), 0
        self._started += 1
        call = replace(self._as_call(step, tool), max_result_tokens=max(1, tokens_left))
        try:
            result = await call_tool(call, self.config)
            ended = _end(step, StepStatus.DONE)
            if result.is_error:
                ended = _end(step, StepStatus.FAILED, result.text)
            ended = replace(ended, result=result)
        except (FailureError, ToolrouteError, asyncio.CancelledError) as error:
            if why_failed(error)[0] == ToolChanged.__name__:
                raise _Changed from error
            ended = _broken(step, call, error)
        tokens = step.argument_tokens
        if ended.result:
            tokens += ended.result.tokens
        arguments = call.arguments if step.late else {}
        return replace(ended, tokens=tokens, arguments=arguments), tokens

    def _as_call(self, step: Step, tool: Tool) -> ToolCall:
        return ToolCall(
            tenant=self.decisions[0].tenant,
            tool=tool,
            arguments=self._arguments(step),
            idempotency_key=f"{workflow.info().workflow_id}:{self.plan.id}:{step.id}",
            approve=Approve(self.request.approve),
        )

    def _stopping(self) -> bool:
        return self.stopping(self._started)

    def _arguments(self, step: Step) -> dict[str, object]:
        filled = self.filled.get(step.id)
        return {**step.arguments, **(filled.arguments if filled else {})}

    def _spent(self, step: Step) -> int:
        return self.filled.get(step.id, Filled()).tokens

    def _progress(self, step: Step) -> StepProgress:
        outcome = self.outcomes.get(step.id)
        asks = self._asks(step)
        arguments = self._arguments(step) if asks else {}
        reason = ""
        if outcome:
            reason = outcome.reason
        elif asks:
            reason = "; ".join(filter(None, (self._changed(step), *self._warnings_of(step))))
        return StepProgress(
            step=step.id,
            task=step.task[:200],
            tool=step.tool,
            status=self._status_of(step),
            reason=reason[:300],
            arguments=arguments,
            digest=self.answers.asked[step.id] if asks else "",
            decided_by=self.answers.decided_by.get(step.id, ""),
        )

    def _warnings_of(self, step: Step) -> list[str]:
        """Return the plan's warnings about a step, which a person reads before the approval."""
        start = f"step {step.id}: "
        return [text.removeprefix(start) for text in self.plan.warnings if text.startswith(start)]

    def _changed(self, step: Step) -> str:
        """Return the new description of a step's tool, if the tool has changed since the Decision."""
        offered_tool = self._chosen(step)
        present = self._present.get(step.id)
        if present is None or offered_tool is None or present.hash == offered_tool.hash:
            return ""
        description = as_json(present.description)
        return f"the server has changed the tool since it was found. Its new description: {description}"

    def _status_of(self, step: Step) -> StepStatus:
        return self._status.get(step.id, StepStatus.PENDING)

    def _asks(self, step: Step) -> bool:
        waits = self._status_of(step) is StepStatus.NEEDS_APPROVAL
        return waits and step.id not in self.outcomes and not self.answers.has(step.id)

    def _note(self, step: Step, ended: StepOutcome) -> None:
        ended = replace(ended, decided_by=self.answers.decided_by.get(step.id, ""))
        self.outcomes[step.id] = ended
        self._status[step.id] = ended.status
        step_ended(ended)


class _Changed(Exception):
    """Nothing was called, because the tool differs from the one that was approved."""


def _end(step: Step, status: StepStatus, reason: str = "") -> StepOutcome:
    return StepOutcome(step=step.id, tool=step.tool, status=status, reason=reason[:MAX_REASON])


def _broken(step: Step, call: ToolCall, error: BaseException) -> StepOutcome:
    """Return the end of a step after its call failed or was cancelled. A lost call may still have taken effect."""
    if was_cancelled(error) and call.replayable:
        return _end(step, StepStatus.CANCELLED, "cancelled while it ran")
    if was_cancelled(error) or outcome_is_unknown(error, call):
        reason = f"the call was sent and its answer was lost ({described(error)}): check whether it took effect"
        return _end(step, StepStatus.OUTCOME_UNKNOWN, reason)
    return _end(step, StepStatus.FAILED, described(error))
