"""Servers that say that their tools changed: what they list then is taken over, and none is listed without end."""

import asyncio

import pytest

from orchestrator import Connections
from orchestrator.models import Tool
from tests.servers.start import config, entry, free_port, running, until

LIBRARY = entry("plain.py")


@pytest.mark.parametrize("transport", ["stdio", "legacy", "http"])
async def test_a_changed_listing_is_taken_over_within_a_second(transport: str) -> None:
    heard: list[set[str]] = []

    async def on_change(server: str, tools: tuple[Tool, ...]) -> None:
        heard.append({tool.key for tool in tools})

    port = free_port()
    async with running("plain.py", port, transport):
        web = {"url": f"http://127.0.0.1:{port}/mcp"}
        async with Connections(config(plain=LIBRARY if transport == "stdio" else web), on_change=on_change) as servers:
            # The very first call: nothing that a server says after its listing may be missed.
            await servers.call("plain:grow")
            await until(lambda: bool(heard), 1.0)
            assert "plain:grown" in heard[-1]
            assert (await servers.call("plain:grown", {"text": "new"})).text == "new"


async def test_a_server_that_tells_of_a_change_at_each_listing_is_listed_more_and_more_seldom() -> None:
    heard: list[str] = []

    async def on_change(server: str, tools: tuple[Tool, ...]) -> None:
        heard.append(server)

    async with Connections(config(restless=entry("faulty.py", "restless")), on_change=on_change) as servers:
        assert (await servers.call("restless:it")).text == "fine"
        await asyncio.sleep(2)  # As often as it says so were some twenty times.
        assert 2 <= len(heard) <= 6
