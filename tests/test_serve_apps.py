"""MCP Apps through `toolroute serve`: the interface of a tool, its resource, and the calls that an app makes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import TextResourceContents

from orchestrator import Approve
from tests.gateway import serving
from tests.servers.start import entry, text_of

SHOWN = "ui://watch/clock/app.html"
"""The app of `clock.py`, whose entry is called `watch`."""


@asynccontextmanager
async def host(folder: Path, mode: Any = "auto", approve: Approve = Approve.NEVER) -> AsyncIterator[Client]:
    """Return a client of a gateway before two servers. The profile pins the tool that has an interface."""
    profiles = {"screen": {"pinned": ["watch:show_time"]}}
    servers = {"watch": entry("clock.py"), "quick": entry("quick.py")}
    async with (
        serving(folder, {"mcpServers": servers, "profiles": profiles}) as served,
        served.client("local", approve, mode, {"profile": "screen"}) as client,
    ):
        yield client


async def opened(client: Client) -> TextResourceContents:
    content = (await client.read_resource(SHOWN)).contents[0]
    assert isinstance(content, TextResourceContents)
    return content


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_pinned_tool_leads_to_its_app(tmp_path: Path, mode: str) -> None:
    async with host(tmp_path, mode) as client:
        [tool] = [tool for tool in (await client.list_tools()).tools if "show_time" in tool.name]
        assert tool.meta is not None
        assert tool.meta["ui"]["resourceUri"] == SHOWN
        content = await opened(client)
        assert content.text == "<h1>clock</h1>"
        assert content.mime_type == "text/html;profile=mcp-app"
        assert content.meta == {"ui": {"csp": {"connectDomains": ["https://time.example"]}}}


async def test_the_gateway_declares_that_apps_pass(tmp_path: Path) -> None:
    async with host(tmp_path) as client:
        assert "io.modelcontextprotocol/ui" in (client.server_capabilities.extensions or {})


async def test_a_search_and_a_call_name_the_app(tmp_path: Path) -> None:
    async with host(tmp_path) as client:
        found = json.loads(text_of(await client.call_tool("search", {"query": "show the time on a clock"})))
        assert found["matches"][0]["ui"]["resourceUri"] == SHOWN
        result = await client.call_tool("call_tool", {"tool": "watch:show_time"})
        assert result.meta is not None
        assert result.meta["ui"]["resourceUri"] == SHOWN


async def test_a_tool_for_apps_is_no_match(tmp_path: Path) -> None:
    async with host(tmp_path) as client:
        asked = {"query": "set the clock of the app", "limit": 20, "route_hint": "semantic"}
        found = json.loads(text_of(await client.call_tool("search", asked)))
        keys = [match["tool"] for match in found["matches"]]
        assert "watch:show_time" in keys
        assert "watch:set_clock" not in keys


async def test_an_open_app_calls_its_own_servers_tools(tmp_path: Path) -> None:
    async with host(tmp_path) as client:
        before = await client.call_tool("set_clock", {"hour": 3})
        assert before.is_error, "no app is open"
        await opened(client)
        assert text_of(await client.call_tool("set_clock", {"hour": 3})) == "set to 3"


@pytest.mark.parametrize("name", ["add", "stop_clock", "nothing"])
async def test_an_app_calls_no_other_tool(tmp_path: Path, name: str) -> None:
    async with host(tmp_path) as client:
        await opened(client)
        refused = await client.call_tool(name, {"a": 1, "b": 2})
        assert refused.is_error
        assert "an app calls its own server's tools" in text_of(refused)


async def test_a_call_of_an_app_needs_approval_like_any_other(tmp_path: Path) -> None:
    async with host(tmp_path, approve=Approve.CHANGES) as client:
        await opened(client)
        refused = await client.call_tool("set_clock", {"hour": 3})
        assert text_of(refused).startswith("NeedsApproval: watch:set_clock was not called")


@pytest.mark.parametrize("uri", ["ui://quick/clock/app.html", "ui://nobody/clock/app.html", "ui://watch/other.html"])
async def test_an_app_of_another_server_is_unknown(tmp_path: Path, uri: str) -> None:
    async with host(tmp_path) as client:
        with pytest.raises(MCPError):
            await client.read_resource(uri)
