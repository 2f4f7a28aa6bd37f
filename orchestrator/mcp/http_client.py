"""An HTTP client for MCP that says what became of a request.

The MCP library ends the whole connection when one request cannot be delivered, and hides the status of a refusal.
Here such a request gets a JSON-RPC error with one of the codes in `faults`, and the others go on.
"""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx2

from orchestrator.mcp import faults
from orchestrator.mcp.launch import Launch
from orchestrator.records.redact import Secrets

MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""The longest answer that is read, be it a document or an event."""
_MAX_REFUSAL_BYTES = 1024 * 1024
_LONGEST_REASON = 200
_UNREACHED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
_OF_THE_TRANSFER = frozenset(("content-encoding", "content-length", "transfer-encoding"))


class GuardedClient(httpx2.AsyncClient):
    """Send an entry's headers, and end every POST in a response, and in none that fills the memory.

    `streams` is called when the server has answered a GET: its own messages arrive from then on, if it has any. No read
    timeout: deadlines are each call's own.
    """

    def __init__(self, launch: Launch, streams: Callable[[], None]) -> None:
        loopback = urlsplit(launch.url).hostname in {"localhost", "127.0.0.1", "::1"}
        # A compressed answer of some kilobytes may be one of gigabytes.
        headers = {"accept-encoding": "identity", **launch.headers}
        super().__init__(headers=headers, timeout=httpx2.Timeout(30.0, read=None), trust_env=not loopback)
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
            why = str(error) or type(error).__name__
            return _answer(request, faults.UNSENT, f"{place} cannot be reached ({why})")
        except httpx2.RequestError as error:
            return _answer(request, faults.LOST, f"gave no answer: {str(error) or type(error).__name__}")

    async def _guarded(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        if response.status_code < 400:
            kind = response.headers.get("content-type", "").lower()
            if response.status_code == 202 or not kind.startswith("application/json"):
                return response  # The library reads nothing of it, or event by event, up to a limit.
            whole, is_whole = await _read(response, MAX_ANSWER_BYTES)
            too_long = f"gave an answer of more than {MAX_ANSWER_BYTES // 2**20} MiB"
            return whole if is_whole else _answer(request, faults.LOST, too_long)
        refusal, _ = await _read(response, _MAX_REFUSAL_BYTES)
        code = _code(refusal)
        return refusal if code is None else _answer(request, code, _refusal(refusal, self._secrets))


async def _read(response: httpx2.Response, most: int) -> tuple[httpx2.Response, bool]:
    """Return the response read up to so many bytes, and closed, and whether that is all of it."""
    content = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > most:
                break
    finally:
        await response.aclose()
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_TRANSFER]
    said = {name: value for name, value in response.extensions.items() if name == "reason_phrase"}
    begun = bytes(content[:most])
    status, request = response.status_code, response.request
    read = httpx2.Response(status, headers=headers, content=begun, request=request, extensions=said)
    return read, len(content) <= most


def _code(response: httpx2.Response) -> int | None:
    """Return what a refusal means; None where it carries a JSON-RPC error that says so itself."""
    status, error = response.status_code, _rpc_error(response)
    if status in (401, 403):
        asks = "resource_metadata" in response.headers.get("www-authenticate", "")
        return faults.OAUTH if asks and "authorization" not in response.request.headers else faults.DENIED
    if status == 429:
        return faults.BUSY
    if "mcp-session-id" in response.request.headers and (status == 404 or (status == 400 and _about_session(error))):
        return faults.SESSION_GONE
    if error is not None:
        return None
    return faults.REFUSED if status < 500 else faults.LOST


def _refusal(response: httpx2.Response, secrets: Secrets) -> str:
    """Return the status, the beginning of what a program or person wrote about it, and what it looks like."""
    status = response.status_code
    said = f"HTTP {status} {response.reason_phrase}".rstrip()
    kind = response.headers.get("content-type", "")
    reason = " ".join(secrets.redact(response.text).split()) if "json" in kind or kind.startswith("text/plain") else ""
    if reason not in ("", response.reason_phrase):
        said += f": {reason[:_LONGEST_REASON]}{'...' if len(reason) > _LONGEST_REASON else ''}"
    if status == 405 or (status in (400, 404) and response.request.url.path.rstrip("/").endswith("/sse")):
        said += "; this looks like the older SSE transport, which is not supported: give its streamable HTTP address"
    return said


def _about_session(error: dict[str, Any] | None) -> bool:
    # Servers on the TypeScript library answer 400 with "Bad Request: ... session ID ..." where the protocol wants 404.
    return error is not None and "session" in str(error.get("message", "")).lower()


def _rpc_error(response: httpx2.Response) -> dict[str, Any] | None:
    try:
        error = json.loads(response.content)["error"]
    except (ValueError, TypeError, KeyError):
        return None
    return error if isinstance(error, dict) and isinstance(error.get("code"), int) else None


def _answer(request: httpx2.Request, code: int, message: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(502, json=error, request=request)
