"""Reports the progress of a run on standard error, and asks the person at the terminal if a step needs approval."""

import asyncio
import os
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from orchestrator.cli.shared.output import note
from orchestrator.cli.trust.audit import audited
from orchestrator.common.lines import inline, one_line, shown_json
from orchestrator.errors import InvalidInput, Unavailable
from orchestrator.records.run import Approval, StepOutcome, StepProgress, StepStatus
from orchestrator.trust.audit import of_step

if TYPE_CHECKING:
    from temporalio.api.failure.v1 import Failure
    from temporalio.client import WorkflowHandle

    from orchestrator.records.run import RunResult
    from orchestrator.temporal.client.run_client import RunClient

SOON = timedelta(seconds=2)
"""The time for a request about a run. A command that reports or ends a run does not wait long for a busy server."""
_LOOK_EVERY_S = 0.2
_RETRIES_EVERY_S = 1.0
"""A person sees a change at once, and the queries hardly load the worker."""
_NO_WORKER_AFTER_S = 4.0
"""Seconds without an answer before the user is warned that no worker serves the queue."""
_LONGEST_REASON = 500
"""The characters of a retried failure. A stack trace would hide the lines about other steps."""


class RunReporter:
    """Writes each change of a step and each retry to standard error.

    Args:
        client: The tenant's runs.
        handle: The run.
        queue: Its task queue.
        within_s: Seconds in which a worker must take the run up. After that the run is ended.
        asks: Ask at the terminal where a step needs approval.
    """

    def __init__(
        self,
        client: "RunClient",
        handle: "WorkflowHandle[object, RunResult]",
        queue: str,
        within_s: float,
        *,
        asks: bool,
    ) -> None:
        self.handle = handle
        self.given_up = ""
        """Why the run was ended before a worker took it up, "" otherwise."""
        self.answered = False
        """Whether a worker has answered."""
        self._client = client
        self._queue = queue
        self._within_s = within_s
        self._asks = asks
        self._status: dict[str, StepStatus] = {}
        self._noted_retries: set[tuple[str, str]] = set()
        self._answered_steps: set[tuple[str, str]] = set()
        """The steps that the person answered, each with the digest of its call."""
        self._answering: asyncio.Task[None] | None = None
        """Passes the last answer on. The run may end before the worker has confirmed it."""

    async def until_cancelled(self) -> None:
        """Report the run from its beginning."""
        await self._until_a_worker_answers()
        retries = asyncio.create_task(self._report_retries())
        try:
            while True:
                await self._follow()
                # Its worker has gone, and another one may come.
                await asyncio.sleep(_RETRIES_EVERY_S)
        finally:
            retries.cancel()
            await asyncio.gather(retries, return_exceptions=True)

    async def _until_a_worker_answers(self) -> None:
        started = time.monotonic()
        warn_at = started + min(_NO_WORKER_AFTER_S, self._within_s)
        while await self._client.progress(self.handle.id) is None:
            if time.monotonic() > warn_at:
                remedy = f"start it with `toolroute worker --task-queue {self._queue}`, or end the run with Ctrl-C"
                note(
                    f"no worker serves the task queue {self._queue!r} yet, the run waits for one: {remedy}"
                )
                warn_at = float("inf")
            if time.monotonic() > started + self._within_s:
                await self._give_up()
            await asyncio.sleep(_LOOK_EVERY_S)
        self.answered = True

    async def _give_up(self) -> None:
        """End a run that no worker has taken up."""
        remedy = f"start one with `toolroute worker --task-queue {self._queue}`, or increase --start-within"
        self.given_up = (
            f"no worker took the run within {self._within_s:g} s, nothing was done: {remedy}"
        )
        await self.handle.terminate(self.given_up, rpc_timeout=SOON)

    async def _follow(self) -> None:
        """Report the changes of the steps until the run ends or its worker goes."""
        try:
            async for change in self._client.follow(self.handle.id):
                self.report(change.steps)
                waits = any(step.status is StepStatus.NEEDS_APPROVAL for step in change.steps)
                if self._asks and waits:
                    await self._ask_for_waiting_steps()
        except (InvalidInput, Unavailable):
            return

    def report(self, steps: Iterable[StepProgress | StepOutcome]) -> None:
        """Write the steps whose status changed since the last report."""
        for step in steps:
            if self._status.get(step.step, StepStatus.PENDING) != step.status:
                self._status[step.step] = step.status
                note(step_line(step))

    async def answers_are_passed_on(self) -> None:
        """Return once the run has the last answer, and the audit log, too."""
        if self._answering is not None:
            await self._answering

    async def report_end(self) -> None:
        """Write how each step ended."""
        progress = await self._client.progress(self.handle.id)
        if progress:
            self.report(progress.steps)

    async def _report_retries(self) -> None:
        """Write each failure that is being retried, each reason once. A run retries an unavailable service for
        ten minutes.
        """
        from temporalio.service import RPCError

        while True:
            await asyncio.sleep(_RETRIES_EVERY_S)
            try:
                described = await self.handle.describe(rpc_timeout=SOON)
            except RPCError:
                continue
            for activity in described.raw_description.pending_activities:
                if activity.attempt > 1:
                    self._note_retry(activity.activity_type.name, _reason(activity.last_failure))

    def _note_retry(self, activity: str, reason: str) -> None:
        if (activity, reason) not in self._noted_retries:
            self._noted_retries.add((activity, reason))
            text = f"{activity} failed and is retried (Ctrl-C ends the run): {reason}"
            note(one_line(text, _LONGEST_REASON))

    async def _ask_for_waiting_steps(self) -> None:
        """Ask for each step that waits. A change that is followed has no arguments, so they are asked for here."""
        # A busy worker may not answer in time. The question must still be asked, or the run waits for ever.
        while (progress := await self._client.progress(self.handle.id)) is None:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_EVERY_S)
        for step in progress.steps:
            waits = step.status is StepStatus.NEEDS_APPROVAL and bool(step.digest)
            if waits and (step.step, step.digest) not in self._answered_steps:
                await self._ask(step)

    async def _ask(self, step: StepProgress) -> None:
        if step.reason:
            note(f"{step.step}: {step.reason}")
        option = f"--yes {step.step}={step.digest}"
        click.echo(inline(f"In a script, approve exactly this call with {option}"), err=True)
        allowed = await _confirmed(_question(step))
        # A cancelled update of the SDK is a timeout to its caller, and the cancellation would be lost.
        self._answering = asyncio.create_task(self._pass_on(step, allowed=allowed))
        await asyncio.shield(self._answering)

    async def _pass_on(self, step: StepProgress, *, allowed: bool) -> None:
        """Send the person's answer to the run."""
        approval = Approval(step=step.step, digest=step.digest, allowed=allowed, by="the terminal")
        try:
            await self._client.answer(self.handle.id, approval)
        except (InvalidInput, Unavailable) as error:  # The step has waited too long for this word.
            note(str(error))
        else:
            self._answered_steps.add((step.step, step.digest))
            about = of_step(self.handle.id, step.tool, step.digest, allowed=allowed)
            audited("approval", self._client.tenant, **about)


