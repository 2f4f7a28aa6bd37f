"""Hints of a server of protocol 2026-07-28: how long its listing holds, and which parameter is a header."""

import asyncio
from pathlib import Path

from orchestrator import Connections, Tool
from tests.gateway import serving
from tests.servers.start import config, entry, free_port, running, text_of


async def test_an_expired_listing_is_asked_for_again() -> None:
    third = asyncio.Event()

    async def on_listed(_: str, tools: tuple[Tool, ...]) -> None:
        if "late_3" in {tool.name for tool in tools}:
            third.set()

    async with Connections(config(it=entry("hinting.py")), on_listed=on_listed) as servers:
        await servers.tools("it")
        await asyncio.wait_for(third.wait(), 150)


async def test_a_parameter_arrives_as_the_header(tmp_path: Path) -> None:
    port = free_port()
    servers = config(it={"url": f"http://127.0.0.1:{port}/mcp"})
    async with running("hinting.py", port), serving(tmp_path, servers) as served:
        assert text_of(await served.call("it:store", {"region": "eu-central"})) == "eu-central"
