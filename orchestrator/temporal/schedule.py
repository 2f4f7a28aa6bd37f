"""A Temporal Schedule that keeps a tenant's catalogue in sync with its MCP servers."""

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

from orchestrator.errors import InvalidInput
from orchestrator.records import durable_names as names
from orchestrator.records.call import SyncRequest

SCHEDULE = "toolroute-sync-{}"
"""The id of a tenant's schedule, and how those of the workflows begin that it starts."""
JITTER_SHARE = 0.1
"""Of the interval: the schedules of many tenants do not list all servers at the same moment."""


async def schedule_sync(
    client: Client,
    tenant: str,
    *,
    every: timedelta = timedelta(hours=1),
    servers: Sequence[str] = (),
    task_queue: str = names.TASK_QUEUE,
) -> ScheduleHandle:
    """Create the schedule that lists a tenant's servers and stores their tools, or update it. It may be called again.

    A listing that is under way when the next is due goes on, and the next is left out. A schedule that someone paused
    stays paused. The handle is Temporal's own: `describe()`, `trigger()`, `pause()`, `delete()`. Another process gets
    it by its id: `client.get_schedule_handle("toolroute-sync-org:acme")`.

    Args:
        client: A client of the namespace in which workers with an OrchestratorPlugin run.
        tenant: Whose servers are listed.
        every: The interval, to which a random tenth is added.
        servers: The names of the servers to list. Default: all that the worker's `mcp_servers` has for the tenant.
        task_queue: The task queue of those workers.

    Returns:
        The handle of the schedule `toolroute-sync-TENANT`.

    Raises:
        UnknownTenant: The tenant names none.
        InvalidInput: The interval is shorter than a second, or `servers` is one text.
    """
    if every < timedelta(seconds=1):
        raise InvalidInput(f"every={every!r}: give a second or more")
    if isinstance(servers, str):
        raise InvalidInput(f"servers={servers!r}: give a list of names")
    request = SyncRequest(tenant=tenant, servers=tuple(servers))
    request.validate()
    name = SCHEDULE.format(tenant)
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(names.SYNC_CATALOGUE, request, id=name, task_queue=task_queue),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)], jitter=every * JITTER_SHARE),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=max(every, timedelta(seconds=10))),
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
