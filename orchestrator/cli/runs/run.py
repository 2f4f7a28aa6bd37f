"""`toolroute run`: a task carried out on Temporal, behind a budget and the user's approval."""

import asyncio
import getpass
import logging
import os
import shlex
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.routing.route import NEEDS_USER, answered
from orchestrator.cli.routing.views import show_run
from orchestrator.cli.runs.temporal import (
    clean_stdout,
    connect,
    make_plugin,
    quiet,
    temporal_server,
    ui_pages,
    unwrap,
)
from orchestrator.cli.runs.worker import make_worker
from orchestrator.cli.shared.command_options import pairs, taking, typed
from orchestrator.cli.shared.output import log, note, present
from orchestrator.cli.shared.workspace import Place
from orchestrator.cli.trust.audit import audited
from orchestrator.common.fields import SHORTEST_S
from orchestrator.common.lines import as_json, inline, one_line
from orchestrator.errors import InvalidInput, Unavailable
from orchestrator.options import Options
from orchestrator.records import durable_names as names
from orchestrator.records.budget import Limits
from orchestrator.records.call import Approve
from orchestrator.records.run import (
    Approval,
    Progress,
    RunMemo,
    RunRequest,
    RunResult,
    StepOutcome,
    StepProgress,
    StepStatus,
)
from orchestrator.temporal.client.run_client import failed_result, page_of
from orchestrator.trust.approval_rules import call_digest, needs_approval
from orchestrator.trust.audit import of_step

if TYPE_CHECKING:
    from temporalio.api.failure.v1 import Failure
    from temporalio.client import WorkflowHandle

_LOOK_EVERY_S, _RETRIES_EVERY_S = 0.2, 1.0
_NO_WORKER_AFTER_S = 4.0
"""Seconds without an answer before the user is warned that no worker serves the queue."""
_STOPPING_S = 30.0
"""Maximum seconds for a cancelled run to stop its calls and report how each step ended."""
_SOON = timedelta(seconds=2)


@click.command()
@click.argument("task")
@taking(*("catalogue", "config", "sources", "temporal", "run", "approve", "model", "calibration", "output"))
@click.option(
    *("--yes", "approved"),
    multiple=True,
    metavar="STEP=DIGEST",
    callback=lambda _, __, given: pairs("--yes", given, "as an earlier run printed it", form="STEP=DIGEST"),
    help="Approve the call with this digest, which an earlier run printed.",
)
@click.option(
    "--task-queue", metavar="NAME", help="Use the workers of this task queue. [default: a worker in this process]"
)
@click.option("--detach", is_flag=True, help="Start the run on --task-queue and exit. `toolroute runs` shows it.")
@click.option(
    "--start-within",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    metavar="SECONDS",
    help="End a run on --task-queue that no worker has started after this time.",
)
@click.option(
    *("--budget", "limits"),
    default=Limits().max_total_tokens,
    metavar="TOKENS",
    callback=lambda _, __, given: Limits(max_total_tokens=given),
    help="Maximum number of tokens that the run may use.",
)
async def run(
    place: Place,
    request: RunRequest,
    options: Options,
    dev: bool,
    task_queue: str | None,
    detach: bool,
    start_within: float,
    output: str,
) -> int:
    """Run TASK durably on Temporal.

    The task is routed, and the plan is made from the same matches. In a terminal you are asked before a tool that needs
    approval is called. Without a terminal the run waits, and the command that approves exactly these calls is printed.

    Exit codes: 0 every step done, 1 a step failed, 2 bad usage or input, 3 no tool matches, 5 a step is waiting for
    input or approval.
    """
    log(logging.ERROR)
    if detach and not task_queue:
        raise InvalidInput("--detach needs --task-queue NAME, the queue of the workers that run the task")
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    waits_s = request.approval_timeout_s if asks or detach else SHORTEST_S  # Otherwise no call could be approved later.
    asked = replace(request, approval_timeout_s=waits_s, actor=_user())
    if task_queue:
        _note_unused(task_queue)
    with clean_stdout():
        async with _started(asked, place, options, dev=dev, task_queue=task_queue) as (handle, queue):
            for approved in asked.approved.values():  # By --yes.
                audited("approval", asked.tenant, **of_step(handle.id, "", approved, allowed=True))
            reporter = _Reporter(handle, queue, asked.tenant, within_s=start_within, asks=asks)
            result = None if detach else await _follow(reporter)
    if result is None:
        present(output, {"id": handle.id}, lambda: click.echo(handle.id))
        return 0
    present(output, result.to_json(), lambda: show_run(result))
    _say_how_to_approve(result, asked)
    return _exit_code(result)


def _note_unused(task_queue: str) -> None:
    theirs = [f"--{name}" for name in ("catalogue", "store", "config", "calibration", "model") if typed(name)]
    if theirs:
        note(f"{', '.join(theirs)} not used: the workers of {task_queue!r} have their own")


