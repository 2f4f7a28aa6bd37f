"""An HTTP client for MCP. A failed request gets a JSON-RPC error with a code of `faults`, and other requests continue.

The MCP library would end the whole connection and hide the HTTP status:

    HTTP 401, 403   faults.DENIED     the server refused the credentials
    HTTP 404, 410   faults.UNSENT     the server does not know the session any more
    HTTP 429        faults.BUSY       the server did not run the request
    other 4xx       faults.REFUSED    the same
    5xx, no answer  faults.LOST       the server may have run it
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2

from orchestrator.common.lines import one_line
from orchestrator.mcp import faults
from orchestrator.mcp.config.launch import LOOPBACK, Launch
from orchestrator.mcp.transports.json_repair import repaired

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_LONGEST_REASON = 200
_MOST_REASON_BYTES = 65_536
"""The beginning of an error page. It is read for its reason and never kept whole."""
_UNREACHED = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)
_TRANSFER_HEADERS = frozenset(("content-encoding", "content-length", "transfer-encoding"))
_UNKNOWN_SESSION = (404, 410)


class CredentialsRefused(httpx2.RequestError):
    """An authorization server gave no token for a request."""


class GuardedClient(httpx2.AsyncClient):
    """Send an entry's headers, and end every POST in a response, and in none that fills the memory.

    Args:
        launch: The entry with its variables replaced.
        on_stream: Is called when the server has answered a GET: its own messages arrive from then on.
        auth: The sign-in, if any.
    """

    def __init__(
        self, launch: Launch, on_stream: Callable[[], None], auth: httpx2.Auth | None
    ) -> None:
        super().__init__(
            # A compressed answer of some kilobytes may be one of gigabytes.
            headers={"accept-encoding": "identity", **launch.headers},
            auth=auth,
            # No read timeout: deadlines are each call's own.
            timeout=httpx2.Timeout(30.0, read=None),
            trust_env=urlsplit(launch.url).hostname not in LOOPBACK,
        )
        self._secrets = launch.secrets
        self._on_stream = on_stream

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method != "POST":
            try:
                response = await super().send(request, **options)
            except _UNREACHED as error:
                raise type(error)(_unreached(request, error), request=request) from None
            self._on_stream()
            return _with_repaired_events(response)
        try:
            response = await super().send(request, **options)
            return await self._guarded(request, response)
        except _UNREACHED as error:
            return _error_response(request, faults.UNSENT, _unreached(request, error))
        except CredentialsRefused as error:
            return _error_response(request, faults.DENIED, str(error))
        except httpx2.RequestError as error:
            return _error_response(
                request, faults.LOST, f"gave no answer: {str(error) or type(error).__name__}"
            )

    async def _guarded(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        is_success = response.status_code < 400
        is_json = _content_type(response).startswith("application/json")
        if is_success and (response.status_code == 202 or not is_json):
            # The library reads nothing of it, or event by event, up to a limit.
            return _with_repaired_events(response)
        read = await _read(response)
        if not is_success:
            code = _fault_code(read)
            return read if code is None else _error_response(request, code, self._refusal(read))
        if faults.is_too_much(read.content):
            return _error_response(request, faults.LOST, f"gave {faults.TOO_MUCH}")
        return _copy(read, repaired(read.content))

    def _refusal(self, response: httpx2.Response) -> str:
        """Return the status, and the beginning of the text for people."""
        status = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
        scope = further_scope(response)
        if scope:
            return f"{status}: it asks for the further scope {self._secrets.redact(scope)[:_LONGEST_REASON]}"
        kind = _content_type(response)
        if "json" not in kind and not kind.startswith("text/plain"):
            return status
        text = response.content[:_MOST_REASON_BYTES].decode("utf-8", "replace")
        description = json_text(text, "error_description") or text  # Of an OAuth error.
        reason = one_line(self._secrets.redact(description))
        if reason in ("", response.reason_phrase):
            return status
        end = "..." if len(reason) > _LONGEST_REASON else ""
        return f"{status}: {reason[:_LONGEST_REASON]}{end}"


class SseClient(GuardedClient):
    """The client of the older SSE transport, where answers arrive on another stream.

    A refused stream raises an MCPError with the reason.

    Args:
        launch: The entry with its variables replaced.
        on_stream: Is called when the server's own messages can arrive.
        auth: The sign-in, if any.
        on_refused: Receives the answer to a refused message.
    """

    def __init__(
        self,
        launch: Launch,
        on_stream: Callable[[], None],
        auth: httpx2.Auth | None,
        on_refused: Callable[["SessionMessage"], Awaitable[None]],
    ) -> None:
        super().__init__(launch, on_stream, auth)
        self._on_refused = on_refused

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        from mcp import MCPError
        from mcp.shared.message import SessionMessage
        from mcp.types import ErrorData, JSONRPCError

        response = await super().send(request, **options)
        if response.status_code < 400:
            return response
        if request.method != "POST":
            read = await _read(response)
            raise MCPError(_fault_code(read) or faults.REFUSED, self._refusal(read))
        request_id = json.loads(request.content).get("id")
        if request_id is not None:
            error = ErrorData.model_validate(response.json()["error"])
            await self._on_refused(
                SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
            )
        return httpx2.Response(202, request=request)


class _RepairedEvents(httpx2.AsyncByteStream):
    """A stream of events in which each line of data is strict JSON. Lines over the limit pass as they are."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        unfinished = b""
        async for chunk in self._stream:
            *lines, unfinished = (unfinished + chunk).split(b"\n")
            for line in lines:
                yield repaired_line(line) + b"\n"
            if len(unfinished) > faults.MAX_MESSAGE_BYTES:
                yield unfinished
                unfinished = b""
        yield unfinished

    async def aclose(self) -> None:
        await self._stream.aclose()


