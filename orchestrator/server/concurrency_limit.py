"""Keep `toolroute serve` answering while others hold its sockets open: patience, places, and a quiet log."""

import asyncio
import logging
import time
from collections import defaultdict
from functools import partial
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_PATIENCE_S = 10.0
"""How long a request may take to arrive, counted from the connection or from the last answer."""
_MOST_SOCKETS = 2048
_ONCE_IN_S = 60.0


def share() -> int:
    """Return a third of the sockets, which are half of the process's descriptors: servers and stores need the others.

    One share is for connections that wait for a request, two for those that are answered, of which a tenant has one.
    """
    try:
        import resource

        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except ImportError:  # Windows has no such limit.
        descriptors = -1
    sockets = min(descriptors // 2, _MOST_SOCKETS) if descriptors > 0 else _MOST_SOCKETS
    return max(sockets // 3, 1)


def settings() -> dict[str, Any]:
    """Return uvicorn's settings. Few connections are accepted at a time, so that those which are too many are closed
    before the next ones come."""
    return {
        "http": partial(_Patient, Waiting(share())),
        "ws": "none",
        "limit_concurrency": 2 * share(),
        "backlog": max(share() // 3, 1),
        "log_config": None,
    }


class Waiting:
    """The connections whose request is not there yet, oldest first, in groups: strangers or not, and the address."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._groups: defaultdict[tuple[bool, str], dict[_Patient, asyncio.TimerHandle]] = defaultdict(dict)

    def add(self, one: "_Patient") -> None:
        """Take it in; where that is one too many, close the oldest of the address that has the most strangers."""
        one.group = one.cycle is None, one.client[0] if one.client else ""
        self._groups[one.group][one] = one.loop.call_later(_PATIENCE_S, one.transport.abort)
        if sum(map(len, self._groups.values())) > self._most:
            fullest = max(self._groups, key=lambda group: (group[0], len(self._groups[group])))
            oldest = next(iter(self._groups[fullest]))
            self.remove(oldest)
            oldest.transport.abort()

    def remove(self, one: "_Patient") -> None:
        if one.group is not None:
            self._groups[one.group].pop(one).cancel()
            if not self._groups[one.group]:
                del self._groups[one.group]
            one.group = None


class _Patient(H11Protocol):
    """uvicorn's HTTP connection, which waits for each whole request, header and body, for a time."""

    def __init__(self, waiting: Waiting, **given: Any) -> None:
        super().__init__(**given)
        self._waiting = waiting
        self.group: tuple[bool, str] | None = None

    def _look(self) -> None:
        arrived = self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)
        if arrived or self.transport.is_closing():
            self._waiting.remove(self)
        elif self.group is None:
            self._waiting.add(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look()

    def handle_events(self) -> None:
        super().handle_events()
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._waiting.remove(self)


def closing_refused(app: Any) -> Any:
    """Return the ASGI app with each connection closed that is refused: who stays has had an answer, so a token."""

    async def closing(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        await app(scope, receive, sent)

    return closing


def log_seldom() -> None:
    """Let the log have messages of one kind once a minute: strangers cause as many as they like."""
    for handler in (*logging.getLogger().handlers, logging.lastResort):
        if handler is not None:
            handler.addFilter(_Seldom())


class _Seldom(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._at: dict[tuple[str, int, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        # A kind is a place in the code and how its text begins: what follows there may be a stranger's.
        kind, now = (record.pathname, record.lineno, record.getMessage()[:20]), time.monotonic()
        if now < self._at.get(kind, 0.0) + _ONCE_IN_S:
            return False
        self._at[kind] = now
        return True