def step_line(step: StepProgress | StepOutcome) -> str:
    """Return the state of a step as one line."""
    return f"{step.step} {step.tool or 'no tool'}: {step.status.in_words}"


def _question(step: StepProgress) -> str:
    arguments = shown_json(step.arguments)
    return f"{step.step} {step.task!r}: may {step.tool} be called with {arguments}?"


def _reason(failure: "Failure") -> str:
    """Return the activity's own words: the server replaces a large failure, and keeps the rest as its cause."""
    while failure.HasField("server_failure_info") and failure.HasField("cause"):
        failure = failure.cause
    return failure.message


async def _confirmed(question: str) -> bool:
    """Ask a person at the terminal. Keys that were typed before the question do not answer it."""
    import termios  # Windows has none.

    termios.tcflush(0, termios.TCIFLUSH)
    click.echo(inline(f"{question} [y/N]: "), err=True, nl=False)
    answer = await _typed_line()
    return answer.strip().lower() in ("y", "yes")


async def _typed_line() -> str:
    """Read a line of the terminal without a thread, which an interrupted command would have to wait for."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()
    loop.add_reader(0, lambda: None if line.done() else line.set_result(os.read(0, 4096)))
    try:
        return (await line).decode(errors="replace")
    finally:
        loop.remove_reader(0)
