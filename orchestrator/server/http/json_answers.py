"""An answer that comes first on its stream is sent as plain JSON, as streamable HTTP allows.

    event: message                       content-type: application/json
    data: {"id": 1, "result": ...}   ->  {"id": 1, "result": ...}

Clients limit the length of an event, the MCP library to 1 MiB, and no client limits a JSON body in this way. A stream
that begins with a question, progress or a ping stays a stream.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from mcp_types import jsonrpc_message_adapter
from mcp_types.jsonrpc import JSONRPCError, JSONRPCResponse
from starlette.datastructures import Headers, MutableHeaders

_END_OF_EVENT = b"\r\n\r\n"

Send = Callable[[Any], Awaitable[None]]


class JsonAnswers:
    """An ASGI app that turns the answer of another app to a POST into JSON where it is the only event."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        if scope["method"] == "POST":
            await self._app(scope, receive, _Answer(send).send)
        else:
            await self._app(scope, receive, send)


class _Answer:
    """Holds the start of one response back until its first event shows the kind of the response."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: dict[str, Any] | None = None
        self._event = bytearray()
        self._is_sent = False

    async def send(self, message: dict[str, Any]) -> None:
        if self._is_sent:
            return
        if message["type"] == "http.response.start" and _is_stream(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            await self._read(self._start, message)

    async def _read(self, start: dict[str, Any], message: dict[str, Any]) -> None:
        self._event += message.get("body", b"")
        is_complete = self._event.endswith(_END_OF_EVENT)
        if not is_complete and message.get("more_body", False):
            return
        answer = _answer_in(bytes(self._event))
        if answer is None:
            self._start = None
            await self._send(start)
            await self._send({**message, "body": bytes(self._event)})
            return
        self._is_sent = True
        await self._send(_as_json(start, len(answer)))
        await self._send({"type": "http.response.body", "body": answer})


def _is_stream(start: dict[str, Any]) -> bool:
    kind = Headers(raw=start["headers"]).get("content-type", "")
    return kind.startswith("text/event-stream")


def _answer_in(event: bytes) -> bytes | None:
    """Return the JSON of an event that is the answer to a request, or None."""
    lines = event.splitlines()
    data = [line.removeprefix(b"data:").strip() for line in lines if line.startswith(b"data:")]
    if len(data) != 1 or not data[0]:
        return None
    message = jsonrpc_message_adapter.validate_json(data[0])
    return data[0] if isinstance(message, JSONRPCResponse | JSONRPCError) else None


def _as_json(start: dict[str, Any], length: int) -> dict[str, Any]:
    """Return the start of a response with a JSON body of this length in place of a stream."""
    headers = MutableHeaders(raw=[*start["headers"]])
    headers["content-type"] = "application/json"
    headers["content-length"] = str(length)
    del headers["cache-control"]
    return {**start, "headers": headers.raw}
