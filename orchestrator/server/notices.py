"""Tells the clients of `toolroute serve` that the tools which they were offered directly have changed.

The protocol of 2026 has a stream that a client opens for that (stdio and HTTP); before it, notices go to the session
itself, which only stdio has here: older clients over HTTP are served without a session.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ToolrouteError
from orchestrator.records.tool import Tool

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp.types import SubscriptionsListenRequestParams, SubscriptionsListenResult

_LOOK_EVERY_S = 0.5


class Notices:
    """Compares, while a tenant has clients that listen, its directly offered tools with those of the last notice."""

    def __init__(self, offered: Callable[[str], Awaitable[tuple[Tool, ...]]]) -> None:
        self._offered = offered
        self._tenants: dict[str, _Audience] = {}

    async def close(self) -> None:
        """End the streams and the looking."""
        for audience in self._tenants.values():
            audience.streams.close()
        looking = [audience.looking for audience in self._tenants.values() if audience.looking]
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)

    async def tools(self, tenant: str, session: "ServerSession | None") -> tuple[Tool, ...]:
        """Return what to list for a client now; a session given here is notified of later changes."""
        tools = await self._offered(tenant)
        if session is not None:
            self._audience(tenant, tools).session = session
        return tools

    async def listen(
        self, tenant: str, context: "ServerRequestContext[Any, Any]", asked: "SubscriptionsListenRequestParams"
    ) -> "SubscriptionsListenResult":
        """Serve one client's stream of notices until it ends."""
        audience = self._audience(tenant, await self._offered(tenant))
        audience.listening += 1
        try:
            return await audience.streams(context, asked)
        finally:
            audience.listening -= 1

    def _audience(self, tenant: str, tools: tuple[Tool, ...]) -> "_Audience":
        audience = self._tenants.setdefault(tenant, _Audience())
        if audience.looking is None or audience.looking.done():
            audience.looking = asyncio.create_task(self._look(tenant, audience, tools))
        return audience

    async def _look(self, tenant: str, audience: "_Audience", last: tuple[Tool, ...]) -> None:
        await asyncio.sleep(_LOOK_EVERY_S)
        while audience.session is not None or audience.listening:
            try:
                tools = await self._offered(tenant)
            except ToolrouteError:
                tools = last  # The store does not answer: the next look may find out.
            if tools != last:
                last = tools
                await audience.notify()
            await asyncio.sleep(_LOOK_EVERY_S)


class _Audience:
    """One tenant's clients: the streams that they opened, and the session of an older one."""

    def __init__(self) -> None:
        from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

        self._bus = InMemorySubscriptionBus()
        self.streams = ListenHandler(self._bus)
        self.session: ServerSession | None = None
        self.listening = 0
        self.looking: asyncio.Task[None] | None = None

    async def notify(self) -> None:
        from mcp.server.subscriptions import ToolsListChanged

        await self._bus.publish(ToolsListChanged())
        if self.session is not None:
            # Never raises; where the client has a stream of its own, the library drops this one.
            await self.session.send_tool_list_changed()
