"""An HTTP client for MCP. A failed request gets a JSON-RPC error with a code of `faults`, and other requests continue.

The MCP library would end the whole connection and hide the HTTP status.
"""

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2

from orchestrator.mcp import faults
from orchestrator.mcp.config.launch import LOOPBACK, Launch

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_LONGEST_REASON = 200
_UNREACHED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
_OF_THE_TRANSFER = frozenset(("content-encoding", "content-length", "transfer-encoding"))


class GuardedClient(httpx2.AsyncClient):
    """Send an entry's headers, and end every POST in a response, and in none that fills the memory.

    `streams` is called when the server has answered a GET: its own messages arrive from then on.
    """

    def __init__(self, launch: Launch, streams: Callable[[], None], auth: httpx2.Auth | None) -> None:
        loopback = urlsplit(launch.url).hostname in LOOPBACK
        # A compressed answer of some kilobytes may be one of gigabytes.
        headers = {"accept-encoding": "identity", **launch.headers}
        # No read timeout: deadlines are each call's own.
        super().__init__(headers=headers, auth=auth, timeout=httpx2.Timeout(30.0, read=None), trust_env=not loopback)
        self._secrets, self._streams = launch.secrets, streams

    async def send(self, request: httpx2.Request, **given: Any) -> httpx2.Response:
        if request.method != "POST":
            response = await super().send(request, **given)
            self._streams()
            return response
        try:
            return await self._guarded(request, await super().send(request, **given))
        except _UNREACHED as error:
            place = f"{request.url.scheme}://{request.url.netloc.decode()}"
            return _answer(request, faults.UNSENT, f"{place} cannot be reached ({str(error) or type(error).__name__})")
        except httpx2.RequestError as error:
            return _answer(request, faults.LOST, f"gave no answer: {str(error) or type(error).__name__}")

    async def _guarded(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        kind = _kind(response)
        fine = response.status_code < 400
        if fine and (response.status_code == 202 or not kind.startswith("application/json")):
            return response  # The library reads nothing of it, or event by event, up to a limit.
        whole = await _read(response)
        if fine:
            too_much = faults.is_too_much(whole.content)
            return _answer(request, faults.LOST, f"gave {faults.TOO_MUCH}") if too_much else whole
        code = _code(whole)
        return whole if code is None else _answer(request, code, self._refusal(whole, kind))

    def _refusal(self, response: httpx2.Response, kind: str) -> str:
        """Return the status, the beginning of the text for people, and the content type."""
        status = response.status_code
        said = f"HTTP {status} {response.reason_phrase}".rstrip()
        beginning = response.content[:65_536].decode("utf-8", "replace")
        words = _words(beginning) if "json" in kind or kind.startswith("text/plain") else ""
        reason = " ".join(self._secrets.redact(words).split())
        if reason not in ("", response.reason_phrase):
            said += f": {reason[:_LONGEST_REASON]}{'...' if len(reason) > _LONGEST_REASON else ''}"
        return said


class SseClient(GuardedClient):
    """The client of the older SSE transport, where answers arrive on another stream. `refused` receives the answer to
    a refusal.

    A refused stream raises an MCPError with the reason.
    """

    def __init__(
        self,
        launch: Launch,
        streams: Callable[[], None],
        auth: httpx2.Auth | None,
        refused: Callable[["SessionMessage"], Awaitable[None]],
    ) -> None:
        super().__init__(launch, streams, auth)
        self._refused = refused

    async def send(self, request: httpx2.Request, **given: Any) -> httpx2.Response:
        from mcp import MCPError
        from mcp.shared.message import SessionMessage
        from mcp.types import ErrorData, JSONRPCError

        response = await super().send(request, **given)
        if response.status_code < 400:
            return response
        if request.method != "POST":
            whole = await _read(response)
            raise MCPError(_code(whole) or faults.REFUSED, self._refusal(whole, _kind(whole)))
        asked = json.loads(request.content).get("id")
        if asked is not None:
            error = ErrorData.model_validate(response.json()["error"])
            await self._refused(SessionMessage(JSONRPCError(jsonrpc="2.0", id=asked, error=error)))
        return httpx2.Response(202, request=request)


def _words(said: str) -> str:
    """Return the description in an OAuth error, or the whole text."""
    try:
        return str(json.loads(said)["error_description"])
    except (ValueError, TypeError, KeyError):
        return said


def _kind(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.lower()


async def _read(response: httpx2.Response) -> httpx2.Response:
    """Read and close the response. Only the beginning of a long response is kept."""
    content = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > faults.MAX_MESSAGE_BYTES:
                break
    finally:
        await response.aclose()
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_TRANSFER]
    phrase = {name: value for name, value in response.extensions.items() if name == "reason_phrase"}
    status, request = response.status_code, response.request
    return httpx2.Response(status, headers=headers, content=bytes(content), request=request, extensions=phrase)


def _code(response: httpx2.Response) -> int | None:
    """Return the code for a refusal, or None if the response has its own JSON-RPC error."""
    status, sent = response.status_code, response.request.headers
    if status in (401, 403, 429):
        return faults.BUSY if status == 429 else faults.DENIED
    try:
        said = json.loads(response.content)["error"]["message"]
    except (ValueError, TypeError, KeyError):
        said = None
    # Servers on the TypeScript library answer 400 with "Bad Request: ... session ID ..." where the protocol wants 404.
    if "mcp-session-id" in sent and (status == 404 or (status == 400 and "session" in str(said).lower())):
        return faults.UNSENT
    if said is not None:
        return None
    return faults.REFUSED if status < 500 else faults.LOST


def _answer(request: httpx2.Request, code: int, message: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(502, json=error, request=request)
