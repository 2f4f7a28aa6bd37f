"""Hints of a server of protocol 2026-07-28: how long its listing holds, and which parameter is a header."""

import asyncio
from pathlib import Path

import pytest
from mcp import Client

from orchestrator import Approve, Connections, McpConfig, Router, Tool
from orchestrator.server import initial_sync
from orchestrator.server.gateway import Gateway
from orchestrator.server.protocol import make_server
from tests.servers.start import config, entry, free_port, running, text_of


async def test_an_expired_listing_is_asked_for_again() -> None:
    third = asyncio.Event()

    async def on_listed(_: str, tools: tuple[Tool, ...]) -> None:
        if "late_3" in {tool.name for tool in tools}:
            third.set()

    async with Connections(config(it=entry("hinting.py")), on_listed=on_listed) as servers:
        await servers.tools("it")
        await asyncio.wait_for(third.wait(), 150)


async def test_a_parameter_arrives_as_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial_sync, "_WAIT_S", 150.0)
    port = free_port()
    parsed = McpConfig.parse(config(it={"url": f"http://127.0.0.1:{port}/mcp"}))
    call = {"tool": "it:store", "arguments": {"region": "eu-central"}}
    async with (
        running("hinting.py", port),
        Gateway(parsed, Router(store=str(tmp_path / "store"))) as gateway,
        Client(make_server(gateway, "local", Approve.NEVER)) as client,
    ):
        assert text_of(await client.call_tool("call_tool", call)) == "eu-central"
