"""`toolroute worker`: a process that serves a task queue until it is told to stop."""

import asyncio
import logging
import signal
import socket
import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.common import calibration_option, model_option, options_with, tenant_from
from orchestrator.cli.ending import ending_signals
from orchestrator.cli.mcp_common import read_servers
from orchestrator.cli.plain import note
from orchestrator.cli.reaching import connect, target, temporal_server
from orchestrator.cli.temporal import make_plugin, temporal_options
from orchestrator.options import Options
from orchestrator.records import durable_names as names

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.worker import Worker


@click.command()
@temporal_options
@click.option("--task-queue", default=names.TASK_QUEUE, show_default=True, metavar="NAME", help="The queue to serve.")
@click.option(
    "--dev", is_flag=True, help="Start a local Temporal server, unless --address or TEMPORAL_ADDRESS names one."
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=100, show_default=True, help="Activities at the same time."
)
@click.option("--cached-workflows", type=click.IntRange(min=0), default=1000, show_default=True, help="Kept in memory.")
@click.option("--cached-tenants", type=click.IntRange(min=1), default=256, show_default=True, help="Indexes kept.")
@click.option(
    "--grace", type=click.FloatRange(min=0), default=30.0, show_default=True, help="Seconds that calls get to end."
)
@model_option
@calibration_option
@click.option("--check", is_flag=True, help="Only say whether a worker of this machine polls the queue (exit 0 or 1).")
def worker(
    catalogue: Path | None,
    store: str | None,
    organization: str | None,
    user: str | None,
    config: Path | None,
    address: str | None,
    namespace: str | None,
    task_queue: str,
    dev: bool,
    concurrency: int,
    cached_workflows: int,
    cached_tenants: int,
    grace: float,
    model: str | None,
    calibration: Path | None,
    check: bool,
) -> None:
    """Serve routing, planning and tool calls on a Temporal task queue.

    With --organization or --user, the servers of the config that the store lacks for this tenant are listed first.
    For other tenants list them with `toolroute tools sync`.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    named = tenant_from(organization, user) if organization or user else None
    options = options_with(
        model,
        temporal_address=address,
        temporal_namespace=namespace,
        cached_tenants=cached_tenants,
        calibration=calibration and str(calibration),
    )
    if check:
        sys.exit(_say_if_unserved(options, task_queue))

    async def serve() -> None:
        from orchestrator.temporal.devserver import settle

        plugin = await make_plugin(catalogue, store, read_servers(config), named, options)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(settle)
            where = await stack.enter_async_context(temporal_server(options, dev=dev))
            client = await connect(where, plugin)
            limits = {"max_concurrent_activities": concurrency, "max_cached_workflows": cached_workflows}
            await stack.enter_async_context(make_worker(client, task_queue, grace_s=grace, **limits))
            note(f"toolroute worker serves {task_queue!r} of {where.namespace!r} at {where.address}")
            await _told_to_stop()
            note("stopping ...")

    asyncio.run(serve())


def _say_if_unserved(options: Options, task_queue: str) -> int:
    """The exit code of `--check`."""
    served = asyncio.run(_is_served(options, task_queue))
    if not served:
        note(f"toolroute: no worker of this machine polls the task queue {task_queue!r}")
    return 0 if served else 1


def make_worker(client: "Client", task_queue: str, *, grace_s: float = 10.0, **limits: int) -> "Worker":
    """A worker of our workflows and activities, which the client's plugin brings.

    The build id is given: left out, the SDK hashes every imported module first (1 s).
    """
    from temporalio.common import WorkerDeploymentVersion
    from temporalio.worker import Worker, WorkerDeploymentConfig

    release = WorkerDeploymentVersion(deployment_name="toolroute", build_id=version("toolroute"))
    return Worker(
        client,
        task_queue=task_queue,
        graceful_shutdown_timeout=timedelta(seconds=max(grace_s, 0.001)),  # for zero the plugin has a default
        max_heartbeat_throttle_interval=timedelta(seconds=3),  # a call hears of its cancellation with a heartbeat
        deployment_config=WorkerDeploymentConfig(version=release, use_worker_versioning=False),
        **limits,  # type: ignore[arg-type]
    )


async def _is_served(options: Options, task_queue: str) -> bool:
    """Whether a worker of this machine (or container) has asked for work in the last minutes: a health check."""
    from temporalio.api.enums.v1 import TaskQueueType
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

    from orchestrator.temporal.devserver import settle

    try:
        client = await connect(target(options), None)
        answer = await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=client.namespace,
                task_queue=TaskQueue(name=task_queue),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
            )
        )
    finally:
        await settle()
    return any(poller.identity.endswith(f"@{socket.gethostname()}") for poller in answer.pollers)


async def _told_to_stop() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, *ending_signals()):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
