"""`toolroute worker`: a process that serves a task queue until a signal stops it."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.runs.temporal import connect, target, temporal_server
from orchestrator.cli.runs.worker_plugin import make_plugin
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.derived_options import derived
from orchestrator.cli.shared.long_running import collect_in_small_steps
from orchestrator.cli.shared.output import log, note
from orchestrator.cli.shared.signals import ending_signals
from orchestrator.cli.shared.typed_options import refuse, typed_options
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.common.tenant import check_tenant
from orchestrator.errors import InvalidInput
from orchestrator.options import Options
from orchestrator.records import durable_names as names

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.worker import Worker, WorkerDeploymentConfig

    from orchestrator.temporal.worker.executor import Registered

_POSITIVE = click.IntRange(min=1)


@click.command()
@taking("catalogue", "config", "sources", "temporal", "model", "calibration", "warm")
@click.option(
    "--task-queue", default=names.TASK_QUEUE, metavar="NAME", help="The task queue to serve."
)
@click.option(
    "--concurrency",
    metavar="N",
    type=_POSITIVE,
    default=100,
    help="Maximum number of concurrent activities.",
)
@derived(
    Options,
    "cached_tenants",
    "Maximum number of tenants with tools in memory. [default: 256]",
    type=_POSITIVE,
)
@click.option(
    "--executors",
    metavar="MODULE:NAME",
    help="A mapping of executors by tool key, server:* or kind.",
)
@click.option(
    "--nexus",
    metavar="TENANT",
    multiple=True,
    help="Serve the Nexus service `toolroute` for this tenant, e.g. org:acme, or for `all`. Repeatable.",
)
@click.option(
    "--grace",
    metavar="SECONDS",
    type=click.FloatRange(0),
    default=30.0,
    help="Time for calls to end at shutdown.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    default="",
    help="Serve Temporal's own metrics here, for Prometheus.",
)
@click.option(
    "--deployment", metavar="NAME", help="Use Worker Versioning with this deployment name."
)
@click.option(
    "--build-id", metavar="ID", help="The build id of this worker. [default: toolroute's version]"
)
@click.option("--pinned", is_flag=True, help="Keep each run on the version that started it.")
@click.option(
    "--check",
    is_flag=True,
    help="Only check whether a worker on this machine polls the queue (exit code 0 or 1).",
)
async def worker(
    workspace: Workspace,
    options: Options,
    dev: bool,
    task_queue: str,
    concurrency: int,
    executors: str | None,
    nexus: tuple[str, ...],
    grace: float,
    deployment: str | None,
    build_id: str | None,
    pinned: bool,
    check: bool,
    warm: int,
    metrics: str,
) -> int:
    """Serve a Temporal task queue: routing, planning and tool calls.

    If a tenant is given, its unknown servers of the configuration are listed first. For other tenants, list them with
    `toolroute tools sync`.

    With --deployment the worker receives runs when its version is the deployment's current version: `temporal worker
    deployment set-current-version`.
    """
    from orchestrator.temporal.client.devserver import settle
    from orchestrator.temporal.worker.sdk_metrics import metrics_runtime

    _check_options(deployment, build_id, pinned=pinned, check=check)
    log(logging.WARNING, "%(asctime)s %(name)s: %(message)s")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(settle)
        if check:
            return await _check(await connect(target(options)), task_queue)
        plugin = await make_plugin(
            workspace,
            options,
            every_tenant=not workspace.given_tenant,
            warm=warm,
            executors=_executors(executors) if executors else None,
            nexus=_nexus(nexus),
        )
        server = await stack.enter_async_context(temporal_server(options, dev=dev))
        client = await connect(server, plugin, metrics_runtime(metrics))
        release = released(deployment, build_id, pinned=pinned)
        serving = make_worker(
            client, task_queue, release, grace_s=grace, max_concurrent_activities=concurrency
        )
        await stack.enter_async_context(serving)
        collect_in_small_steps()
        note(f"toolroute worker serves {task_queue!r} of {server.namespace!r} at {server.address}")
        await _until_stopped()
        note("stopping ...")
    return 0


async def _until_stopped() -> None:
    """Wait for a signal that ends the process."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, *ending_signals()):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


def _check_options(
    deployment: str | None, build_id: str | None, *, pinned: bool, check: bool
) -> None:
    """Refuse options that would have no effect."""
    if not deployment and (build_id or pinned):
        raise InvalidInput(
            "--build-id and --pinned are for Worker Versioning: give --deployment NAME, too"
        )
    if check:
        used = ("check", "task_queue", "temporal_address", "temporal_namespace")
        reason = "has no effect with --check, which starts no worker: leave it out"
        refuse(typed_options(*used), reason)


def _executors(reference: str) -> "Mapping[str, Registered]":
    """Import the mapping MODULE:NAME. Modules in the working folder are found."""
    module, _, name = reference.partition(":")
    if not (module and name):
        raise InvalidInput(
            f"--executors {reference!r}: give MODULE:NAME, such as desk.tools:EXECUTORS"
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        mapping = getattr(import_module(module), name)
    except Exception as error:
        raise InvalidInput(
            f"--executors {reference!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(mapping, Mapping):
        raise InvalidInput(
            f"--executors {reference!r} is a {type(mapping).__name__}: give a dict of functions by tool key"
        )
    return mapping


def _nexus(tenants: Sequence[str]) -> bool | Sequence[str]:
    """Return the tenants that other namespaces may use, True for all."""
    named_tenants = [tenant for tenant in tenants if tenant != "all"]
    for tenant in named_tenants:
        check_tenant(tenant)
    return len(named_tenants) < len(tenants) or named_tenants


def released(
    deployment: str | None = None, build_id: str | None = None, *, pinned: bool = False
) -> "WorkerDeploymentConfig":
    """Return the worker's deployment version. Without a deployment the worker takes any run.

    Without a build id the SDK would hash every imported module first, which takes 1 s.

    Args:
        deployment: The deployment's name, or None.
        build_id: The build id, or None.
        pinned: Runs stay on the version that started them.
    """
    from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
    from temporalio.worker import WorkerDeploymentConfig

    behavior = VersioningBehavior.UNSPECIFIED
    if deployment:
        behavior = VersioningBehavior.PINNED if pinned else VersioningBehavior.AUTO_UPGRADE
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(
            deployment_name=deployment or "toolroute", build_id=build_id or version("toolroute")
        ),
        use_worker_versioning=bool(deployment),
        default_versioning_behavior=behavior,
    )


def make_worker(
    client: "Client",
    task_queue: str,
    release: "WorkerDeploymentConfig | None" = None,
    *,
    grace_s: float = 10.0,
    **limits: int,
) -> "Worker":
    """Make a worker for toolroute's workflows and activities, which the client's plugin adds.

    Args:
        client: A client with an `OrchestratorPlugin`.
        task_queue: The task queue to serve.
        release: The worker's deployment version, from `released`.
        grace_s: Seconds that running activities have to end at shutdown.
        limits: Further options of the Worker, such as `max_concurrent_activities`.
    """
    from temporalio.worker import Worker

    return Worker(
        client,
        task_queue=task_queue,
        graceful_shutdown_timeout=timedelta(seconds=grace_s),
        deployment_config=release or released(),
        **limits,  # type: ignore[arg-type]
    )


async def _check(client: "Client", task_queue: str) -> int:
    """Return 0 if a worker on this machine or container polled in the last minutes, otherwise 1."""
    here = f"@{socket.gethostname()}"
    if any(identity.endswith(here) for identity in await pollers(client, task_queue)):
        return 0
    note(f"toolroute: no worker of this machine polls the task queue {task_queue!r}")
    return 1


async def pollers(client: "Client", task_queue: str) -> list[str]:
    """Return the identities of the workers that asked a queue for workflow tasks in the last minutes."""
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=task_queue)
    )
    described = await client.workflow_service.describe_task_queue(request)
    return [poller.identity for poller in described.pollers]
