"""The connected clients of each tenant: their log levels, their subscriptions, and the notifications that they get."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from mcp.server.connection import Connection
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent
from mcp.shared.subscriptions import ResourceUpdated, event_to_notification
from mcp.types import LOG_LEVEL_META_KEY

from orchestrator.server.sessions.asker import ClientAsker, Context, deliver, is_modern
from orchestrator.server.sessions.outcome_recorder import Conversation

ServerResource = tuple[str, str]
"""A server and its own URI of a resource."""


class Clients:
    """The connected clients of each tenant."""

    def __init__(self) -> None:
        self._sessions: defaultdict[str, WeakKeyDictionary[Connection, Any]] = defaultdict(
            WeakKeyDictionary
        )
        self._log_levels: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()
        self._subscribed: WeakKeyDictionary[Connection, dict[str, ServerResource]] = (
            WeakKeyDictionary()
        )
        self._stdio_client: ClientAsker | None = None
        self._stdio_extensions: dict[str, Any] | None = None
        self._buses = defaultdict[str, InMemorySubscriptionBus](InMemorySubscriptionBus)

    @property
    def tenants(self) -> list[str]:
        """The tenants with clients that can receive notifications of changes."""
        return [*{*self._buses, *self._sessions}]

    def bus(self, tenant: str) -> InMemorySubscriptionBus:
        """Return the tenant's bus. Its events go to listening clients of protocol 2026-07-28."""
        return self._buses[tenant]

    def opened(self, tenant: str, context: Context) -> None:
        """Register a client of an earlier protocol, which receives notifications while it is connected."""
        self._sessions[tenant][_connection(context)] = context.session
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
            capabilities = context.session.client_capabilities
            self._stdio_extensions = (capabilities and capabilities.extensions) or {}

    def stdio_extensions(self) -> dict[str, Any] | None:
        """Return the extensions of the client over stdio, or None if it does not state them, and over HTTP."""
        return self._stdio_extensions

    def set_log_level(self, context: Context, level: str) -> None:
        self._log_levels[_connection(context)] = level

    def log_level(self, context: Context) -> str:
        """Return the lowest level of log messages that the client wants, or ""."""
        if is_modern(context):
            return str((context.meta or {}).get(LOG_LEVEL_META_KEY) or "")
        return self._log_levels.get(_connection(context), "")

    def subscribed(
        self, context: Context, on_left: Callable[[ServerResource], None]
    ) -> dict[str, ServerResource]:
        """Return the resources that a client of an earlier protocol has subscribed to, to be changed in place.

        Args:
            context: The client's request.
            on_left: Is called with each resource that is left when the client's session ends.
        """
        connection = _connection(context)
        if connection not in self._subscribed:
            resources = self._subscribed[connection] = {}

            def leave() -> None:
                for resource in resources.values():
                    on_left(resource)

            connection.exit_stack.callback(leave)
        return self._subscribed[connection]

    async def publish(self, tenant: str, *events: ServerEvent) -> None:
        """Send events to the tenant's clients that receive such events."""
        for event in events:
            await self.bus(tenant).publish(event)
            sessions = [
                session
                for connection, session in self._sessions[tenant].items()
                if not isinstance(event, ResourceUpdated)
                or event.uri in self._subscribed.get(connection, ())
            ]
            notification = event_to_notification(event, {})
            await asyncio.gather(
                *(deliver(session.send_notification(notification)) for session in sessions)
            )


def _connection(context: Context) -> Connection:
    """Return the client's connection. The library has no public name for it."""
    return context.session._connection  # noqa: SLF001
