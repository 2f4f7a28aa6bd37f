"""`toolroute run`: a task carried out on Temporal, behind a budget and the user's approval."""

import asyncio
import logging
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from orchestrator import errors
from orchestrator.cli.routing.plan import NEEDS_USER, plan_exit_code
from orchestrator.cli.routing.plan_view import show_run
from orchestrator.cli.runs.approval_hints import note_how_to_approve
from orchestrator.cli.runs.reporter import SOON, RunReporter
from orchestrator.cli.runs.temporal import connect, quiet, temporal_server, ui_pages
from orchestrator.cli.runs.worker import make_worker
from orchestrator.cli.runs.worker_plugin import make_plugin
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.derived_options import pairs
from orchestrator.cli.shared.output import clean_stdout, log, note, present
from orchestrator.cli.shared.typed_options import refuse
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.trust.audit import audited
from orchestrator.cli.trust.consent import is_at_terminal, without_digests
from orchestrator.common.fields import SHORTEST_S
from orchestrator.errors import InvalidInput, ToolrouteError, Unavailable
from orchestrator.options import Options
from orchestrator.records import durable_names as names
from orchestrator.records.budget import Limits
from orchestrator.records.run import RunMemo, RunRequest, RunResult, StepStatus
from orchestrator.temporal.client.run_client import (
    RunClient,
    failed_result,
    page_of,
    run_attributes,
)
from orchestrator.trust.audit import of_step

if TYPE_CHECKING:
    from temporalio.client import WorkflowFailureError, WorkflowHandle

_SHARED_OPTIONS = (
    "catalogue",
    "config",
    "sources",
    "temporal",
    "run",
    "approve",
    "model",
    "calibration",
    "output",
)
_STOPPING_S = 30.0
"""Maximum seconds for a cancelled run to stop its calls and report how each step ended."""
_OF_WORKERS = (
    "catalogue",
    "store",
    "config",
    "calibration",
    "pipeline",
    "understand",
    "decide",
    "model",
)
"""Options that the workers of a task queue have themselves."""


class _Started(NamedTuple):
    client: RunClient
    handle: "WorkflowHandle[Any, RunResult]"
    queue: str


