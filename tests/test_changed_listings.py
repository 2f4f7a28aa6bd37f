"""Servers that say that their tools changed: what they list then is taken over, and none is listed without end."""

import asyncio

import pytest

from orchestrator import Connections
from orchestrator.mcp import owner
from orchestrator.records.tool import Tool
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


async def test_a_notice_that_brings_news_is_never_waited_with_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "_SOON_S", 0.2)
    heard: list[frozenset[str]] = []

    async def on_change(server: str, tools: tuple[Tool, ...]) -> None:
        heard.append(frozenset(tool.name for tool in tools))

    async with Connections(config(growing=entry("faulty.py", "growing")), on_change=on_change) as servers:
        assert (await servers.call("growing:it")).text == "fine"
        await until(lambda: len(heard) >= 10, 10)  # Ever more seldom, ten would take 25 seconds.
    assert len(set(heard)) == len(heard)
