"""What an entry of an mcpServers file settles about its server's tools."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator import Connections
from orchestrator.errors import UnknownTool
from orchestrator.models import RouteHint
from orchestrator.store import Store
from tests.catalogues import tool
from tests.servers.start import config, entry
from tests.stores import shipped
from tests.test_gateway import gateway


async def test_a_server_is_listed_whatever_its_entry_holds_for_a_secret() -> None:
    async with Connections(config(quick=entry("quick.py", AUTH_TOKEN="true", API_KEY="integer"))) as servers:
        listed = {tool.name: tool for tool in await servers.tools("quick")}
    assert listed["crash_once"].annotations.read_only is True
    assert listed["add"].input_schema["properties"]["a"] == {"type": "***"}


@pytest.mark.parametrize(
    "chosen",
    [
        {"disabledTools": ["crash", "crash_once", "key", "large", "environment", "wait"]},
        {"includeTools": ["add", "pid", "crash"], "excludeTools": ["crash"]},
    ],
)
async def test_tools_that_the_entry_switches_off_are_neither_listed_nor_called(chosen: dict[str, Any]) -> None:
    async with Connections(config(quick=entry("quick.py") | chosen)) as servers:
        assert sorted(tool.name for tool in await servers.tools("quick")) == ["add", "pid"]
        with pytest.raises(UnknownTool, match="no tool 'crash'; it has: pid, add"):
            await servers.call("quick:crash")
        assert [tool.name for tool in await servers.tools("quick", fresh=True)] == ["pid", "add"]


async def test_serve_offers_no_tool_that_was_switched_off_since_it_was_stored(tmp_path: Path) -> None:
    Store(tmp_path / "store", embedder=shipped()).replace_server("org:1", "quick", [tool("quick:crash", "Crash it")])
    off = config(quick=entry("quick.py") | {"disabledTools": ["crash"]})
    async with gateway(tmp_path, off) as served:
        assert (await served.search("org:1", "crash it", 5, RouteHint.AUTO))["matches"] == []
        with pytest.raises(UnknownTool, match="not among the servers' tools here"):
            await served.call("org:1", "quick:crash", {})
