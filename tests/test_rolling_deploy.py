"""Two versions of the worker on one task queue, as while new ones replace old ones."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator

import pytest

from orchestrator import Decision, RouteRequest
from tests.runner import Runner, statuses
from tests.running import TENANT


@pytest.fixture
async def later_worker(temporal_address: str, task_queue: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.later_version", temporal_address, task_queue), stdin=PIPE, stdout=PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert b"serves" in await process.stdout.readline()
    yield
    process.stdin.close()
    await process.wait()


async def test_old_and_new_workers_share_their_runs(runner: Runner, later_worker: None) -> None:
    """Each record of the new worker has a further field: ToolCall, Tool, RouteRequest, PlanRequest, Limits and all."""
    task = "Read the file a.txt, then read the file b.txt, then delete the file c.txt"
    handles = [await runner.start(task, steps_per_run=1) for _ in range(6)]
    request = RouteRequest(query=task, tenant=TENANT)
    routes = [
        await runner.begin(workflow, request, result_type=Decision)
        for workflow in ("toolroute.route", "toolroute.route_staged")
        for _ in range(4)
    ]
    assert [statuses(await handle.result()) for handle in handles] == [["done"] * 3] * 6
    assert {(await route.result()).recommended for route in routes} == {("files:read_file", "files:delete_file")}
    workers = set[str]()
    for handle in handles:
        async for event in runner.client.get_workflow_handle(handle.id).fetch_history_events():
            workers.add(event.activity_task_started_event_attributes.identity)
    assert len(workers - {""}) == 2