@asynccontextmanager
async def _started(
    request: RunRequest, place: Place, options: Options, *, dev: bool, task_queue: str | None
) -> "AsyncIterator[tuple[WorkflowHandle[Any, RunResult], str]]":
    """Start a run and yield it with its task queue. Without a task queue, a worker in this process serves the run."""
    from orchestrator.temporal.client.devserver import settle

    quiet()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(settle)
        plugin = None if task_queue else await make_plugin(place, options)
        where = await stack.enter_async_context(temporal_server(options, dev=dev))
        client = await connect(where, plugin)
        run_id = f"toolroute-run-{uuid.uuid4().hex[:12]}"
        queue = task_queue or run_id
        if plugin is not None:
            await stack.enter_async_context(make_worker(client, queue))
        whose = {names.RUN: RunMemo(tenant=request.tenant)}
        handle = await client.start_workflow(
            names.RUN, request, id=run_id, task_queue=queue, result_type=RunResult, memo=whose
        )
        note(f"run {run_id} {page_of(ui_pages(where, options), run_id)}".rstrip())
        yield handle, queue


def _exit_code(result: RunResult) -> int:
    if not result.steps:
        return NEEDS_USER if result.plan.needs_input else 0 if answered(result.plan) else 3
    ended = {step.status for step in result.steps} - {StepStatus.DONE}
    waiting = {StepStatus.NEEDS_INPUT, StepStatus.NEEDS_APPROVAL}
    if not ended:
        return 0
    return NEEDS_USER if ended & waiting and ended <= waiting | {StepStatus.SKIPPED} else 1


def _say_how_to_approve(result: RunResult, asked: RunRequest) -> None:
    """Name the calls that wait for approval, now or once others are done, and the command that approves these alone."""
    ended = {outcome.step: outcome for outcome in result.steps}
    if not any(outcome.digest for outcome in ended.values()):
        return
    decisions, calls = (result.decision, *result.extra_routes), dict[str, str]()
    for step in result.plan.steps:
        outcome = ended[step.id]
        tool = next((found for decision in decisions if (found := decision.tool(step.tool))), None)
        if tool is None or step.missing or not needs_approval(tool, Approve(asked.approve)):
            continue
        arguments, status = outcome.arguments or step.arguments, outcome.status.replace("_", " ")
        call = f"{step.tool} with {as_json(arguments)}"
        if step.late and outcome.status is StepStatus.SKIPPED:
            note(f"{step.id} will need approval after a model has completed its arguments: {call}")
            continue
        calls[step.id] = outcome.digest or asked.approved.get(step.id) or call_digest(tool, arguments)
        note(f"{step.id} {'waits for approval' if outcome.digest else f'({status}) needs approval, too'}: {call}")
    note(f"to approve exactly these calls: {shlex.join(['toolroute', *_typed_with(calls)])}")


def _typed_with(calls: Mapping[str, str]) -> list[str]:
    """Return the user's command line with `--yes` for exactly these calls."""
    typed_line = sys.argv[1:]
    end = typed_line.index("--") if "--" in typed_line else len(typed_line)
    options = iter(typed_line[:end])
    kept = [word for word in options if not word.startswith("--yes=") and (word != "--yes" or not next(options, ""))]
    return [*kept, *(f"--yes={step}={digest}" for step, digest in calls.items()), *typed_line[end:]]


async def _follow(reporter: "_Reporter") -> RunResult:
    """Report the run's progress until it ends and return its result.

    Asks the user where a step waits for approval, and cancels the run when the user interrupts.
    """
    from temporalio.client import WorkflowFailureError
    from temporalio.service import RPCError

    handle = reporter.handle
    reporting = asyncio.create_task(reporter.until_cancelled())
    try:
        result = await handle.result()
        reporter.report(result.steps)
        return result
    except WorkflowFailureError as failure:
        if (failed := failed_result(failure)) is not None:
            reporter.report(failed.steps)
            return failed
        raise Unavailable(reporter.given_up) if reporter.given_up else unwrap(failure) from None
    except asyncio.CancelledError:
        how = f"press Ctrl-C again to leave at once; follow the run with `toolroute runs show {handle.id}`"
        note(f"cancelling the run {handle.id}, its steps are stopped; {how}")
        with suppress(RPCError):
            await _stop(reporter)
        raise
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)


