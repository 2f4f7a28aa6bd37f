"""Shared parts of the workflow tests: a plugin over a small catalogue, a real MCP server, and registered functions."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from orchestrator import Catalogue, OrchestratorPlugin
from tests.decisions import ALL

TENANT = "org:1"
SERVERS = {"mcpServers": {"time": {"command": sys.executable, "args": ["-m", "mcp_server_time"]}}}


class LocalTools:
    """The local tools of the tests: real functions, which note each call that reached them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.release = asyncio.Event()
        self.release.set()
        self.under_way = self.most_under_way = 0
        self.padding = ""
        self.lingers: dict[str, float] = {}
        """How many seconds a path's call takes to stop when it is cancelled."""
        self._moved = asyncio.Condition()

    async def read_file(self, path: str) -> str:
        return await self._do("read_file", path=path)

    async def delete_file(self, path: str) -> str:
        return await self._do("delete_file", path=path)

    def add_note(self, title: str, body: str = "") -> dict[str, str]:
        self.calls.append(("add_note", {"title": title, "body": body}))
        return {"noted": title}

    async def _do(self, name: str, **arguments: Any) -> str:
        self.calls.append((name, arguments))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        async with self._moved:
            self._moved.notify_all()
        try:
            await self.release.wait()
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            await asyncio.sleep(self.lingers.get(arguments["path"], 0))
            raise
        finally:
            self.under_way -= 1
        return f"{name} {arguments['path']}{self.padding}"

    async def reached(self, number: int) -> None:
        """Return once this number of calls is in progress at the same time."""
        async with self._moved, asyncio.timeout(120):
            await self._moved.wait_for(lambda: self.under_way >= number)

    @property
    def executors(self) -> dict[str, Callable[..., Any]]:
        return {
            "files:read_file": self.read_file,
            "files:delete_file": self.delete_file,
            "notes:add_note": self.add_note,
        }


def plugin_over(local: LocalTools | None = None, **settings: Any) -> OrchestratorPlugin:
    """A plugin over the five test tools, the real time server and the local functions."""
    settings.setdefault("executors", (local or LocalTools()).executors)
    return OrchestratorPlugin(catalogue=Catalogue(ALL), mcp_servers=SERVERS, **settings)
