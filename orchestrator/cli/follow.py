"""Following a run on Temporal from the command line: its progress as it comes, the user's word where it asks for it."""

import asyncio
import json
import os
import signal
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.plain import escaped, note, one_line, plain
from orchestrator.cli.temporal import unwrap
from orchestrator.records.run import (
    Approval,
    Approve,
    Progress,
    RunRequest,
    RunResult,
    StepOutcome,
    StepProgress,
    StepStatus,
)

if TYPE_CHECKING:
    from temporalio.api.failure.v1 import Failure
    from temporalio.client import Client, WorkflowHandle

EVERY_S = 0.2
MOST_TOLD = 500
"""Characters of a failure."""
NO_WORKER_AFTER_S = 4.0
"""Seconds without an answer after which the user is told that nobody serves the queue."""
_NOT_TAKEN_UP = 3
"""Events of a run that no worker has seen: started, a task for a worker, asked to cancel."""
RETRIES_EVERY_S = 1.0
STOPPING_S = 30.0
"""Most seconds that a cancelled run gets to stop its calls and to tell how each step ended."""


async def follow(client: "Client", request: RunRequest, queue: str) -> RunResult:
    """Starts the run, tells its progress, and cancels it when the user does."""
    from temporalio.client import WorkflowFailureError
    from temporalio.service import RPCError

    from orchestrator.records import durable_names as names

    run_id = f"toolroute-run-{uuid.uuid4().hex[:12]}"
    handle = await client.start_workflow(names.RUN, request, id=run_id, task_queue=queue, result_type=RunResult)
    teller = _Teller(handle, queue, ask=request.approve is not Approve.NEVER)
    telling = asyncio.create_task(teller.until_cancelled())
    try:
        result: RunResult = await handle.result()
        teller.tell(result.steps)
        return result
    except WorkflowFailureError as failure:
        raise unwrap(failure) from None
    except asyncio.CancelledError:
        note("cancelling ... (once more: without waiting for it)")
        with suppress(RPCError):
            await _stopped(handle, teller)
        raise
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _stopped(handle: "WorkflowHandle[Any, RunResult]", teller: "_Teller") -> None:
    """Cancels the run and tells how its steps ended; waits for nobody past a second Ctrl-C. A run that no worker has
    taken up is ended at once, as it would stand there, running, until one comes.

    The second Ctrl-C is taken here: as KeyboardInterrupt it would hit the worker in this process anywhere, which then
    hangs.
    """
    hurry = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, hurry.set)
    await handle.cancel()
    if not teller.answered:
        described = await handle.describe(rpc_timeout=timedelta(seconds=2))
        if described.history_length <= _NOT_TAKEN_UP:
            await handle.terminate("cancelled before a worker took it up", rpc_timeout=timedelta(seconds=2))
        return
    waiting = {asyncio.ensure_future(handle.result()), asyncio.ensure_future(hurry.wait())}
    await asyncio.wait(waiting, timeout=STOPPING_S, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    teller.tell((await teller.ask()).steps)


class _Teller:
    """Each change of a step on standard error, and what is tried again; asks where a step waits for approval."""

    def __init__(self, handle: "WorkflowHandle[Any, RunResult]", queue: str, *, ask: bool) -> None:
        self._handle, self._queue, self._asks = handle, queue, ask
        self._told: dict[str, StepStatus] = {}
        self._retried: set[tuple[str, str]] = set()
        self._look_at = 0.0
        self.answered = False

    async def until_cancelled(self) -> None:
        from temporalio.service import RPCError

        waited_since: float | None = time.monotonic()
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                progress = await self.ask()
                await self._tell_retries()
            except RPCError:  # no worker has taken the run up yet
                if waited_since is not None and time.monotonic() - waited_since > NO_WORKER_AFTER_S:
                    note(
                        f"no worker serves the task queue {self._queue!r} yet, the run waits for one: start it with"
                        f" `toolroute worker --task-queue {self._queue}`, or end the run with Ctrl-C"
                    )
                    waited_since = None
                continue
            waited_since = None
            changed = self.tell(progress.steps)
            for step in progress.steps:
                if self._asks and step.step in changed and step.status is StepStatus.NEEDS_APPROVAL:
                    await self._settle(step)

    async def ask(self) -> Progress:
        """How the run stands; RPCError while nobody serves it."""
        from orchestrator.records import durable_names as names

        in_time = timedelta(seconds=2)
        progress: Progress = await self._handle.query(names.PROGRESS, result_type=Progress, rpc_timeout=in_time)
        self.answered = True
        return progress

    async def _tell_retries(self) -> None:
        """What failed and is tried again, each reason once: for what is away a run waits ten minutes."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + RETRIES_EVERY_S
        described = await self._handle.describe(rpc_timeout=timedelta(seconds=2))
        for activity in described.raw_description.pending_activities:
            name, why = activity.activity_type.name, _reason(activity.last_failure)
            if activity.attempt > 1 and (name, why) not in self._retried:
                self._retried.add((name, why))
                note(one_line(f"{name} failed and is tried again (Ctrl-C ends the run): {why}", MOST_TOLD))

    async def _settle(self, step: StepProgress) -> None:
        """The user's word on a step that waits for it."""
        from temporalio.client import WorkflowUpdateFailedError

        from orchestrator.records import durable_names as names

        given = escaped(json.dumps(step.arguments, ensure_ascii=False))
        yes = await _confirmed(f"{step.step} {step.task!r}: may {step.tool} be called with {given}?")
        word = Approval(step=step.step, digest=step.digest, allowed=yes)
        try:
            await self._handle.execute_update(names.APPROVE, word)
        except WorkflowUpdateFailedError as error:  # it waited too long for this word
            note(str(error.cause))

    def tell(self, steps: Iterable[StepProgress | StepOutcome]) -> set[str]:
        """Notes the steps that stand otherwise than when they were last told; their ids."""
        changed = [step for step in steps if self._told.get(step.step) != step.status]
        for step in changed:
            self._told[step.step] = step.status
            note(f"{step.step} {step.tool or 'no tool'}: {step.status.replace('_', ' ')}")
        return {step.step for step in changed}


def _reason(failure: "Failure") -> str:
    """The activity's own words. Where its failure was large, the server says so, and keeps the rest as the cause."""
    while failure.HasField("server_failure_info") and failure.HasField("cause"):
        failure = failure.cause
    return failure.message


async def _confirmed(question: str) -> bool:
    """The user's yes or no; no where nobody can be asked. In a thread that an interrupted command need not wait for."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bool] = loop.create_future()

    def ask() -> None:
        click.echo(plain(f"{question} [y/N]: "), err=True, nl=False)
        said = _line_of_stdin()
        if not said:
            note("nobody can be asked here, so the answer is no")
        with suppress(RuntimeError):  # interrupted: nobody waits for the answer any more
            loop.call_soon_threadsafe(take, said.strip().lower() in ("y", "yes"))

    def take(yes: bool) -> None:
        if not answer.done():
            answer.set_result(yes)

    Thread(target=ask, daemon=True).start()
    return await answer


def _line_of_stdin() -> str:
    """Past Python's own buffer: a thread that waits in there stops the interpreter from ending."""
    line = b""
    with suppress(OSError):
        while not line.endswith(b"\n") and (byte := os.read(0, 1)):
            line += byte
    return line.decode(errors="replace")
