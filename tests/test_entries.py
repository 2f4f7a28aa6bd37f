"""What an entry of an mcpServers file settles about its server's tools."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Connections
from orchestrator.errors import InvalidArguments, UnknownTool
from orchestrator.mcp.config import McpConfig
from orchestrator.records.request import RouteHint
from orchestrator.store.store import Store
from tests.catalogues import taking, tool
from tests.command_line import Run
from tests.servers.start import config, entry, text_of
from tests.stores import shipped
from tests.test_gateway import gateway


async def test_a_server_is_listed_whatever_its_entry_holds_for_a_secret() -> None:
    async with Connections(config(quick=entry("quick.py", AUTH_TOKEN="true", API_KEY="integer"))) as servers:
        listed = {tool.name: tool for tool in await servers.tools("quick")}
    assert listed["crash_once"].annotations.read_only is True
    assert listed["add"].input_schema["properties"]["a"] == {"type": "integer"}


async def test_a_tools_and_its_parameters_names_stay_whatever_the_entry_holds_for_a_secret() -> None:
    quick = entry("quick.py", "--key=wait", "--secret=seconds", API_TOKEN="crash_once", PASSWORD="large")
    async with Connections(config(quick=quick)) as servers:
        listed = {tool.name: tool for tool in await servers.tools("quick")}
        assert {"wait", "crash_once", "large"} <= listed.keys()
        assert listed["crash_once"].description == "The tool ***."
        assert list(listed["wait"].input_schema["properties"]) == ["seconds"]
        assert (await servers.call("quick:wait", {"seconds": 0})).text == "waited"


async def test_a_result_keeps_the_plain_values_of_a_url_in_the_entry() -> None:
    quick = entry("quick.py", BACKEND="https://h/api?limit=5000&fields=crash_once&since=2024-01-01")
    async with Connections(config(quick=quick)) as servers:
        assert "crash_once" in {tool.name for tool in await servers.tools("quick")}
        assert (await servers.call("quick:add", {"a": 4000, "b": 1000})).text == "5000"


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


def test_a_call_is_held_to_what_is_stored_of_the_server_whichever_of_its_tools_were_chosen(
    tmp_path: Path, toolroute: Run
) -> None:
    store, file, servers = tmp_path / "store", tmp_path / "mcp.json", config(quick=entry("quick.py"))
    chosen = config(quick=entry("quick.py") | {"disabledTools": ["crash"]})
    identity = McpConfig.parse(chosen).servers["quick"].identity
    Store(store, embedder=shipped()).replace_server("local", "quick", [OTHERS], entry=identity)
    file.write_text(json.dumps(servers), encoding="utf-8")
    told = toolroute("call", "quick:add", "--args", '{"a": 1, "b": 2}', "--store", store, "--config", file)
    assert told.exit_code == 2, told.stderr
    assert "query" in told.stderr


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
