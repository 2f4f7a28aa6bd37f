"""A Temporal Schedule that synchronizes a tenant's catalogue with its MCP servers."""

from collections.abc import Sequence
from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)

from orchestrator.common.fields import named
from orchestrator.errors import InvalidInput
from orchestrator.records import durable_names as names
from orchestrator.records.call import SyncRequest

SCHEDULE = "toolroute-sync-{}"
"""The id of a tenant's schedule. The ids of the workflows that it starts begin with it."""
JITTER_SHARE = 0.1
"""The share of the interval by which a start may move, so that not all tenants list their servers at the same moment.
"""


@named
async def schedule_sync(
    client: Client,
    tenant: str,
    *,
    every: timedelta = timedelta(hours=1),
    servers: Sequence[str] = (),
    task_queue: str = names.TASK_QUEUE,
) -> ScheduleHandle:
    """Create or update the schedule that lists a tenant's servers and stores their tools. It may be called again.

    If a listing still runs when the next is due, the next is skipped. A paused schedule stays paused. The
    handle is Temporal's own, with `describe()`, `trigger()`, `pause()` and `delete()`. Another process
    gets it with `client.get_schedule_handle("toolroute-sync-org:acme")`.

    Args:
        client: A client of the namespace in which workers with an OrchestratorPlugin run.
        tenant: The tenant that has the servers.
        every: The interval. A random delay of up to a tenth of it is added.
        servers: The names of the servers to list. Default: all servers that the worker's `mcp_servers`
            has for the tenant.
        task_queue: The task queue of those workers.

    Returns:
        The handle of the schedule `toolroute-sync-TENANT`.

    Raises:
        UnknownTenant: The tenant is missing or malformed.
        InvalidInput: The interval is shorter than a second, or an argument has a wrong type.

    Examples:
        >>> from datetime import timedelta
        >>> from temporalio.client import Client
        >>> from orchestrator import schedule_sync
        >>> async def hourly() -> None:
        ...     client = await Client.connect("localhost:7233")
        ...     await schedule_sync(client, "org:acme", every=timedelta(hours=1))
    """
    if every < timedelta(seconds=1):
        raise InvalidInput(f"every={every!r}: give at least one second")
    request = SyncRequest(tenant=tenant, servers=tuple(servers))
    request.validate()
    name = SCHEDULE.format(tenant)
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            names.SYNC_CATALOGUE, request, id=name, task_queue=task_queue
        ),
        spec=ScheduleSpec(
            intervals=[ScheduleIntervalSpec(every=every)], jitter=every * JITTER_SHARE
        ),
        policy=SchedulePolicy(
            overlap=ScheduleOverlapPolicy.SKIP, catchup_window=max(every, timedelta(seconds=10))
        ),
    )

    def renewed(old: ScheduleUpdateInput) -> ScheduleUpdate:
        schedule.state = old.description.schedule.state
        return ScheduleUpdate(schedule=schedule)

    try:
        return await client.create_schedule(name, schedule)
    except ScheduleAlreadyRunningError:
        handle = client.get_schedule_handle(name)
        await handle.update(renewed)
        return handle
