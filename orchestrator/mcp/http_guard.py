"""An HTTP client for MCP that says what became of a request.

The MCP library ends the whole connection when one request cannot be delivered, and hides the status of a refusal.
Here such a request gets a JSON-RPC error with one of these codes, and the others go on.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

# Outside the range that JSON-RPC and MCP use, so no server's own code is mistaken for one.
UNSENT = -31_001
"""The server was not reached."""
LOST = -31_002
"""The request was sent; no usable answer came."""
SESSION_GONE = -31_003
"""The server does not know the session any more; it did not run the request."""
DENIED = -31_004
"""The server refused the credentials."""
REFUSED = -31_005
"""The server refused the request otherwise; it did not run it."""
BUSY = -31_006
"""The server takes no more requests for now (HTTP 429); it did not run this one."""
OAUTH = -31_007
"""The server was given no credentials, and tells where OAuth would give some."""

REMEDIES = {
    DENIED: "check its headers",
    OAUTH: "it wants OAuth, which is not supported: give it a token in its headers",
}
"""What to do about refused credentials."""

MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""The longest answer that is read, be it a document or an event."""
_MAX_REFUSAL_BYTES = 1024 * 1024
_LONGEST_REASON = 200


def guarded_client(
    streams: Callable[[], None], scrub: Callable[[str], str], headers: Mapping[str, str], **options: Any
) -> "httpx2.AsyncClient":
    """An AsyncClient (options as there) whose POSTs always end in a response, and in none that fills the memory.

    `streams` is called when the server has answered a GET: its own messages arrive from then on, if it has any. `scrub`
    takes the secrets out of what a refusal says.
    """
    import httpx2

    class Guarded(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **given: Any) -> httpx2.Response:
            if request.method != "POST":
                response = await super().send(request, **given)
                streams()
                return response
            try:
                response = await super().send(request, **given)
            except (
                httpx2.ConnectError,
                httpx2.ConnectTimeout,
                httpx2.PoolTimeout,
                httpx2.UnsupportedProtocol,
            ) as error:
                place = f"{request.url.scheme}://{request.url.netloc.decode()}"
                return _answer(request, UNSENT, f"{place} cannot be reached ({str(error) or type(error).__name__})")
            except httpx2.TransportError as error:
                return _answer(request, LOST, f"gave no answer: {str(error) or type(error).__name__}")
            if response.status_code < 400:
                kind = response.headers.get("content-type", "").lower()
                if response.status_code == 202 or not kind.startswith("application/json"):
                    return response  # The library reads nothing of it, or event by event, up to a limit.
                whole = await _read(response, MAX_ANSWER_BYTES)
                too_long = f"gave an answer of more than {MAX_ANSWER_BYTES // 2**20} MiB"
                return _answer(request, LOST, too_long) if whole is None else whole
            refusal = await _read(response, _MAX_REFUSAL_BYTES, cut=True) or response
            code = _code(refusal)
            return refusal if code is None else _answer(request, code, _refusal(refusal, scrub))

    # A compressed answer of some kilobytes may be one of gigabytes.
    return Guarded(headers={"accept-encoding": "identity", **headers}, **options)


async def _read(response: "httpx2.Response", most: int, *, cut: bool = False) -> "httpx2.Response | None":
    """The response read, and closed; of more bytes than that the beginning, or None."""
    import httpx2

    content = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > most:
                break
    except httpx2.RequestError as error:
        return _answer(response.request, LOST, f"gave no answer: {str(error) or type(error).__name__}")
    finally:
        await response.aclose()
    if len(content) > most and not cut:
        return None
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_TRANSFER]
    said = {name: value for name, value in response.extensions.items() if name == "reason_phrase"}
    return httpx2.Response(
        response.status_code,
        headers=headers,
        content=bytes(content[:most]),
        request=response.request,
        extensions=said,
    )


_OF_THE_TRANSFER = frozenset(("content-encoding", "content-length", "transfer-encoding"))


def _code(response: "httpx2.Response") -> int | None:
    """What a refusal means; None where it carries a JSON-RPC error that says so itself."""
    status, error = response.status_code, _rpc_error(response)
    if status in (401, 403):
        told = response.headers.get("www-authenticate", "")
        asks = "resource_metadata" in told and "authorization" not in response.request.headers
        return OAUTH if asks else DENIED
    if status == 429:
        return BUSY
    if "mcp-session-id" in response.request.headers and (status == 404 or (status == 400 and _about_session(error))):
        return SESSION_GONE
    if error is not None:
        return None
    return REFUSED if status < 500 else LOST


def _refusal(response: "httpx2.Response", scrub: Callable[[str], str]) -> str:
    """The status, the beginning of what a program or person wrote about it, and what it looks like."""
    status = response.status_code
    said = f"HTTP {status} {response.reason_phrase}".rstrip()
    kind = response.headers.get("content-type", "")
    reason = " ".join(scrub(response.text).split()) if "json" in kind or kind.startswith("text/plain") else ""
    if reason not in ("", response.reason_phrase):
        said += f": {reason[:_LONGEST_REASON]}{'...' if len(reason) > _LONGEST_REASON else ''}"
    if status == 405 or (status in (400, 404) and response.request.url.path.rstrip("/").endswith("/sse")):
        said += "; this looks like the older SSE transport, which is not supported: give its streamable HTTP address"
    return said


def _about_session(error: dict[str, Any] | None) -> bool:
    # Servers on the TypeScript library answer 400 with "Bad Request: ... session ID ..." where the protocol wants 404.
    return error is not None and "session" in str(error.get("message", "")).lower()


def _rpc_error(response: "httpx2.Response") -> dict[str, Any] | None:
    try:
        error = json.loads(response.content)["error"]
    except (ValueError, TypeError, KeyError):
        return None
    return error if isinstance(error, dict) and isinstance(error.get("code"), int) else None


def _answer(request: "httpx2.Request", code: int, message: str) -> "httpx2.Response":
    import httpx2

    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(502, json=error, request=request)
