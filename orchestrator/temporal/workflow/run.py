"""A run inside a workflow: route once, plan from the same matches, then carry out the steps within the budget.

All state is plain data, so a run can stop between two steps and continue in a new execution from its Checkpoint.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

from orchestrator.errors import InvalidInput, ToolrouteError
from orchestrator.planning.budget import Budget
from orchestrator.records.completion import NO_MODEL, CompleteRequest, Completion
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Use
from orchestrator.records.plan import Plan
from orchestrator.records.run import (
    Approval,
    Checkpoint,
    Progress,
    RunRequest,
    RunResult,
    StepOutcome,
    StepStatus,
)
from orchestrator.temporal.workflow.call import ActivityConfig, described, was_cancelled
from orchestrator.temporal.workflow.model import answer
from orchestrator.temporal.workflow.payload import MAX_TASK_BYTES, check_size, hold_together
from orchestrator.temporal.workflow.step import MAX_REASON, Steps
from orchestrator.temporal.workflow.stubs import ActivityStubs, call_config

_WENT_WRONG = {
    StepStatus.FAILED,
    StepStatus.REFUSED,
    StepStatus.CANCELLED,
    StepStatus.OUTCOME_UNKNOWN,
}
"""The final states of a step after which the run's Outcome does not count as a success."""


