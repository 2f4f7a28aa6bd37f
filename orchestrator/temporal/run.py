"""A run inside a workflow: route once, plan from the same matches, then the steps, each behind the budget guard.

Every step is a task that waits for its dependencies, an approval where one is asked for, a free slot and the budget.
All state is plain data, so a run can stop between steps and go on in a new execution from its Checkpoint.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.exceptions import FailureError

from orchestrator.planning.budget import Budget
from orchestrator.records import durable_names as names
from orchestrator.records.call import ToolCall
from orchestrator.records.completion import CompleteRequest, Completion, Filled
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, Step
from orchestrator.records.run import Checkpoint, Progress, RunRequest, RunResult, StepOutcome, StepStatus
from orchestrator.records.tool import Tool
from orchestrator.temporal import preparing
from orchestrator.temporal.approving import Approvals
from orchestrator.temporal.assisted import answer, fill
from orchestrator.temporal.call import as_failures, call_config, call_tool, why_failed
from orchestrator.temporal.ending import MAX_REASON, answered, broke, cannot_start, end, standing, was_cancelled
from orchestrator.temporal.held import MAX_TASK_BYTES, check_size, hold_together
from orchestrator.temporal.slots import Slots

if TYPE_CHECKING:
    from orchestrator.temporal.workflow import ToolRouter


class Run:
    """One run of one task, its request valid. `should_stop` is asked before each step starts; a run that stops gives a
    Checkpoint."""

    def __init__(
        self,
        request: RunRequest,
        router: "ToolRouter",
        call_options: workflow.ActivityConfig | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        done = request.checkpoint
        self.request, self._router, self.started = request, router, 0
        self._config = call_config(request, call_options)
        self._should_stop = should_stop or (lambda: False)
        self._phase, self._reason = "routing", ""
        self._decision = done.decision if done else None
        self._plan = done.plan if done else None
        self._extra = done.extra_routes if done else ()
        self._outcomes = {outcome.step: outcome for outcome in done.outcomes} if done else {}
        self._approvals = Approvals(request)
        self._filled = dict(done.filled) if done else {}
        settled, warnings = (done.settled, done.warnings) if done else (0, ())
        self._budget = Budget(request.limits, settled=settled, warnings=warnings)
        self._status: dict[str, StepStatus] = {name: outcome.status for name, outcome in self._outcomes.items()}
        self._slots = Slots(request.parallel_steps, self._budget, self._outcomes, self._should_stop)

    async def to_the_end(self) -> RunResult:
        """The result of a run that nothing stops."""
        ended = await self.advance()
        if isinstance(ended, Checkpoint):
            raise RuntimeError("a run without should_stop stopped")
        return ended

    async def advance(self) -> RunResult | Checkpoint:
        """Runs until all steps have ended, or until `should_stop` and the steps under way have."""
        try:
            with as_failures():
                check_size("the task", self.request.task, MAX_TASK_BYTES)
                return await self._advance()
        except (FailureError, asyncio.CancelledError) as error:
            self.failed(error)
            raise

    def failed(self, error: BaseException) -> None:
        """Notes for the progress that the run is over, and why unless it was cancelled."""
        if was_cancelled(error):
            self._phase = "done"
        else:
            self._phase, self._reason = "failed", ": ".join(why_failed(error))[:MAX_REASON]

    async def _advance(self) -> RunResult | Checkpoint:
        decision, plan = await self._prepare()
        self._phase = "running"
        steps = [asyncio.create_task(self._carry_out(s)) for s in plan.steps if s.id not in self._outcomes]
        try:
            await asyncio.gather(*steps)
        except (FailureError, asyncio.CancelledError) as error:
            # gather ends with its first cancelled step, a call's with a FailureError; others are still being stopped
            if isinstance(error, FailureError) and not (was_cancelled(error) and workflow.patched(names.ALL_STOP)):
                raise
            await workflow.wait(steps)
            self._cancelled(plan)
            raise asyncio.CancelledError from error
        if len(self._outcomes) < len(plan.steps):
            return self._checkpoint(decision, plan)
        outcomes = hold_together(self._outcomes[step.id] for step in plan.steps)
        self._phase = "answering"
        said = await answer(plan, outcomes, self.request.limits.reserve_for_synthesis, self._complete)
        self._budget.charge(said.tokens)
        self._phase = "done"
        routed = [warning for found in (decision, *self._extra) for warning in found.warnings]
        unheard = self._approvals.unheard(plan.steps)
        return RunResult(
            decision=decision,
            plan=plan,
            steps=outcomes,
            budget=self._budget.report(),
            answer=said.text,
            extra_routes=self._extra,
            warnings=tuple(dict.fromkeys((*routed, *plan.warnings, *unheard, *said.warnings))),
        )

    def approve(self, step: str, allowed: bool) -> None:
        """Takes the word on a step that waits for approval."""
        self._approvals.take(step, allowed)

    def progress(self) -> Progress:
        """Where the run stands: for queries, so without results."""
        steps = self._plan.steps if self._plan else ()
        told = (standing(s, self._status.get(s.id), self._outcomes.get(s.id), self._filled.get(s.id)) for s in steps)
        return Progress(phase=self._phase, steps=tuple(told), budget=self._budget.report(), reason=self._reason)

    async def _prepare(self) -> tuple[Decision, Plan]:
        """The Decision and the Plan, those of the Checkpoint where there is one."""
        if self._decision is None:
            self._decision = await preparing.route(self._router, self.request, self.request.task)
        self._phase = "planning"
        if self._plan is None:
            self._plan, self._extra = await preparing.plan(self._router, self.request, self._decision, self._budget)
            self._budget.charge(self._plan.usage.total)
        return self._decision, self._plan

    async def _carry_out(self, step: Step) -> None:
        """One step from waiting to its outcome; no outcome when the run stops before it starts."""
        self._set(step, StepStatus.PENDING)
        await workflow.wait_condition(lambda: self._should_stop() or self._outcomes.keys() >= set(step.depends_on))
        if not self._outcomes.keys() >= set(step.depends_on):
            return
        tool = self._tool(step)
        ended = cannot_start(step, tool, self._outcomes)
        if ended is None and tool is not None:
            ended = await self._when_approved(step, tool)
        if ended is not None:
            self._note(step, ended)

    async def _when_approved(self, step: Step, tool: Tool) -> StepOutcome | None:
        """Whoever approves sees what will be called: late arguments are filled before the step's approval."""
        if self._approvals.needed(tool):
            if self._fills_first(step):
                ended = await self._fill_first(step, tool)
                if step.id not in self._filled:
                    return ended
            self._set(step, StepStatus.NEEDS_APPROVAL)
            ended = await self._approvals.word(step, tool, self._should_stop)
            if ended is not None or step.id not in self._approvals.words:
                return ended and replace(ended, tokens=self._spent(step))
        allowance = await self._allowance(step, tool)
        if not isinstance(allowance, int):
            return allowance and replace(allowance, tokens=self._spent(step))
        return await self._granted(step, tool, allowance)

    def _fills_first(self, step: Step) -> bool:
        todo = step.late and step.id not in self._filled and not self._approvals.rejected(step)
        return bool(todo) and workflow.patched(names.FILL_BEFORE_APPROVAL)

    def _spent(self, step: Step) -> int:
        return self._filled.get(step.id, Filled()).tokens

    async def _allowance(self, step: Step, tool: Tool) -> int | StepOutcome | None:
        self._set(step, StepStatus.WAITING)
        estimate = step.expected_tokens - self._spent(step)
        return await self._slots.allowance(step, estimate, partial(self._approvals.taken_back, step, tool))

    async def _fill_first(self, step: Step, tool: Tool) -> StepOutcome | None:
        """Notes the late arguments and settles their tokens: a step that waits for a person holds none, nor a slot."""
        allowance = await self._allowance(step, tool)
        if not isinstance(allowance, int):
            return allowance
        with self._slots.taken(step) as used:
            self._set(step, StepStatus.RUNNING)
            filled = await self._fill(step, tool, allowance)
            used.append(filled.tokens)
        if filled.reason:
            return end(step, StepStatus.NEEDS_INPUT, filled.reason, tokens=filled.tokens)
        self._filled[step.id] = filled
        self._approvals.ask_anew(step)
        return None

    async def _granted(self, step: Step, tool: Tool, allowance: int) -> StepOutcome:
        """Fills what is late and not filled yet, calls the tool, and settles what both took."""
        self.started += 1
        with self._slots.taken(step) as used:
            self._set(step, StepStatus.RUNNING)
            filled = self._filled.get(step.id)
            if filled is None:
                filled = await self._fill(step, tool, allowance)
                used.append(filled.tokens)
            if filled.reason:
                return end(step, StepStatus.NEEDS_INPUT, filled.reason, tokens=filled.tokens)
            whole = replace(step, arguments={**step.arguments, **filled.arguments})
            ended = await self._called(whole, tool, allowance - sum(used))
            used.append(ended.tokens)
            return replace(ended, tokens=filled.tokens + ended.tokens, arguments=whole.arguments if step.late else {})

    async def _fill(self, step: Step, tool: Tool, allowance: int) -> Filled:
        if not step.late or self._plan is None:
            return Filled()
        try:
            return await fill(step, tool, self._plan, self._outcomes, allowance, self._complete)
        except (FailureError, asyncio.CancelledError):
            self._note(step, end(step, StepStatus.CANCELLED, "cancelled before its tool was called"))
            raise

    async def _complete(self, request: CompleteRequest) -> Completion:
        heartbeat = timedelta(seconds=self.request.heartbeat_s)
        return await self._router.complete(request, heartbeat_timeout=heartbeat)

    async def _called(self, step: Step, tool: Tool, allowance: int) -> StepOutcome:
        left = allowance - step.argument_tokens
        if (reason := self._budget.no_room(step.id, left)) and workflow.patched(names.ROOM_FOR_RESULT):
            return end(step, StepStatus.REFUSED, reason)
        call = ToolCall(
            tenant=self._decision.tenant if self._decision else self.request.tenant,
            tool=tool,
            arguments=step.arguments,
            idempotency_key=f"{workflow.info().workflow_id}:{self._plan.id if self._plan else ''}:{step.id}",
            max_result_tokens=max(0, left),
        )
        used = step.argument_tokens
        try:
            result = await call_tool(call, self._config)
            used += result.tokens
            return answered(step, result, used)
        except (FailureError, asyncio.CancelledError) as error:
            ended = broke(step, call, error, used)
            if was_cancelled(error):
                self._note(step, ended)
                raise
            return ended

    def _tool(self, step: Step) -> Tool | None:
        decisions = [self._decision, *self._extra]
        return next((found for decision in decisions if decision and (found := decision.tool(step.tool))), None)

    def _set(self, step: Step, status: StepStatus) -> None:
        self._status[step.id] = status

    def _note(self, step: Step, ended: StepOutcome) -> None:
        self._outcomes[step.id] = ended
        self._set(step, ended.status)

    def _cancelled(self, plan: Plan) -> None:
        """Marks what did not start, so that a query after the end tells what was done and what was not."""
        for step in plan.steps:
            if step.id not in self._outcomes:
                self._note(step, end(step, StepStatus.CANCELLED, "the run was cancelled before it"))

    def _checkpoint(self, decision: Decision, plan: Plan) -> Checkpoint:
        return Checkpoint(
            decision=decision,
            plan=plan,
            outcomes=hold_together(self._outcomes.values()),
            settled=self._budget.settled,
            warnings=self._budget.warnings,
            extra_routes=self._extra,
            approvals=self._approvals.words,
            filled=self._filled,
            asked=self._approvals.asked,
            overruled=tuple(self._approvals.overruled),
        )
