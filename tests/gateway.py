"""The gateway behind `toolroute serve`, in the test's process. A test speaks the protocol with it, as a client does.

async with serving(folder, config(quick=entry("quick.py"))) as served:
    assert "quick:add" in keys(await served.search("add two numbers"))
    async with served.client("org:2", mode="legacy") as client:
        await client.call_tool("call_tool", {"tool": "quick:add", "arguments": {"a": 1, "b": 2}})
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import httpx2
import pytest
from mcp import Client
from mcp.types import CallToolResult

from orchestrator import Approve, McpConfig, Router, Store, Tool
from orchestrator.mcp.config.watch import WatchedConfig
from orchestrator.runtime import index_cache
from orchestrator.server import initial_sync
from orchestrator.server.gateway import Gateway
from orchestrator.server.http.app import make_app
from orchestrator.server.http.bearer_tokens import BearerTokens
from orchestrator.server.protocol import make_server
from orchestrator.trust.audit import Audit
from tests.servers.start import text_of

LONG_S = 600.0


@pytest.fixture
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's settings, such as approvals, in the test's folder."""
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / "settings" / name)


class Served:
    """A gateway in front of servers, and its clients.

    `search` and `call` speak as a client that is connected at its first request and stays until the end.
    """

    def __init__(self, gateway: Gateway, notes: list[str]) -> None:
        self.notes = notes
        self._gateway = gateway
        self._clients = dict[str, asyncio.Future[Client]]()
        self._tasks = list[asyncio.Task[None]]()
        self._ends = asyncio.Event()

    @property
    def store(self) -> Store:
        return self._gateway.store

    @property
    def notified(self) -> set[str]:
        """The tenants with clients that are notified of changes."""
        return self._gateway.clients.tenants

    @property
    def config(self) -> McpConfig:
        return self._gateway.config

    @asynccontextmanager
    async def client(
        self,
        tenant: str = "org:1",
        approve: Approve = Approve.NEVER,
        mode: Any = "auto",
        server: dict[str, Any] | None = None,
        **client: Any,
    ) -> AsyncIterator[Client]:
        """Connect a client of the tenant. `server`: further settings of the MCP server."""
        made = make_server(self._gateway, tenant, approve, **(server or {}))
        async with Client(made, mode=mode, **client) as connected:
            yield connected

    async def as_client(self, tenant: str = "org:1") -> Client:
        """Return the client that `search` and `call` speak as."""
        if tenant not in self._clients:
            self._clients[tenant] = asyncio.get_running_loop().create_future()
            self._tasks.append(asyncio.create_task(self._stay(tenant)))
        return await self._clients[tenant]

    async def _stay(self, tenant: str) -> None:
        """Connect, and leave at the end. In its own task, because a test may leave its own client later than this."""
        async with self.client(tenant) as client:
            self._clients[tenant].set_result(client)
            await self._ends.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ends.set()
        await asyncio.gather(*self._tasks)

    async def search(
        self, query: str = "add two numbers", limit: int = 20, hint: str = "semantic", tenant: str = "org:1"
    ) -> dict[str, Any]:
        asked = {"query": query, "limit": limit, "route_hint": hint}
        found = await (await self.as_client(tenant)).call_tool("search", asked)
        assert not found.is_error, text_of(found)
        answer: dict[str, Any] = json.loads(text_of(found))
        return answer

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, tenant: str = "org:1") -> CallToolResult:
        asked = {"tool": tool, "arguments": arguments or {}}
        return await (await self.as_client(tenant)).call_tool("call_tool", asked)

    async def refusal(self, tool: str, arguments: dict[str, Any] | None = None, tenant: str = "org:1") -> str:
        """Return the error that a call of the tool is answered with."""
        result = await self.call(tool, arguments, tenant)
        assert result.is_error
        return text_of(result)

    async def states(self, tenant: str = "org:1") -> list[dict[str, Any]]:
        """Return the servers' states, as every client reads them."""
        client = await self.as_client(tenant)
        content: Any = (await client.read_resource("toolroute://servers")).contents[0]
        states: list[dict[str, Any]] = json.loads(content.text)
        return states

    async def calls_in_flight(self, tenant: str = "org:1") -> int:
        return sum(state["calls_in_flight"] for state in await self.states(tenant))

    async def replace(self, tenant: str, **servers: list[Tool]) -> None:
        """Replace the tenant's stored tools of these servers."""
        await asyncio.to_thread(self.store.replace_servers, tenant, servers)

    @asynccontextmanager
    async def over_http(
        self, tokens: Path, only: str = "", approve: Approve = Approve.CHANGES, **settings: Any
    ) -> AsyncIterator[httpx2.AsyncClient]:
        """Serve HTTP with this file of tokens."""
        profiles: Any = lambda: self.config.profiles  # noqa: E731
        server = make_server(self._gateway, approve=approve, profile=only)
        settings.setdefault("ready", self._gateway.ready)
        app = make_app(server, BearerTokens.read(tokens), profiles=profiles, only=only, **settings)
        transport = httpx2.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=150) as web,
        ):
            yield web


@asynccontextmanager
async def serving(
    folder: Path,
    servers: dict[str, Any],
    *,
    audit: Path | None = None,
    file: Path | None = None,
    listing_wait_s: float = LONG_S,
    grace_s: float = LONG_S,
    retry_after_s: float = 60.0,
    **settings: Any,
) -> AsyncIterator[Served]:
    """Serve these servers from the store `store` of the folder.

    Args:
        folder: Holds the store.
        servers: The configuration, as in an mcpServers file.
        audit: The folder of the audit log.
        file: A configuration file that is followed.
        listing_wait_s: The seconds that a search waits for servers that were never listed.
        grace_s: The seconds that it still waits for the others once a server is listed.
        retry_after_s: The seconds after which a server that failed is listed again.
        settings: Further settings of the gateway.
    """
    notes = list[str]()
    settings["audit"] = Audit(audit) if audit else None
    settings.setdefault("connect_timeout_s", 150.0)  # A busy machine takes longer than the default to start a server.
    if file is not None:
        settings["changed"] = WatchedConfig(file).changed
    router = Router(store=str(folder / "store"))
    made = Gateway(McpConfig.parse(servers), router, **{"note": notes.append, **settings})
    with (
        patch.object(index_cache, "PATIENCE_S", LONG_S),  # A busy machine takes longer for a new version.
        patch.object(initial_sync, "_WAIT_S", listing_wait_s),
        patch.object(initial_sync, "LISTING_WAIT_S", grace_s),
        patch.object(initial_sync, "_RETRY_AFTER_S", retry_after_s),
    ):
        async with made as gateway, Served(gateway, notes) as served:
            yield served


def keys(found: dict[str, Any]) -> set[str]:
    """The keys of the tools that a search found."""
    return {match["tool"] for match in found["matches"]}


async def call_over_http(
    web: httpx2.AsyncClient, token: str, name: str, arguments: dict[str, Any], path: str = "/mcp"
) -> tuple[int, str]:
    """Call a tool of the gateway in a session of its own. Return the HTTP status and the answer."""
    headers = {
        "authorization": f"Bearer {token}",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
    }
    about = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "raw", "version": "1"}, "capabilities": {}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    opened = await web.post(path, json=first, headers=headers)
    if opened.status_code != HTTPStatus.OK:
        return opened.status_code, opened.text
    headers["mcp-session-id"] = opened.headers["mcp-session-id"]
    params = {"name": name, "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    answer = await web.post(path, json=call, headers=headers)
    return answer.status_code, answer.text
