"""A cancelled run sends nothing more, also where the call under way fails and might have been tried again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError

from orchestrator.errors import ServerUnavailable
from orchestrator.records import durable_names as names
from orchestrator.records.run import Progress, RunRequest, RunResult
from orchestrator.workflows.execution import RunWorkflow
from tests.running import TENANT, plugin_over
from tests.temporal import activities_of, replays, working

Run = WorkflowHandle[Any, RunResult]


class Away:
    """A tool whose server turns out to be away once it is released, so that nothing was sent."""

    def __init__(self) -> None:
        self.calls, self.under_way, self.release = 0, asyncio.Event(), asyncio.Event()

    async def add_note(self, title: str, body: str = "") -> str:
        self.calls += 1
        self.under_way.set()
        await self.release.wait()
        raise ServerUnavailable("the server of notes is away")


@pytest.fixture
async def away(temporal_address: str, task_queue: str) -> AsyncIterator[tuple[Away, Run]]:
    """The tool, and a run that waits for its answer."""
    tool = Away()
    client = await Client.connect(temporal_address, plugins=[plugin_over(executors={"notes:add_note": tool.add_note})])
    async with working(client, task_queue):
        # A worker hears of a cancellation with its next heartbeat: the tool has failed by then.
        request = RunRequest(task="Add a note titled 'x'", tenant=TENANT, heartbeat_s=30.0)
        handle = await client.start_workflow(
            names.RUN, request, id=f"run-{uuid4().hex[:8]}", task_queue=task_queue, result_type=RunResult
        )
        async with asyncio.timeout(30):
            await tool.under_way.wait()
        yield tool, handle


async def test_a_call_that_fails_after_the_cancellation_is_not_tried_again(away: tuple[Away, Run]) -> None:
    tool, handle = away
    await handle.cancel()
    tool.release.set()
    await _ended_unsent(handle)
    assert tool.calls == 1
    assert await activities_of(handle) == [names.ROUTE, names.PLAN, names.CALL_TOOL]


async def test_a_cancellation_between_two_tries_tells_that_nothing_was_sent(away: tuple[Away, Run]) -> None:
    tool, handle = away
    tool.release.set()
    await _waits(handle)
    await handle.cancel()
    await _ended_unsent(handle)


async def _waits(handle: Run) -> None:
    """Returns in the pause between two tries, whose timer is the only one of the run."""
    for _ in range(300):
        if (await handle.fetch_history()).events[-1].HasField("timer_started_event_attributes"):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never paused")


async def _ended_unsent(handle: Run) -> None:
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 30)
    assert isinstance(failure.value.cause, CancelledError)
    (step,) = (await handle.query(names.PROGRESS, result_type=Progress)).steps
    assert (step.status, step.reason) == ("cancelled", "cancelled before anything was sent")
    await replays(await handle.fetch_history(), [RunWorkflow])
