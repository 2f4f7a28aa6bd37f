"""Histories hold no secret and no catalogue. That no key of a model enters one is tested in test_workflow_model."""

import base64
import re

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.records.tool import Annotations, Tool
from orchestrator.temporal.worker.plugin import OrchestratorPlugin
from tests.decisions import ALL
from tests.runner import Serve, statuses
from tests.servers.start import entry


async def test_no_secret_and_no_catalogue_enters_a_history(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a server repeats its secrets as it dies."""
    monkeypatch.setenv("PLANTED_KEY", "s3cr3t-key")
    many = [Tool(server="other", name=f"tool_{n}", description=f"unlikely-{n} to be wanted") for n in range(200)]
    launch = Tool(
        server="bad", name="it", description="Launch the weather balloon", annotations=Annotations(destructive=True)
    )
    bad = entry("faulty.py", "crash", "--token", "s3cr3t-arg", API_KEY="${PLANTED_KEY}")
    servers = McpConfig.parse({"mcpServers": {"bad": bad}})
    runner = await serve(OrchestratorPlugin(catalogue=Catalogue([*ALL, *many, launch]), mcp_servers=servers))
    result, handle = await runner.run("Launch the weather balloon")
    assert statuses(result) == ["outcome_unknown"]
    written = (await handle.fetch_history()).to_json()
    payloads = b"\n".join(base64.b64decode(text) for text in re.findall(r'"data": ?"([A-Za-z0-9+/=]+)"', written))
    assert b"the key was ***" in written.encode() + payloads
    assert b"s3cr3t" not in written.encode() + payloads
    assert len(set(re.findall(rb"unlikely-\d+", payloads))) <= 10 + 20  # matches and rejected at most
