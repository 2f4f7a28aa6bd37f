"""The workflow `toolroute.run`: route, plan from the same matches, carry out the steps behind the budget."""

from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError

from orchestrator.errors import InvalidInput
from orchestrator.records import durable_names as names
from orchestrator.records.run import Checkpoint, Progress, RunRequest, RunResult
from orchestrator.records.tenant import check_tenant
from orchestrator.temporal.call import as_failure, as_failures
from orchestrator.temporal.held import MAX_PAYLOAD_BYTES, check_bytes
from orchestrator.temporal.payload import NOTHING, misnamed, read_input, size_of
from orchestrator.temporal.run import Run
from orchestrator.temporal.workflow import ToolRouter


@workflow.defn(name=names.RUN)
class RunWorkflow:
    """RunRequest -> RunResult. Continues as new between steps when the history grows long; nothing runs twice."""

    @workflow.init
    def __init__(self, given: RawValue = NOTHING) -> None:
        self._broken: InvalidInput | None = None
        self._misnamed = ""
        try:
            request = read_input(given, RunRequest)
            request.validate()
            self._misnamed = misnamed(given, RunRequest)
            if not self._misnamed:
                check_tenant(request.tenant)
        except InvalidInput as error:  # told by `run`: raised here, queries would have no workflow to ask
            request, self._broken = RunRequest(task=""), error
        self._run = Run(request, ToolRouter(request.tenant), should_stop=self._should_stop)

    @workflow.run
    async def run(self, given: RawValue = NOTHING) -> RunResult:
        try:
            return await self._ended(given)
        except FailureError as error:
            self._run.failed(error)
            raise

    async def _ended(self, given: RawValue) -> RunResult:
        if self._broken:
            raise as_failure(self._broken)
        if self._misnamed and workflow.patched(names.ALL_NAMES_READ):
            raise as_failure(InvalidInput(self._misnamed))
        ended = await self._run.advance()
        if isinstance(ended, Checkpoint):
            await workflow.wait_condition(workflow.all_handlers_finished)
            # What only routing and planning read stays behind: both are done.
            following = replace(self._run.request, arguments={}, conversation=(), checkpoint=ended)
            _check_fits("what the run hands on", following)
            workflow.continue_as_new(following)
        _check_fits("the run's result", ended)
        return ended

    @workflow.query(name=names.PROGRESS)
    def progress(self) -> Progress:
        """Phase, steps and budget; also after the end, cancelled or not."""
        return self._run.progress()

    @workflow.signal(name=names.APPROVE)
    def approve(self, *steps: Any) -> None:
        """Lets a step use its destructive tool."""
        self._take_word(steps, allowed=True)

    @workflow.signal(name=names.REJECT)
    def reject(self, *steps: Any) -> None:
        """Ends a step that waits for approval as refused."""
        self._take_word(steps, allowed=False)

    def _take_word(self, steps: tuple[Any, ...], allowed: bool) -> None:
        """On any number of steps: with one parameter, a signal with none or two would leave the workflow stuck."""
        named = [step for step in steps if isinstance(step, str)]
        if not named:
            workflow.logger.warning("a word on a step that names none, give its id: %.80r", steps)
        for step in named:
            self._run.approve(step, allowed)

    def _should_stop(self) -> bool:
        most = self._run.request.steps_per_run
        started = self._run.started
        return started > 0 and (
            workflow.info().is_continue_as_new_suggested() or (most is not None and started >= most)
        )


def _check_fits(what: str, end: RunRequest | RunResult) -> None:
    """A run whose end is too large for a payload fails with a word instead of being terminated by the server."""
    with as_failures():
        check_bytes(what, size_of(end), MAX_PAYLOAD_BYTES)