class Run:
    """One run of one task, with a valid request.

    `stopping` decides, after each step, whether the run stops with a Checkpoint.
    """

    def __init__(
        self,
        request: RunRequest,
        router: ActivityStubs,
        call_options: ActivityConfig | None = None,
        stopping: Callable[[int], bool] = lambda _: False,
    ) -> None:
        done = request.checkpoint
        self._request = request
        self._router = router
        self._stopping = stopping
        self._config = call_config(request, call_options)
        self._phase = "routing"
        self._reason = ""
        self._decisions: tuple[Decision, ...] = (done.decision, *done.extra_routes) if done else ()
        self._steps: Steps | None = None
        self._budget = Budget(
            request.limits,
            settled=done.settled if done else 0,
            warnings=done.warnings if done else (),
        )

    async def advance(self) -> RunResult | Checkpoint:
        """Carry out the run. Return the result, or a Checkpoint if the run stops."""
        try:
            return await self._advance()
        except (FailureError, ToolrouteError, asyncio.CancelledError) as error:
            self.failed(error)
            raise

    def failed(self, error: BaseException) -> None:
        """Note for the progress that the run has ended, and the reason if it was not cancelled."""
        cancelled = was_cancelled(error)
        self._phase = "done" if cancelled else "failed"
        self._reason = "" if cancelled else described(error)[:MAX_REASON]

    @property
    def under_way(self) -> bool:
        """True until the run has ended."""
        return self._phase not in ("done", "failed")

    async def _advance(self) -> RunResult | Checkpoint:
        plan = self._request.checkpoint.plan if self._request.checkpoint else await self._plan()
        self._phase = "running"
        self._steps = steps = Steps(
            self._request,
            plan,
            self._decisions,
            self._budget,
            self._config,
            self._complete,
            self._stopping,
        )
        await steps.carry_out()
        if len(steps.outcomes) < len(plan.steps):
            return self._checkpoint(plan, steps)
        return await self._result(plan, steps)

    async def _plan(self) -> Plan:
        """Route and plan, with one further route for steps without a tool. If no step can start, no model is asked."""
        check_size("the task", self._request.task, MAX_TASK_BYTES)
        plan = await self._routed(self._request.task)
        self._budget.charge("planning", plan.usage.total, self._budget.for_planning)
        if plan.unbound:
            plan = await self._routed("; ".join(step.task for step in plan.unbound), plan)
        return plan

    async def _routed(self, task: str, first: Plan | None = None) -> Plan:
        """Return the task's plan from the matches of a further Decision."""
        tenant = self._request.tenant or self._router.tenant
        self._decisions += (await self._router.route(self._request.as_routed(task, tenant)),)
        # A stage of routing may have asked a model.
        if took := self._decisions[-1].usage.total:
            self._budget.charge("routing", took, self._budget.for_planning)
        self._phase = "planning"
        return await self._router.plan(
            self._decisions[-1],
            arguments=self._request.arguments,
            min_confidence=self._request.min_confidence,
            without_model=""
            if self._budget.steps_left
            else "the run's limits are too low for any step: raise max_total_tokens",
            max_tokens=self._budget.for_planning,
            # The first plan was made with it.
            conversation=() if first else self._request.conversation,
            first=first,
        )

    async def _complete(self, request: CompleteRequest) -> Completion:
        heartbeat = timedelta(seconds=self._request.heartbeat_s)
        request = replace(request, tenant=self._decisions[0].tenant)
        return await self._router.complete(request, heartbeat_timeout=heartbeat)

    async def _result(self, plan: Plan, steps: Steps) -> RunResult:
        self._phase = "answering"
        outcomes = hold_together(steps.outcomes[step.id] for step in plan.steps)
        reserve = self._request.limits.reserve_for_synthesis
        # Both at once, because neither needs the other.
        (text, tokens, unanswered), unkept = await asyncio.gather(
            answer(plan, outcomes, reserve, self._complete), self._record(plan, steps, outcomes)
        )
        self._budget.charge("the answer", tokens, reserve)
        self._phase = "done"
        routed = [warning for decision in self._decisions for warning in decision.warnings]
        return RunResult(
            decision=self._decisions[0],
            plan=plan,
            steps=outcomes,
            budget=self._budget.report(),
            answer=text,
            extra_routes=self._decisions[1:],
            warnings=tuple(dict.fromkeys((*routed, *plan.warnings, *unanswered, *unkept))),
        )

    async def _record(
        self, plan: Plan, steps: Steps, outcomes: tuple[StepOutcome, ...]
    ) -> list[str]:
        """Record the called tools once per run. Return the reason if that failed."""
        counted = (StepStatus.DONE, StepStatus.FAILED)
        used = [
            Use(tool=outcome.tool, ok=outcome.status is StepStatus.DONE)
            for outcome in outcomes
            if outcome.tool and outcome.status in counted
        ]
        if not used:
            return []
        went_wrong = any(outcome.status in _WENT_WRONG for outcome in outcomes)
        try:
            await self._router.record(
                self._decisions[0],
                used,
                ok=not went_wrong,
                actor=self._request.actor,
                name=f"{workflow.info().workflow_id}:{plan.id}",
                source="run",
                chosen=plan.model != NO_MODEL or any(steps.answers.allowed.values()),
            )
        except FailureError as error:
            return [f"the outcome was not recorded: {described(error)[:MAX_REASON]}"]
        return []

    def check(self, approval: Approval) -> None:
        """Raise InvalidInput for an answer about a step that does not wait for it, or about other arguments."""
        if self._steps is None:
            raise InvalidInput(
                f"step={approval.step!r} does not wait for approval: the run has no plan yet"
            )
        self._steps.check(approval)

    def take(self, approval: Approval) -> None:
        """Take an answer that passed `check`."""
        if self._steps is not None:
            self._steps.take(approval)

    def progress(self) -> Progress:
        """Return the progress of the run, for queries. It contains no results."""
        steps = self._steps.progress() if self._steps else ()
        return Progress(
            phase=self._phase, steps=steps, budget=self._budget.report(), reason=self._reason
        )

    def _checkpoint(self, plan: Plan, steps: Steps) -> Checkpoint:
        return Checkpoint(
            decision=self._decisions[0],
            plan=plan,
            outcomes=hold_together(steps.outcomes.values()),
            settled=self._budget.settled,
            warnings=self._budget.warnings,
            extra_routes=self._decisions[1:],
            approvals=steps.answers.allowed,
            filled=steps.filled,
            asked=steps.answers.asked,
            decided_by=steps.answers.decided_by,
        )
