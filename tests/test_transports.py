"""What holds for every transport of MCP: stdio, streamable HTTP with and without sessions, and the older SSE."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Connections
from orchestrator.errors import OutcomeUnknown
from tests.servers.start import config, entry, free_port, owners, running
from tests.waiting import until

HTTP = {"http": (), "http with sessions": ("legacy",), "sse": ("sse",)}
"""The arguments of `plain.py` for each transport over HTTP."""
PATHS = {"sse": "/sse"}


class Server:
    """`plain.py` behind one transport."""

    def __init__(self, transport: str, folder: Path) -> None:
        self._transport = transport
        self._count = folder / "count"
        self._port = free_port()

    @property
    def config(self) -> dict[str, Any]:
        if self._transport == "stdio":
            return config(it=entry("plain.py", COUNT_FILE=str(self._count)))
        path = PATHS.get(self._transport, "/mcp")
        return config(it={"url": f"http://127.0.0.1:{self._port}{path}"})

    @asynccontextmanager
    async def up(self) -> AsyncIterator[None]:
        """Run it. Over stdio a connection starts it."""
        if self._transport == "stdio":
            yield
            return
        arguments = HTTP[self._transport]
        async with running("plain.py", self._port, *arguments, COUNT_FILE=str(self._count)):
            yield

    @property
    def notes(self) -> list[str]:
        """What its tools noted."""
        return self._count.read_text().splitlines() if self._count.exists() else []


@pytest.fixture(params=["stdio", *HTTP])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Server:
    return Server(request.param, tmp_path)


async def test_tools_are_called_and_a_new_one_is_heard_of(server: Server) -> None:
    async with server.up(), Connections(server.config) as servers:
        assert (await servers.call("it:add", {"a": 2, "b": 3})).text == "5"
        assert (await servers.call("it:fail")).is_error
        await servers.call("it:grow")
        assert (await servers.call("it:grown", {"text": "new"})).text == "new"
    assert owners() == []


async def test_a_cancelled_call_ends_at_its_server(server: Server) -> None:
    async with server.up(), Connections(server.config) as servers:
        calling = asyncio.create_task(servers.call("it:wait", {"seconds": 600}))
        await until(lambda: server.notes == ["wait"])
        calling.cancel()
        await until(lambda: server.notes == ["wait", "ended early"])
        assert (await servers.call("it:add", {"a": 1, "b": 1})).text == "2"


async def test_a_server_killed_in_mid_call_leaves_the_outcome_unknown(server: Server) -> None:
    async with Connections(server.config, backoff_s=0.1) as servers:
        async with server.up():
            with pytest.raises(OutcomeUnknown):
                await servers.call("it:crash")
        assert server.notes == ["crash"]
        await until(lambda: servers.states()[0].state != "ready")
        async with server.up():
            assert (await servers.call("it:add", {"a": 1, "b": 1})).text == "2"
