"""The workflow `toolroute.run`: route, plan from the same matches, and carry out the steps within the budget."""

from dataclasses import replace
from typing import NoReturn

from pydantic import TypeAdapter
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.contrib.workflow_streams import WorkflowStream, WorkflowStreamState
from temporalio.exceptions import ApplicationError

from orchestrator.common.tenant import check_tenant
from orchestrator.errors import InvalidInput, StepsFailed, ToolrouteError
from orchestrator.records import durable_names as names
from orchestrator.records.run import Checkpoint, RunRequest, RunResult
from orchestrator.temporal.workflow.handlers import Handlers
from orchestrator.temporal.workflow.payload import (
    MAX_PAYLOAD_BYTES,
    NOTHING,
    check_size,
    read_input,
)
from orchestrator.temporal.workflow.run import Run
from orchestrator.temporal.workflow.step import MAX_REASON
from orchestrator.temporal.workflow.tool_router import ToolRouter


@workflow.defn(name=names.RUN)
class RunWorkflow:
    """RunRequest -> RunResult. It continues as new between two steps when the history becomes long. Nothing runs twice.

    Its memo (RunMemo) and its current details have the state of its steps, without arguments.
    """

    @workflow.init
    def __init__(self, payload: RawValue = NOTHING) -> None:
        self._broken: InvalidInput | None = None
        self._request = RunRequest(task="")
        try:
            self._request = read_input(payload, RunRequest)
            self._request.validate()
            check_tenant(self._request.tenant)
        except InvalidInput as error:
            # `run` raises it. Raised here, queries would find no workflow.
            self._request = RunRequest(task="")
            self._broken = error
        self._run = Run(self._request, ToolRouter(self._request.tenant), stopping=self._stopping)
        self._handlers = Handlers(self._request.tenant)
        self._handlers.register(self._run)
        before = self._request.checkpoint.stream if self._request.checkpoint else None
        self._stream = WorkflowStream(_STREAM.validate_python(before) if before else None)
        self._handlers.publish(self._stream)

    @workflow.run
    async def run(self, payload: RawValue = NOTHING) -> RunResult:
        async with self._handlers.showing(self._run):
            ended = await self._carry_out()
        # Pollers get the last changes in time, and the rest by query.
        self._stream.detach_pollers()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return ended

    async def _carry_out(self) -> RunResult:
        try:
            if self._broken:
                raise self._broken
            ended = await self._run.advance()
            if isinstance(ended, Checkpoint):
                # Routing and planning are done, so their inputs are not passed on.
                ended_so_far = replace(
                    self._request, arguments={}, conversation=(), checkpoint=ended
                )
                check_size("the run's checkpoint", ended_so_far, MAX_PAYLOAD_BYTES)
                await self._continue_as_new(ended_so_far, ended)
            check_size("the run's result", ended, MAX_PAYLOAD_BYTES)
            if ended.failed:
                reasons = [f"{step.step} {step.tool}: {step.reason}" for step in ended.steps]
                raise StepsFailed("; ".join(reasons)[:MAX_REASON])
        except ToolrouteError as error:
            self._run.failed(error)
            details = [ended] if isinstance(error, StepsFailed) else []
            kind = type(error).__name__
            raise ApplicationError(
                str(error), *details, type=kind, non_retryable=not error.retry
            ) from error
        return ended

    async def _continue_as_new(self, request: RunRequest, done: Checkpoint) -> NoReturn:
        self._stream.detach_pollers()
        await workflow.wait_condition(workflow.all_handlers_finished)
        stream = _STREAM.dump_python(self._stream.get_state(), mode="json")
        # By default the next execution has the memo of the start, and `toolroute runs` would not find it until its
        # first task.
        memo = {name: RawValue(payload) for name, payload in workflow.info().raw_memo.items()}
        checkpoint = replace(done, stream=stream)
        workflow.continue_as_new(replace(request, checkpoint=checkpoint), memo=memo)

    def _stopping(self, started: int) -> bool:
        most = self._request.steps_per_run
        full = workflow.info().is_continue_as_new_suggested() or (
            most is not None and started >= most
        )
        return started > 0 and full


_STREAM = TypeAdapter(WorkflowStreamState)
