"""The schedule that keeps a tenant's catalogue in sync."""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, ScheduleHandle, WorkflowFailureError

from orchestrator import OrchestratorPlugin, Router, schedule_sync
from orchestrator.errors import InvalidInput, UnknownTenant
from tests.running import SERVERS
from tests.temporal import replays, why_failed, working

HOURLY, DAILY = timedelta(hours=1), timedelta(days=1)


async def started(handle: ScheduleHandle) -> str:
    """Return the id of the workflow that a trigger has started."""
    await handle.trigger()
    async with asyncio.timeout(120):
        while not (actions := (await handle.describe()).info.recent_actions):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    action = actions[-1].action
    assert isinstance(action, ScheduleActionExecutionStartWorkflow)
    return action.workflow_id


@pytest.mark.slow
async def test_a_schedule_syncs_and_is_updated_in_place(temporal_address: str, task_queue: str, tmp_path: Path) -> None:
    tenant = f"org:{uuid4().hex[:8]}"
    client = await Client.connect(
        temporal_address, plugins=[OrchestratorPlugin(store=tmp_path / "tools", mcp_servers=SERVERS)]
    )
    handle = await schedule_sync(client, tenant, every=HOURLY, task_queue=task_queue)
    try:
        async with working(client, task_queue):
            workflow = client.get_workflow_handle(await started(handle))
            report = await asyncio.wait_for(workflow.result(), 120)
            await replays(await workflow.fetch_history())
        async with Router(store=tmp_path / "tools") as router:
            decision = await router.route("what time is it in Oslo", tenant=tenant)
        assert [one["server"] for one in report["servers"]] == ["time"]
        assert decision.recommended[0] == "time:get_current_time"
        await handle.pause(note="for a while")
        again = await schedule_sync(client, tenant, every=DAILY, servers=["time"], task_queue=task_queue)
        about = (await again.describe()).schedule
        assert [one.every for one in about.spec.intervals] == [DAILY]
        assert (about.state.paused, about.state.note) == (True, "for a while")
    finally:
        await handle.delete()


@pytest.mark.slow
async def test_a_sync_of_which_no_server_answers_fails(temporal_address: str, task_queue: str, tmp_path: Path) -> None:
    gone = {"mcpServers": {"gone": {"command": sys.executable, "args": ["-c", "raise SystemExit('no key')"]}}}
    plugin = OrchestratorPlugin(store=tmp_path, mcp_servers=gone)
    client = await Client.connect(temporal_address, plugins=[plugin])
    async with working(client, task_queue):
        with pytest.raises(WorkflowFailureError) as failure:
            await client.execute_workflow(
                "toolroute.sync_catalogue", {"tenant": "org:1"}, id=uuid4().hex, task_queue=task_queue
            )
    kind, message = why_failed(failure.value.cause)
    assert kind == "ServerUnavailable"
    assert message.startswith("no server could be listed: gone: ")


async def test_a_schedule_of_no_use_is_refused() -> None:
    client = object.__new__(Client)  # It is not asked.
    for given, error, named in [
        ({"tenant": "acme"}, UnknownTenant, "acme"),
        ({"tenant": "org:1", "every": timedelta(0)}, InvalidInput, "every"),
        ({"tenant": "org:1", "servers": "time"}, InvalidInput, "servers='time'"),
    ]:
        with pytest.raises(error, match=named):
            await schedule_sync(client, **given)
