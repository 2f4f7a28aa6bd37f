"""No secret enters a history, whatever a server says as it dies."""

import base64
import re

import pytest
from temporalio.client import Client, WorkflowHistory

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.mcp.config import McpConfig
from orchestrator.records.tool import Tool
from orchestrator.temporal.plugin import OrchestratorPlugin
from tests.decisions import ALL
from tests.runner import Runner, statuses
from tests.running import SERVERS, Desk
from tests.servers.start import entry
from tests.temporal import working


async def test_no_secret_and_no_catalogue_enters_a_history(temporal_address: str, task_queue: str) -> None:
    time_server = {**SERVERS["mcpServers"]["time"], "env": {"TIME_API_KEY": "s3cr3t-7d1f"}}
    many = [Tool(server="other", name=f"tool_{n}", description=f"unlikely-{n} to be wanted") for n in range(200)]
    plugin = OrchestratorPlugin(catalogue=Catalogue([*ALL, *many]), mcp_servers={"mcpServers": {"time": time_server}})
    client = await Client.connect(temporal_address, plugins=[plugin])
    async with working(client, task_queue):
        runner = Runner(client, task_queue, Desk())
        result, handle = await runner.run("What is the current time in Europe/Berlin?")
    assert statuses(result) == ["done"]
    payloads = _payloads(await handle.fetch_history())
    assert b"Europe/Berlin" in payloads
    assert b"s3cr3t" not in payloads
    assert len(set(re.findall(rb"unlikely-\d+", payloads))) <= 10 + 20  # matches and rejected at most


async def test_a_server_that_tells_its_secrets_as_it_dies_leaves_none_in_a_history(
    temporal_address: str, task_queue: str
) -> None:
    bad = entry("faulty.py", "crash", "--token", "s3cr3t-arg", API_KEY="${PLANTED_KEY}")
    launch = Tool(server="bad", name="it", description="Launch the weather balloon")
    servers = McpConfig.parse({"mcpServers": {"bad": bad}})
    plugin = OrchestratorPlugin(catalogue=Catalogue([*ALL, launch]), mcp_servers=servers)
    client = await Client.connect(temporal_address, plugins=[plugin])
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PLANTED_KEY", "s3cr3t-key")
        async with working(client, task_queue):
            result, handle = await Runner(client, task_queue, Desk()).run("Launch the weather balloon")
    assert statuses(result) == ["outcome_unknown"]
    history = await handle.fetch_history()
    told = history.to_json().encode() + _payloads(history)
    assert b"out of luck, the key was ***" in told
    assert b"s3cr3t" not in told


def _payloads(history: WorkflowHistory) -> bytes:
    """Everything that a history holds, decoded."""
    texts = re.findall(r'"data": ?"([A-Za-z0-9+/=]+)"', history.to_json())
    return b"\n".join(base64.b64decode(text) for text in texts)
