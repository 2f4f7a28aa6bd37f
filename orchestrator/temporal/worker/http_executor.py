"""Calls that are sent to an HTTP endpoint."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic_core import from_json

from orchestrator.common.endpoints import address, is_header_text
from orchestrator.common.fields import named
from orchestrator.common.redact import LogFilter, Secrets, setting_secrets, url_secrets
from orchestrator.errors import (
    InvalidConfig,
    OutcomeUnknown,
    ServerUnavailable,
    ToolFailed,
    ToolrouteError,
    Unauthorised,
)
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.temporal.worker.executor import Executor
from orchestrator.temporal.workflow.payload import as_result

_LOST = OutcomeUnknown, "a proxy lost the endpoint's answer"
_REFUSED = Unauthorised, "the endpoint refused the credential"
_STATUSES: dict[int, tuple[type[ToolrouteError], str]] = {
    429: (ServerUnavailable, "the endpoint is busy"),
    **dict.fromkeys((502, 503, 504), _LOST),
    **dict.fromkeys((401, 403), _REFUSED),
}
"""The meaning of an HTTP status for the call: was it sent, and can it be sent again?"""


class HttpExecutor(Executor):
    """Sends each call as JSON to one HTTP endpoint by POST: `{"tool": ..., "arguments": ..., "tenant": ...}`.

    The header `Idempotency-Key` contains the call's key. A JSON object or list in the reply becomes structured content.
    Headers and a secret in the URL enter no history and no log, even if the endpoint repeats them. The client opens on
    the first call and stays open as long as the executor.

    Args:
        url: The address of the endpoint, http:// or https://.
        headers: Headers for every request, for example an authorization.
        timeout_s: Seconds for one request.

    Raises:
        InvalidConfig: The URL or a header is malformed, or the timeout is not above 0.

    Examples:
        >>> from orchestrator import HttpExecutor, OrchestratorPlugin
        >>> billing = HttpExecutor("https://billing.example.com/call", headers={"Authorization": "Bearer ..."})
        >>> plugin = OrchestratorPlugin(catalogue="examples/tools.jsonl", executors={"stripe:*": billing})
    """

    @named
    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 60.0
    ) -> None:
        if not url.startswith(("http://", "https://")) or not urlsplit(url).netloc:
            raise InvalidConfig(
                f"url={url!r}: give an address that starts with http:// or https://"
            )
        if not timeout_s > 0:
            raise InvalidConfig(f"timeout_s={timeout_s!r}: give seconds above 0")
        self.url = url
        self.timeout_s = timeout_s
        self._headers = dict(headers or {})
        for name, value in self._headers.items():
            if not isinstance(value, str):
                raise InvalidConfig(f"headers[{name!r}] is a {type(value).__name__}: give a text")
            if not name.isascii() or not is_header_text(value):
                raise InvalidConfig(
                    f"headers[{name!r}]: give ASCII text without line breaks, and without blanks at its ends"
                )
        self.secrets = Secrets([*setting_secrets(self._headers), *url_secrets(url)])
        self._client: Any = None

    async def execute(self, call: ToolCall) -> ToolResult:
        """Send the call and return the reply."""
        body = {"tool": call.tool.key, "arguments": call.arguments, "tenant": call.tenant}
        return await self.request(call, "post", self.url, body={"json": body})

    async def request(
        self,
        call: ToolCall,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        """Send a request for a call, and return the reply.

        Args:
            call: The call.
            method: The HTTP method.
            url: The address.
            headers: Further headers.
            params: The parameters in the address.
            body: The body as an argument of httpx, such as `{"json": ...}`. None: no body.
        """
        import httpx2

        from orchestrator.common.bounded_http import AnswerTooLong, AsyncBoundedClient

        if self._client is None:
            self._client = AsyncBoundedClient(timeout=httpx2.Timeout(self.timeout_s, connect=5.0))
        key = quote(call.idempotency_key, safe=":/")  # A header is ASCII.
        sent = {**self._headers, **(headers or {}), "Idempotency-Key": key}
        try:
            with LogFilter(self.secrets):
                reply = await self._client.request(
                    method, url, headers=sent, params=list(params) or None, **(body or {})
                )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise ServerUnavailable(
                f"{call.tool.key}: {address(self.url)} cannot be reached ({error})"
            ) from error
        except AnswerTooLong as error:
            raise ToolFailed(
                f"{call.tool.key}: {address(self.url)} cannot be used: {error}"
            ) from error
        except httpx2.RequestError as error:
            raise OutcomeUnknown(
                f"{call.tool.key}: {address(self.url)} did not answer ({type(error).__name__})"
            ) from error
        return self._read(call.tool.key, reply)

    def _read(self, key: str, reply: Any) -> ToolResult:
        """Return the reply as a result. A 503 without Retry-After may come from a proxy that lost the answer."""
        status = reply.status_code
        text = self.secrets.redact(reply.text)
        meaning = 429 if status == 503 and "retry-after" in reply.headers else status
        if meaning in _STATUSES:
            kind, why = _STATUSES[meaning]
            raise kind(f"{key}: {why} (HTTP {status})")
        if not 200 <= status < 300:
            raise ToolFailed(f"{key}: HTTP {status}: {text[:500]}")
        try:
            return as_result(from_json(text))
        except ValueError:
            return ToolResult(text=text)

    async def aclose(self) -> None:
        """Close the client. A later call opens a new one."""
        client = self._client
        self._client = None
        if client is not None:
            await client.aclose()