def repaired_line(line: bytes) -> bytes:
    """Return a line of an event stream with its JSON repaired."""
    if not line.startswith(b"data:"):
        return line
    return b"data:" + repaired(line.removeprefix(b"data:"))


def _with_repaired_events(response: httpx2.Response) -> httpx2.Response:
    is_packed = response.headers.get("content-encoding", "identity") != "identity"
    if _content_type(response).startswith("text/event-stream") and not is_packed:
        response.stream = _RepairedEvents(response.stream)
    return response


def _unreached(request: httpx2.Request, error: Exception) -> str:
    origin = f"{request.url.scheme}://{request.url.netloc.decode()}"
    return f"{origin} cannot be reached ({str(error) or type(error).__name__})"


def json_text(content: str | bytes, *path: str) -> str | None:
    """Return the text under these names in JSON, or None if the JSON has no such value."""
    try:
        value = json.loads(content)
        for name in path:
            value = value[name]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return str(value)


def further_scope(response: httpx2.Response) -> str:
    """Return the scopes that a server asks for after a request without them, or ""."""
    from mcp.client.auth.utils import extract_field_from_www_auth

    if response.status_code != 403:
        return ""
    if extract_field_from_www_auth(response, "error") != "insufficient_scope":
        return ""
    return extract_field_from_www_auth(response, "scope") or ""


def _content_type(response: httpx2.Response) -> str:
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
    return _copy(response, bytes(content))


def _copy(response: httpx2.Response, content: bytes) -> httpx2.Response:
    """Return the response with other content."""
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name not in _TRANSFER_HEADERS
    ]
    phrase = {name: value for name, value in response.extensions.items() if name == "reason_phrase"}
    return httpx2.Response(
        response.status_code,
        headers=headers,
        content=content,
        request=response.request,
        extensions=phrase,
    )


def _fault_code(response: httpx2.Response) -> int | None:
    """Return the code for a refusal, or None if the response has its own JSON-RPC error."""
    status = response.status_code
    if status in (401, 403):
        return faults.DENIED
    if status == 429:
        return faults.BUSY
    message = json_text(response.content, "error", "message")
    if "mcp-session-id" in response.request.headers and _is_unknown_session(status, message):
        return faults.UNSENT
    if message is not None:
        return None
    return faults.REFUSED if status < 500 else faults.LOST


def _is_unknown_session(status: int, message: str | None) -> bool:
    # Servers on the TypeScript library answer 400 with "Bad Request: ... session ID ..." where the protocol wants 404.
    return status in _UNKNOWN_SESSION or (status == 400 and "session" in (message or "").lower())


def _error_response(request: httpx2.Request, code: int, message: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(502, json=error, request=request)
