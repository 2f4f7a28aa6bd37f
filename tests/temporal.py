"""Workers of the tests on a real Temporal server, with the cache off, so that everything replays."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle, WorkflowHistory
from temporalio.common import WorkerDeploymentVersion
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker, WorkerDeploymentConfig
from temporalio.worker._workflow import _WorkflowWorker

from orchestrator import Progress, StepStatus
from tests.running import plugin_over

DEPLOYMENT = WorkerDeploymentConfig(
    version=WorkerDeploymentVersion(deployment_name="toolroute-tests", build_id="1"), use_worker_versioning=False
)
"""Given, so that a worker does not hash every imported module first (1 s)."""


def give_workflows_time() -> None:
    """Let every worker of this process compute for 20 s before Temporal calls it a deadlock.

    Temporal allows 2 s and has no setting for it. A busy machine needs more, above all for imports.
    """
    start: Any = _WorkflowWorker.__init__

    def start_patiently(worker: Any, **settings: Any) -> None:
        start(worker, **settings)
        if worker._deadlock_timeout_seconds is not None:  # None in debug mode, which searches no deadlocks.
            worker._deadlock_timeout_seconds = 20

    patient: Any = _WorkflowWorker
    patient.__init__ = start_patiently


@pytest.fixture
def task_queue() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@asynccontextmanager
async def working(client: Client, task_queue: str, **settings: Any) -> AsyncIterator[Worker]:
    """A worker that replays its workflows from their history at every task."""
    stops = {"graceful_shutdown_timeout": timedelta(milliseconds=1)}
    settings = {"max_cached_workflows": 0, "deployment_config": DEPLOYMENT, **stops, **settings}
    async with Worker(client, task_queue=task_queue, **settings) as worker:
        yield worker


async def until_step(handle: WorkflowHandle[Any, Any], step: str, status: StepStatus) -> Progress:
    """Return the progress of a run once the step has this status."""
    async with asyncio.timeout(120):
        while True:
            progress: Progress = await handle.query("toolroute.progress", result_type=Progress)
            if any(item.step == step and item.status is status for item in progress.steps):
                return progress
            await asyncio.sleep(0.03)


async def child_of(handle: WorkflowHandle[Any, Any]) -> str:
    """The id of a workflow's child, once it has started one."""
    async with asyncio.timeout(120):
        while not (children := (await handle.describe()).raw_description.pending_children):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        return children[0].workflow_id


def why_failed(error: BaseException | None) -> tuple[str, str]:
    """The type and the message of the error of an activity or a workflow that is the cause of this one."""
    # Nexus wraps the error of its handler in an application error of this type.
    while not isinstance(error, ApplicationError) or error.type == "OperationError":
        assert error is not None
        error = error.__cause__
    return error.type or "", error.message


async def activities_of(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """The names of the activities in a workflow's history, as scheduled."""
    return scheduled(await handle.fetch_history())


def scheduled(history: WorkflowHistory) -> list[str]:
    """The activities of a history in order, but for the one that remembers the outcome."""
    found = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    return [name for name in found if name != "toolroute.record_outcome"]


async def replays(
    history: WorkflowHistory, workflows: Sequence[type] = (), plugins: Sequence[Any] | None = None, **settings: Any
) -> None:
    """Fail if today's workflow code differs from the history. The plugin brings its own workflows.

    Without plugins, which a user may leave out here, the sandbox imports all of `orchestrator` again.
    """
    given = [plugin_over()] if plugins is None else [*plugins]
    await Replayer(workflows=list(workflows), plugins=given, **settings).replay_workflow(history)
