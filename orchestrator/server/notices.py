"""Tells the clients of `toolroute serve` that the tools which they were offered directly have changed.

The protocol of 2026 has a stream that a client opens to be told (stdio and HTTP); before it, notices go to the session
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

Offered = Callable[[str], Awaitable[tuple[Tool, ...]]]
"""A tenant's tools that are offered directly, as its catalogue stands now."""

_LOOK_EVERY_S = 0.5


class Notices:
    """Looks, while a tenant has clients that want to know, whether its tools are still those that they were told."""

    def __init__(self, offered: Offered) -> None:
        self._offered = offered
        self._tenants: dict[str, _Audience] = {}

    async def close(self) -> None:
        """Ends the streams and the looking."""
        for audience in self._tenants.values():
            audience.streams.close()
        looking = [audience.looking for audience in self._tenants.values() if audience.looking]
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)

    async def tools(self, tenant: str, session: "ServerSession | None") -> tuple[Tool, ...]:
        """What to list for a client now; a session given here is told of later changes."""
        tools = await self._offered(tenant)
        if session is not None:
            audience = self._audience(tenant)
            audience.session = session
            self._look(tenant, audience, tools)
        return tools

    async def listen(
        self, tenant: str, context: "ServerRequestContext[Any, Any]", asked: "SubscriptionsListenRequestParams"
    ) -> "SubscriptionsListenResult":
        """One client's stream of notices; returns when it ends."""
        audience = self._audience(tenant)
        audience.listening += 1
        try:
            self._look(tenant, audience, await self._offered(tenant))
            return await audience.streams(context, asked)
        finally:
            audience.listening -= 1

    def _audience(self, tenant: str) -> "_Audience":
        return self._tenants.setdefault(tenant, _Audience())

    def _look(self, tenant: str, audience: "_Audience", tools: tuple[Tool, ...]) -> None:
        if audience.looking is None or audience.looking.done():
            audience.looking = asyncio.create_task(self._keep_looking(tenant, audience, tools))

    async def _keep_looking(self, tenant: str, audience: "_Audience", told: tuple[Tool, ...]) -> None:
        while audience.session is not None or audience.listening:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                tools = await self._offered(tenant)
            except ToolrouteError:
                # The store does not answer: what it held may be as it was, and the next look may tell.
                continue
            if tools != told:
                told = tools
                await audience.tell()


class _Audience:
    """One tenant's clients: the streams that they opened, and the session of an older one."""

    def __init__(self) -> None:
        from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

        self._bus = InMemorySubscriptionBus()
        self.streams = ListenHandler(self._bus)
        self.session: ServerSession | None = None
        self.listening = 0
        self.looking: asyncio.Task[None] | None = None

    async def tell(self) -> None:
        from mcp.server.subscriptions import ToolsListChanged

        await self._bus.publish(ToolsListChanged())
        if self.session is not None:
            # Never raises; where the client has a stream of its own, the library drops this one.
            await self.session.send_tool_list_changed()
