"""Runs of the workflow `toolroute.run` in tests, each replayed once it has ended."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowHandle

from orchestrator.records import durable_names as names
from orchestrator.records.run import RunRequest, RunResult
from orchestrator.workflows.execution import RunWorkflow
from tests.running import TENANT, Desk, plugin_over
from tests.temporal import replays, working


class Runner:
    """Starts runs on one worker, none of which waits for approval unless asked to; replays each that has ended."""

    def __init__(self, client: Client, task_queue: str, desk: Desk) -> None:
        self.client, self.task_queue, self.desk = client, task_queue, desk

    async def start(self, task: str, **settings: Any) -> WorkflowHandle[Any, RunResult]:
        request = RunRequest(task=task, tenant=TENANT, **{"heartbeat_s": 1.0, "approve": "never", **settings})
        return await self.client.start_workflow(
            names.RUN, request, id=f"run-{uuid4().hex[:8]}", task_queue=self.task_queue, result_type=RunResult
        )

    async def run(self, task: str, **settings: Any) -> tuple[RunResult, WorkflowHandle[Any, RunResult]]:
        handle = await self.start(task, **settings)
        result = await asyncio.wait_for(handle.result(), 60)
        await replays(await handle.fetch_history(), [RunWorkflow])
        return result, handle


@pytest.fixture
async def runner(temporal_address: str, task_queue: str) -> AsyncIterator[Runner]:
    desk = Desk()
    client = await Client.connect(temporal_address, plugins=[plugin_over(desk)])
    async with working(client, task_queue):
        yield Runner(client, task_queue, desk)


def statuses(result: RunResult) -> list[str]:
    return [str(step.status) for step in result.steps]
