"""The workflow `toolroute.run`: route, plan from the same matches, carry out the steps behind the budget."""

import asyncio
from dataclasses import replace

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from orchestrator.common.lines import inline
from orchestrator.common.tenant import check_tenant
from orchestrator.errors import InvalidInput, ToolrouteError
from orchestrator.records import durable_names as names
from orchestrator.records.run import Approval, Checkpoint, Progress, RunMemo, RunRequest, RunResult
from orchestrator.temporal.payload import MAX_PAYLOAD_BYTES, NOTHING, check_size, read_input
from orchestrator.temporal.run import Run
from orchestrator.temporal.workflow import ToolRouter


@workflow.defn(name=names.RUN)
class RunWorkflow:
    """RunRequest -> RunResult. Continues as new between steps when the history grows long; nothing runs twice.

    Its memo (RunMemo) and its current details say how its steps stand, without what they are given.
    """

    @workflow.init
    def __init__(self, given: RawValue = NOTHING) -> None:
        self._broken: InvalidInput | None = None
        self._request = RunRequest(task="")
        try:
            self._request = read_input(given, RunRequest)
            self._request.validate()
            check_tenant(self._request.tenant)
        except InvalidInput as error:  # raised by `run`: raised here, queries would find no workflow to ask
            self._request, self._broken = RunRequest(task=""), error
        self._run = Run(self._request, ToolRouter(self._request.tenant), stopping=self._stopping)
        self._shown: Progress | None = None

    @workflow.run
    async def run(self, given: RawValue = NOTHING) -> RunResult:
        showing = asyncio.create_task(self._show())
        try:
            return await self._carry_out()
        finally:
            showing.cancel()
            self._show_now()

    async def _carry_out(self) -> RunResult:
        try:
            if self._broken:
                raise self._broken
            ended = await self._run.advance()
            if isinstance(ended, Checkpoint):
                # Routing and planning are done: what only they read stays behind.
                ended_so_far = replace(self._request, arguments={}, conversation=(), checkpoint=ended)
                check_size("what the run hands on", ended_so_far, MAX_PAYLOAD_BYTES)
                workflow.continue_as_new(ended_so_far)
            check_size("the run's result", ended, MAX_PAYLOAD_BYTES)
        except ToolrouteError as error:
            self._run.failed(error)
            raise ApplicationError(str(error), type=type(error).__name__, non_retryable=not error.retry) from error
        return ended

    async def _show(self) -> None:
        """Keep memo and details as the run stands."""
        while True:
            await workflow.wait_condition(lambda: self._run.progress() != self._shown)
            self._show_now()

    def _show_now(self) -> None:
        self._shown = shown = self._run.progress()
        lines = (
            f"- {one.step} `{inline(one.tool) or 'no tool'}`: {one.status.replace('_', ' ')}" for one in shown.steps
        )
        workflow.set_current_details("\n".join([f"**{shown.phase}**", *lines]))
        waiting = tuple(f"{one.step} {one.tool}" for one in shown.steps if one.digest)
        memo = RunMemo(tenant=self._request.tenant, waiting=waiting)
        if memo != workflow.memo_value(names.RUN, None, type_hint=RunMemo):
            workflow.upsert_memo({names.RUN: memo})

    @workflow.query(name=names.PROGRESS)
    def progress(self) -> Progress:
        """Return phase, steps and budget; also after the end, cancelled or not."""
        return self._run.progress()

    @workflow.update(name=names.APPROVE)
    def approve(self, word: RawValue = NOTHING) -> None:
        """Let a step use its tool with the arguments of this digest, or not."""
        self._run.take(read_input(word, Approval))

    @approve.validator
    def check(self, word: RawValue = NOTHING) -> None:
        """Refuse a word that names no waiting step, or arguments that nobody was shown."""
        given = read_input(word, Approval)
        if given.allowed and not given.digest:
            raise InvalidInput("digest='': give the one that the run's progress shows with the step's arguments")
        self._run.check(given)

    def _stopping(self, started: int) -> bool:
        most = self._request.steps_per_run
        full = workflow.info().is_continue_as_new_suggested() or (most is not None and started >= most)
        return started > 0 and full
