"""Workers of the tests, and their runs: `toolroute.run` and users' workflows. Each run is replayed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from orchestrator import OrchestratorPlugin, RunRequest, RunResult, failed_result
from tests.running import TENANT, LocalTools, plugin_over
from tests.temporal import replays, working


class Runner:
    """Starts runs on one worker, and replays each run that has ended. Runs wait for approval only on request."""

    def __init__(self, client: Client, task_queue: str, local: LocalTools) -> None:
        self.client, self.task_queue, self.local = client, task_queue, local

    async def start(self, task: str, *, name: str = "", **settings: Any) -> WorkflowHandle[Any, RunResult]:
        request = RunRequest(task=task, **{"tenant": TENANT, "approve": "never", **settings})
        return await self.client.start_workflow(
            "toolroute.run",
            request,
            id=f"{name or 'run'}-{uuid4().hex[:8]}",
            task_queue=self.task_queue,
            result_type=RunResult,
        )

    async def run(self, task: str, **settings: Any) -> tuple[RunResult, WorkflowHandle[Any, RunResult]]:
        handle = await self.start(task, **settings)
        result = await result_of(handle)
        await replays(await handle.fetch_history())
        return result, handle

    async def begin(self, workflow: Any, *given: Any, **settings: Any) -> WorkflowHandle[Any, Any]:
        """A workflow of a user's own, or one by its name."""
        run = workflow if isinstance(workflow, str) else workflow.run
        return await self.client.start_workflow(run, args=given, id=uuid4().hex, task_queue=self.task_queue, **settings)

    async def execute(self, workflow: Any, *given: Any, **replaying: Any) -> Any:
        """Return its result, and replay it."""
        handle = await self.begin(workflow, *given)
        result = await asyncio.wait_for(handle.result(), 120)
        await replays(await handle.fetch_history(), [workflow], **replaying)
        return result


async def result_of(handle: WorkflowHandle[Any, RunResult]) -> RunResult:
    """Return the result of a run, also if it fails because no step was done."""
    try:
        return await asyncio.wait_for(handle.result(), 120)
    except WorkflowFailureError as error:
        if (failed := failed_result(error)) is None:
            raise
        return failed


Serve = Callable[..., Awaitable[Runner]]


@pytest.fixture
async def serve(
    temporal_address: str, task_queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Serve]:
    """Start a worker with a plugin and a user's workflows. It stores its data in the test's own folder."""
    monkeypatch.setenv("TOOLROUTE_STORE", str(tmp_path / "store"))
    async with AsyncExitStack() as stack:

        async def served(plugin: OrchestratorPlugin | None = None, *workflows: type, **settings: Any) -> Runner:
            local, queue = LocalTools(), settings.pop("task_queue", task_queue)
            connecting = settings.pop("client", {})
            client = await Client.connect(temporal_address, plugins=[plugin or plugin_over(local)], **connecting)
            await stack.enter_async_context(working(client, queue, workflows=workflows, **settings))
            return Runner(client, queue, local)

        yield served


@pytest.fixture
async def runner(serve: Serve) -> Runner:
    return await serve()


def statuses(result: RunResult) -> list[str]:
    return [str(step.status) for step in result.steps]
