"""The connected clients of each tenant: their log levels, their subscriptions, and the notifications that they get."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from mcp.server.connection import Connection
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent
from mcp.shared.subscriptions import ResourceUpdated, event_to_notification
from mcp.types import LOG_LEVEL_META_KEY

from orchestrator.server.sessions.asker import (
    ClientAsker,
    Context,
    deliver,
    extensions_of,
    is_modern,
)
from orchestrator.server.sessions.outcome_recorder import Conversation

ServerResource = tuple[str, str]
"""A server and its own URI of a resource."""


@dataclass(slots=True)
class _Client:
    """A connected client.

    Attributes:
        tenant: Its tenant, "" until it is initialized. From then on it receives notifications.
        session: Its session.
        log_level: The lowest level of log messages that it wants, or "".
        subscribed: The resources that it has subscribed to by URI. None: it has subscribed to none yet.
    """

    tenant: str = ""
    session: Any = None
    log_level: str = ""
    subscribed: dict[str, ServerResource] | None = None


class Clients:
    """The connected clients of each tenant."""

    def __init__(self) -> None:
        self._clients: dict[Connection, _Client] = {}
        """The clients of an earlier protocol, until their sessions end. Those of 2026-07-28 have no sessions."""
        self._stdio_client: ClientAsker | None = None
        self._stdio_extensions: dict[str, Any] | None = None
        self._buses = defaultdict[str, InMemorySubscriptionBus](InMemorySubscriptionBus)

    @property
    def tenants(self) -> set[str]:
        """The tenants with clients that can receive notifications of changes."""
        return {*self._buses, *(client.tenant for client in self._clients.values())} - {""}

    def bus(self, tenant: str) -> InMemorySubscriptionBus:
        """Return the tenant's bus. Its events go to listening clients of protocol 2026-07-28."""
        return self._buses[tenant]

    def opened(self, tenant: str, context: Context) -> None:
        """Register a client of an earlier protocol, which receives notifications while it is connected."""
        client = self._client(context)
        client.tenant = tenant
        client.session = context.session
        if context.request is None:
            self._stdio_client = ClientAsker(context, Conversation(tenant, "stdio", ""), "")

    def over_stdio(self) -> ClientAsker | None:
        """Return the client over stdio, which is the only client and can always be asked. None over HTTP."""
        if self._stdio_client is not None:
            self._stdio_client.log_level = self.log_level(self._stdio_client.context)
        return self._stdio_client

    def note_extensions(self, context: Context) -> None:
        """Keep the extensions of a client over stdio, which states them with each request of 2026-07-28."""
        if context.request is None and is_modern(context):
            self._stdio_extensions = extensions_of(context)

    def stdio_extensions(self) -> dict[str, Any] | None:
        """Return the extensions of the client over stdio, or None if it does not state them, and over HTTP."""
        return self._stdio_extensions

    def set_log_level(self, context: Context, level: str) -> None:
        self._client(context).log_level = level

    def log_level(self, context: Context) -> str:
        """Return the lowest level of log messages that the client wants, or ""."""
        if is_modern(context):
            return str((context.meta or {}).get(LOG_LEVEL_META_KEY) or "")
        return self._client(context).log_level

    def subscribed(
        self, context: Context, on_left: Callable[[ServerResource], None]
    ) -> dict[str, ServerResource]:
        """Return the resources that a client of an earlier protocol has subscribed to, to be changed in place.

        Args:
            context: The client's request.
            on_left: Is called with each resource that is left when the client's session ends.
        """
        client = self._client(context)
        if client.subscribed is None:
            resources = client.subscribed = {}

            def leave() -> None:
                for resource in resources.values():
                    on_left(resource)

            _connection(context).exit_stack.callback(leave)
        return client.subscribed

    async def publish(self, tenant: str, *events: ServerEvent) -> None:
        """Send events to the tenant's clients that receive such events."""
        for event in events:
            if tenant in self._buses:
                await self._buses[tenant].publish(event)
            notification = event_to_notification(event, {})
            sending = [
                deliver(partial(client.session.send_notification, notification))
                for client in self._clients.values()
                if client.tenant == tenant and _receives(client, event)
            ]
            await asyncio.gather(*sending)

    def _client(self, context: Context) -> _Client:
        connection = _connection(context)
        if connection not in self._clients:
            self._clients[connection] = _Client()
            # Not by a weak reference: the session of a client refers to its connection.
            connection.exit_stack.callback(self._clients.pop, connection)
        return self._clients[connection]


def _receives(client: _Client, event: ServerEvent) -> bool:
    """Return True unless the event is about a resource that the client has not subscribed to."""
    return not isinstance(event, ResourceUpdated) or event.uri in (client.subscribed or ())


def _connection(context: Context) -> Connection:
    """Return the client's connection. The library has no public name for it."""
    return context.session._connection  # noqa: SLF001