@click.command()
@click.argument("task")
@taking(*_SHARED_OPTIONS)
@click.option(
    "--yes",
    "approved",
    multiple=True,
    metavar="STEP=DIGEST",
    callback=lambda _, __, values: pairs(
        "--yes", values, "as an earlier run printed it", form="STEP=DIGEST"
    ),
    help="Approve the call with this digest, which an earlier run at a terminal showed.",
)
@click.option(
    "--task-queue",
    metavar="NAME",
    help="Use the workers of this task queue. [default: a worker in this process]",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Start the run on --task-queue and exit. `toolroute runs` shows it.",
)
@click.option(
    "--start-within",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    metavar="SECONDS",
    help="End a run on --task-queue that no worker has started after this time.",
)
@click.option(
    "--budget",
    "limits",
    default=Limits().max_total_tokens,
    metavar="TOKENS",
    callback=lambda _, __, value: Limits(max_total_tokens=value),
    help="Maximum number of tokens that the run may use.",
)
async def run(
    workspace: Workspace,
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
    approval is called, and see the digest that approves this call in a script. Without a terminal, such a tool is
    not called.

    Exit codes: 0 every step done, 1 a step failed, 2 bad usage or input, 3 no tool matches, 5 a step is waiting for
    input or approval.
    """
    log(logging.ERROR)
    _check_options(task_queue, detach=detach)
    asks = is_at_terminal()
    if not (asks or detach):  # No call could be approved later.
        request = replace(request, approval_timeout_s=SHORTEST_S)
    # A server that starts here may print to standard output, which is for the result.
    with clean_stdout():
        async with _started(request, workspace, options, dev=dev, task_queue=task_queue) as started:
            for digest in request.approved.values():  # By --yes.
                audited(
                    "approval",
                    request.tenant,
                    **of_step(started.handle.id, "", digest, allowed=True),
                )
            result = (
                None if detach else await _follow(RunReporter(*started, start_within, asks=asks))
            )
    if result is None:
        run_id = started.handle.id
        present(output, {"id": run_id}, run_id)
        return 0
    present(output, without_digests(result.to_json()), lambda: show_run(result))
    note_how_to_approve(result, request)
    return _exit_code(result)


def _check_options(task_queue: str | None, *, detach: bool) -> None:
    """Refuse options that would have no effect."""
    if detach and not task_queue:
        raise InvalidInput(
            "--detach needs --task-queue NAME, the queue of the workers that run the task"
        )
    if task_queue:
        refuse(
            _OF_WORKERS,
            f"has no effect: the workers of {task_queue!r} have their own; leave it out",
        )
    if detach or not task_queue:
        reason = "is for a run that this command follows on --task-queue: leave it out"
        refuse(("start_within",), reason)


@asynccontextmanager
async def _started(
    request: RunRequest,
    workspace: Workspace,
    options: Options,
    *,
    dev: bool,
    task_queue: str | None,
) -> AsyncIterator[_Started]:
    """Start a run and yield it. Without a task queue, a worker in this process serves the run."""
    from orchestrator.temporal.client.devserver import settle

    quiet()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(settle)
        plugin = None if task_queue else await make_plugin(workspace, options)
        server = await stack.enter_async_context(temporal_server(options, dev=dev))
        client = await connect(server, plugin)
        run_id = f"toolroute-run-{uuid.uuid4().hex[:12]}"
        queue = task_queue or run_id
        if plugin is not None:
            await stack.enter_async_context(make_worker(client, queue))
        memo = {names.RUN: RunMemo(tenant=request.tenant)}
        handle = await client.start_workflow(
            names.RUN,
            request,
            id=run_id,
            task_queue=queue,
            result_type=RunResult,
            memo=memo,
            search_attributes=await run_attributes(client, request.tenant),
        )
        pages = ui_pages(server, options)
        note(f"run {run_id} {page_of(pages, run_id)}".rstrip())
        yield _Started(RunClient(client, request.tenant, pages), handle, queue)


def _exit_code(result: RunResult) -> int:
    if not result.steps:
        return plan_exit_code(result.plan)
    unfinished = {step.status for step in result.steps} - {StepStatus.DONE}
    if not unfinished:
        return 0
    waiting = {StepStatus.NEEDS_INPUT, StepStatus.NEEDS_APPROVAL}
    only_waits = unfinished & waiting and unfinished <= waiting | {StepStatus.SKIPPED}
    return NEEDS_USER if only_waits else 1


async def _follow(reporter: RunReporter) -> RunResult:
    """Report the run's progress until it ends and return its result.

    Asks the user where a step waits for approval, and cancels the run when the user interrupts.
    """
    from temporalio.client import WorkflowFailureError
    from temporalio.service import RPCError

    handle = reporter.handle
    reporting = asyncio.create_task(reporter.until_cancelled())
    ending = asyncio.create_task(handle.result())
    try:
        await asyncio.wait((ending, reporting), return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            # The reporter ends before the run only by an error. Nobody would be asked any more.
            await reporting
        result = await ending
    except WorkflowFailureError as failure:
        failed = failed_result(failure)
        if failed is None:
            raise (
                Unavailable(reporter.given_up) if reporter.given_up else _unwrap(failure)
            ) from None
        result = failed
    except asyncio.CancelledError:
        remedy = f"press Ctrl-C again to leave at once; follow the run with `toolroute runs show {handle.id}`"
        note(f"cancelling the run {handle.id}, its steps are stopped; {remedy}")
        with suppress(RPCError):
            await _stop(reporter)
        raise
    finally:
        ending.cancel()
        reporting.cancel()
        await asyncio.gather(ending, reporting, return_exceptions=True)
    await reporter.answers_are_passed_on()
    reporter.report(result.steps)
    return result


async def _stop(reporter: RunReporter) -> None:
    """Cancel the run and report how its steps ended, at most until a second Ctrl-C.

    That one is taken here: as KeyboardInterrupt it would hit the worker in this process anywhere, which then hangs. A
    run that no worker has taken up is terminated, as it would stay there until one comes.
    """
    handle = reporter.handle
    leave_at_once = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, leave_at_once.set)
    if not reporter.answered:
        await handle.terminate("cancelled before a worker started it", rpc_timeout=SOON)
        return
    await handle.cancel()
    waiting = [asyncio.ensure_future(handle.result()), asyncio.ensure_future(leave_at_once.wait())]
    await asyncio.wait(waiting, timeout=_STOPPING_S, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await reporter.report_end()


def _unwrap(failure: "WorkflowFailureError") -> ToolrouteError:
    """Return the error that made a workflow fail, as the class that it was, with its message."""
    from orchestrator.temporal.workflow.call import why_failed

    kind, message = why_failed(failure.cause)
    error_type = getattr(errors, kind, None)
    if isinstance(error_type, type) and issubclass(error_type, ToolrouteError):
        return error_type(message)
    return ToolrouteError(f"the run failed: {kind}: {message}")
