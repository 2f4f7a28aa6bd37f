"""What an entry of an mcpServers file settles about its server's tools."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Connections
from orchestrator.errors import InvalidArguments, UnknownTool
from orchestrator.models import RouteHint
from orchestrator.store import Store
from tests.catalogues import taking, tool
from tests.command_line import Run
from tests.servers.start import config, entry, text_of
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


OTHERS = tool("quick:add", input_schema=taking("query"))
"""What another project's server of the same name takes."""


def test_a_call_is_not_held_to_the_tools_of_another_projects_server_of_the_name(tmp_path: Path, toolroute: Run) -> None:
    store, file = tmp_path / "store", tmp_path / "mcp.json"
    Store(store, embedder=shipped()).replace_server("local", "quick", [OTHERS], entry="anothers")
    file.write_text(json.dumps(config(quick=entry("quick.py"))), encoding="utf-8")
    told = toolroute("call", "quick:add", "--args", '{"a": 1, "b": 2}', "--store", store, "--config", file)
    assert (told.exit_code, told.stdout.strip(), told.stderr) == (0, "3", "")


async def test_serve_holds_no_call_to_the_tools_of_another_projects_server_of_the_name(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", embedder=shipped())

    async def taken_over() -> None:
        await asyncio.to_thread(store.replace_server, "local", "quick", [OTHERS], entry="anothers")

    await taken_over()
    async with gateway(tmp_path, config(quick=entry("quick.py"))) as served:
        assert text_of(await served.call("local", "quick:add", {"a": 1, "b": 2})) == "3"
        await served.search("local", "add two numbers", 3, RouteHint.AUTO)
        await taken_over()
        assert text_of(await served.call("local", "quick:pid", {})).isdigit()
        with pytest.raises(InvalidArguments, match="'x' is not of type 'integer'"):
            await served.call("local", "quick:add", {"a": "x"})
