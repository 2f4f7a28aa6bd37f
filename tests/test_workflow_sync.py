"""A catalogue kept fresh from a workflow: real servers, a real store, and what was listed is routed to."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError

from orchestrator.records import durable_names as names
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest
from orchestrator.temporal.call import why_failed
from orchestrator.temporal.plugin import OrchestratorPlugin
from tests.my_workflow import Refresh
from tests.running import SERVERS, plugin_over
from tests.temporal import replays, working


async def test_a_workflow_lists_servers_and_what_they_have_is_found(
    temporal_address: str, task_queue: str, tmp_path: Path
) -> None:
    plugin = OrchestratorPlugin(store=tmp_path / "store", mcp_servers=SERVERS)
    client = await Client.connect(temporal_address, plugins=[plugin])
    async with working(client, task_queue, workflows=[Refresh]):
        handle = await client.start_workflow(
            Refresh.run, {"tenant": "org:7", "servers": ["time"]}, id=uuid4().hex, task_queue=task_queue
        )
        report = await handle.result()
        request = RouteRequest(query="current time in Berlin", tenant="org:7")
        decision: Decision = await client.execute_workflow(
            names.ROUTE, request, id=uuid4().hex, task_queue=task_queue, result_type=Decision
        )
        await replays(await handle.fetch_history(), [Refresh], [plugin])
    assert [(server["server"], server["tools"], server["error"]) for server in report["servers"]] == [("time", 2, "")]
    assert decision.matches[0].tool.key == "time:get_current_time"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tenant": "org:7", "servers": ["tiem"]}, "no server 'tiem' in mcpServers; it names: time"),
        ({"tenant": ""}, "no tenant: give an organization"),
        ({"tenant": "o7"}, "tenant 'o7': give an organization"),
        ({}, "tenant: Field required"),
    ],
)
async def test_what_cannot_be_listed_fails_at_once_and_says_why(
    temporal_address: str, task_queue: str, tmp_path: Path, asked: dict[str, Any], said: str
) -> None:
    plugin = OrchestratorPlugin(store=tmp_path / "store", mcp_servers=SERVERS)
    assert said in await _refused(temporal_address, task_queue, plugin, asked)


async def test_a_worker_without_a_store_names_what_it_lacks(temporal_address: str, task_queue: str) -> None:
    assert "give the plugin store=" in await _refused(temporal_address, task_queue, plugin_over(), {"tenant": "org:7"})


async def _refused(address: str, task_queue: str, plugin: OrchestratorPlugin, asked: dict[str, Any]) -> str:
    client = await Client.connect(address, plugins=[plugin])
    async with working(client, task_queue, workflows=[Refresh]):
        with pytest.raises(WorkflowFailureError) as failure:
            await client.execute_workflow(Refresh.run, asked, id=uuid4().hex, task_queue=task_queue)
    return why_failed(failure.value.cause)[1]
