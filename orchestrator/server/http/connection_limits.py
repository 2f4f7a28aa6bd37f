"""Keep `toolroute serve` answering while others hold its sockets open: timeouts, limits, and a log that stays short."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import h11
from starlette.datastructures import MutableHeaders
from uvicorn.protocols.http.h11_impl import H11Protocol

_REQUEST_TIMEOUT_S = 10.0
"""Seconds in which a request must arrive, counted from the connection or from the last answer."""
_MAX_SOCKETS = 2048
"""More connections than this are an attack or need several processes."""
_ACCEPTED_AT_ONCE = 4
"""Connections that are accepted in one turn of the event loop. Surplus ones are closed before the next ones come."""
_LOG_INTERVAL_S = 60.0
"""Strangers can cause any number of messages, so each kind is logged once in this time."""
_Group = tuple[bool, str]
"""Whether no request was answered on a connection, and its address."""


def most_pending() -> int:
    """Return the number of connections that may wait for their request: a third of the sockets.

    The other two thirds are for requests in progress. Calls of one tenant use at most half of them. Sockets use at most
    half of the process's descriptors, because servers and stores need the others.
    """
    try:
        import resource

        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except ImportError:  # Windows has no such limit.
        descriptors = -1
    sockets = min(descriptors // 2, _MAX_SOCKETS) if descriptors > 0 else _MAX_SOCKETS
    return max(sockets // 3, 1)


def uvicorn_settings() -> dict[str, Any]:
    """Return the settings of uvicorn."""
    return {
        "http": partial(_TimedConnection, PendingConnections(most_pending())),
        "ws": "none",
        "limit_concurrency": 2 * most_pending(),
        "backlog": _ACCEPTED_AT_ONCE,
        "log_config": None,
    }


class PendingConnections:
    """Connections whose request has not arrived yet, oldest first.

    They are grouped by address, and by whether a request on them was answered before. Refused connections are closed,
    so an answered connection had a valid token. Over the limit, the group with the most connections loses its oldest,
    and a group that was never answered before one that was.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._groups: defaultdict[_Group, dict[_TimedConnection, asyncio.TimerHandle]] = (
            defaultdict(dict)
        )

    def add(self, connection: "_TimedConnection") -> None:
        """Give a connection its time for a request. Over the limit, close another one."""
        is_unanswered = connection.cycle is None
        address = connection.client[0] if connection.client else ""
        connection.group = is_unanswered, address
        timer = connection.loop.call_later(_REQUEST_TIMEOUT_S, connection.transport.abort)
        self._groups[connection.group][connection] = timer
        if sum(map(len, self._groups.values())) > self._limit:
            surplus = self._oldest_of_largest_group()
            self.remove(surplus)
            surplus.transport.abort()

    def remove(self, connection: "_TimedConnection") -> None:
        if connection.group is None:
            return
        group = self._groups[connection.group]
        group.pop(connection).cancel()
        if not group:
            del self._groups[connection.group]
        connection.group = None

    def _oldest_of_largest_group(self) -> "_TimedConnection":
        def size(group: _Group) -> tuple[bool, int]:
            is_unanswered, _ = group
            return is_unanswered, len(self._groups[group])

        largest = max(self._groups, key=size)
        return next(iter(self._groups[largest]))


class _TimedConnection(H11Protocol):
    """uvicorn's HTTP connection with a timeout for each whole request, header and body, which uvicorn does not have."""

    def __init__(self, pending: PendingConnections, **settings: Any) -> None:
        super().__init__(**settings)
        self._pending = pending
        self.group: _Group | None = None

    def _update(self) -> None:
        has_arrived = self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)
        if has_arrived or self.transport.is_closing():
            self._pending.remove(self)
        elif self.group is None:
            self._pending.add(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._update()

    def handle_events(self) -> None:
        super().handle_events()
        self._update()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._pending.remove(self)


def close_refused(app: Any) -> Any:
    """Wrap an ASGI app so that a connection is closed after a refused request."""

    async def closing_app(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            is_start = message["type"] == "http.response.start"
            if is_start and message["status"] >= HTTPStatus.BAD_REQUEST:
                MutableHeaders(scope=message).append("connection", "close")
            await send(message)

        await app(scope, receive, sent)

    return closing_app


@contextmanager
def log_rate_limit() -> Iterator[None]:
    """Log messages of one kind once a minute at most, because strangers can cause any number of them."""
    limits = [
        (handler, _LogRateLimit())
        for handler in (*logging.getLogger().handlers, logging.lastResort)
        if handler
    ]
    for handler, limit in limits:
        handler.addFilter(limit)
    try:
        yield
    finally:
        for handler, limit in limits:
            handler.removeFilter(limit)


class _LogRateLimit(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[tuple[str, int, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        # A kind is a place in the code and the beginning of its text. A stranger may have written the rest of the text.
        kind = record.pathname, record.lineno, record.getMessage()[:20]
        now = time.monotonic()
        if now < self._logged_at.get(kind, -_LOG_INTERVAL_S) + _LOG_INTERVAL_S:
            return False
        self._logged_at[kind] = now
        return True