async def _stop(reporter: "_Reporter") -> None:
    """Cancel the run and report how its steps ended, at most until a second Ctrl-C.

    That one is taken here: as KeyboardInterrupt it would hit the worker in this process anywhere, which then hangs. A
    run that no worker has taken up is terminated, as it would stay there until one comes.
    """
    handle, hurry = reporter.handle, asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, hurry.set)
    if not reporter.answered:
        await handle.terminate("cancelled before a worker started it", rpc_timeout=_SOON)
        return
    await handle.cancel()
    waiting = [asyncio.ensure_future(handle.result()), asyncio.ensure_future(hurry.wait())]
    await asyncio.wait(waiting, timeout=_STOPPING_S, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    reporter.report((await reporter.look()).steps)


class _Reporter:
    """Writes each change of a step and each retry to standard error, and asks where a step waits for approval."""

    def __init__(
        self, handle: "WorkflowHandle[Any, RunResult]", queue: str, tenant: str, *, within_s: float, asks: bool
    ) -> None:
        self.handle, self._queue, self._tenant, self._asks = handle, queue, tenant, asks
        self._within_s, self.given_up = within_s, ""
        self._status: dict[str, StepStatus] = {}
        self._retried: set[tuple[str, str]] = set()
        self._retries_at = 0.0
        self.answered = False

    async def until_cancelled(self) -> None:
        from temporalio.service import RPCError

        started = time.monotonic()
        unserved_at = started + min(_NO_WORKER_AFTER_S, self._within_s)
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                progress = await self.look()
                await self._report_retries()
            except RPCError:  # No worker has taken the run up yet.
                if not self.answered and time.monotonic() > unserved_at:
                    start = f"start it with `toolroute worker --task-queue {self._queue}`, or end the run with Ctrl-C"
                    note(f"no worker serves the task queue {self._queue!r} yet, the run waits for one: {start}")
                    unserved_at = float("inf")
                if not self.answered and time.monotonic() > started + self._within_s:
                    await self._give_up()
                continue
            changed = self.report(progress.steps)
            for step in progress.steps:
                if self._asks and step.step in changed and step.status is StepStatus.NEEDS_APPROVAL:
                    await self._ask(step)

    async def _give_up(self) -> None:
        """End a run that no worker has taken up."""
        start = f"start one with `toolroute worker --task-queue {self._queue}`, or increase --start-within"
        self.given_up = f"no worker took the run within {self._within_s:g} s, nothing was done: {start}"
        await self.handle.terminate(self.given_up, rpc_timeout=_SOON)

    async def look(self) -> Progress:
        """Query the run's state. Raises RPCError while no worker serves the run."""
        progress: Progress = await self.handle.query(names.PROGRESS, result_type=Progress, rpc_timeout=_SOON)
        self.answered = True
        return progress

    def report(self, steps: Iterable[StepProgress | StepOutcome]) -> set[str]:
        """Write the steps whose status changed since the last report. Returns their ids."""
        changed = [step for step in steps if self._status.get(step.step) != step.status]
        for step in changed:
            self._status[step.step] = step.status
            note(f"{step.step} {step.tool or 'no tool'}: {step.status.replace('_', ' ')}")
        return {step.step for step in changed}

    async def _report_retries(self) -> None:
        """Write each failure that is being retried, each reason once. A run retries an unavailable service for ten
        minutes.
        """
        if time.monotonic() < self._retries_at:
            return
        self._retries_at = time.monotonic() + _RETRIES_EVERY_S
        described = await self.handle.describe(rpc_timeout=_SOON)
        for activity in described.raw_description.pending_activities:
            name, why = activity.activity_type.name, _reason(activity.last_failure)
            if activity.attempt > 1 and (name, why) not in self._retried:
                self._retried.add((name, why))
                note(one_line(f"{name} failed and is retried (Ctrl-C ends the run): {why}", 500))

    async def _ask(self, step: StepProgress) -> None:
        import termios  # Windows has none.

        from temporalio.client import WorkflowUpdateFailedError

        from orchestrator.temporal.workflow.call import why_failed

        call = f"{step.tool} be called with {as_json(step.arguments)}"
        termios.tcflush(0, termios.TCIFLUSH)  # Keys that were typed before the question do not answer it.
        click.echo(inline(f"{step.step} {step.task!r}: may {call}? [y/N]: "), err=True, nl=False)
        yes = (await _typed_line()).strip().lower() in ("y", "yes")
        word = Approval(step=step.step, digest=step.digest, allowed=yes, by="the terminal")
        try:
            await self.handle.execute_update(names.APPROVE, word)
        except WorkflowUpdateFailedError as error:  # The step has waited too long for this word.
            note(why_failed(error.cause)[1])
        else:
            audited("approval", self._tenant, **of_step(self.handle.id, step.tool, step.digest, allowed=yes))


def _reason(failure: "Failure") -> str:
    """Return the activity's own words: the server replaces a large failure, and keeps the rest as its cause."""
    while failure.HasField("server_failure_info") and failure.HasField("cause"):
        failure = failure.cause
    return failure.message


async def _typed_line() -> str:
    """Read a line of the terminal without a thread, which an interrupted command would have to wait for."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()
    loop.add_reader(0, lambda: None if line.done() else line.set_result(os.read(0, 4096)))
    try:
        return (await line).decode(errors="replace")
    finally:
        loop.remove_reader(0)


def _user() -> str:
    """Return the name of the user who runs this process, or "" if the system has none."""
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return ""
