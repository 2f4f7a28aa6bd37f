"""The sessions of clients before the protocol of 2026-07-28, over HTTP, with a maximum for each tenant."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse


@dataclass(slots=True)
class _Session:
    """A session of a tenant's client.

    Attributes:
        scope: The scope of its first request.
        in_progress: The number of its requests in progress by method. A GET lasts while the client listens.
    """

    scope: Any
    in_progress: Counter[str] = field(default_factory=Counter)


class BoundedSessions:
    """The endpoint. It bounds the sessions of each tenant, so that one tenant leaves room for the others.

    The library has no such limit, and no call that ends a session. So the sessions that were idle for longest are ended
    as their client would do it, by a DELETE request.
    """

    def __init__(self, manager: StreamableHTTPSessionManager, limit: int) -> None:
        self._manager = manager
        self._limit = limit
        self._closing = False
        self._sessions = defaultdict[str, dict[str, _Session]](dict)
        """By tenant: its sessions, the one that was used last at the end."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        sessions = self._sessions[scope["user"].access_token.client_id]
        method = scope["method"]
        if (
            method == "GET"
            and sum(session.in_progress["GET"] for session in sessions.values()) >= self._limit
        ):
            problem = f"too many streams: {self._limit} are open, which is the limit; close one"
            await PlainTextResponse(problem, HTTPStatus.SERVICE_UNAVAILABLE)(scope, receive, send)
            return
        session_id = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        session = _Session(scope)
        if session_id in sessions:
            # Last, as the one that was used last.
            session = sessions[session_id] = sessions.pop(session_id)

        async def watched(message: Any) -> None:
            new_id = _new_session_id(message) if not session_id else None
            if new_id:
                sessions[new_id] = session
            await send(message)

        session.in_progress[method] += 1
        try:
            await self._manager.handle_request(scope, receive, watched)
        finally:
            session.in_progress[method] -= 1
            await self._end_idle(sessions)

    async def end(self) -> None:
        """End the sessions, so that their clients stop listening: with calls in progress, once they are answered."""
        self._closing = True
        self._limit = 0
        for sessions in self._sessions.values():
            await self._end_idle(sessions)

    async def _end_idle(self, sessions: dict[str, _Session]) -> None:
        """End a tenant's sessions beyond the limit, longest idle first."""
        surplus = max(0, len(sessions) - self._limit)
        idle = [session_id for session_id, session in sessions.items() if self._is_idle(session)]
        for session_id in idle[:surplus]:
            headers = [
                (b"host", b"127.0.0.1"),
                (MCP_SESSION_ID_HEADER.encode(), session_id.encode()),
            ]
            scope = {**sessions.pop(session_id).scope, "method": "DELETE", "headers": headers}
            await self._manager.handle_request(scope, _no_body, _no_body)

    def _is_idle(self, session: _Session) -> bool:
        listens = session.in_progress["GET"] > 0 and not self._closing
        return not (session.in_progress["POST"] or listens)


def _new_session_id(message: Any) -> str | None:
    """Return the id of the session that a response begins."""
    if message["type"] != "http.response.start" or message["status"] >= HTTPStatus.BAD_REQUEST:
        return None
    return Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)


async def _no_body(*_: Any) -> Any:
    return {"type": "http.request"}
