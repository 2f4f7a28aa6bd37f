"""Executors carry out calls, by the tool's kind: MCP servers, registered functions, HTTP endpoints.

A tool of kind `workflow` starts as a child workflow (`orchestrator.temporal.workflow.call`), unless a
function is registered for it.
"""

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from pydantic_core import from_json

from orchestrator import telemetry
from orchestrator.catalogue.export import check_arguments
from orchestrator.catalogue.tokens import compact, count_tokens, cut, plain_size
from orchestrator.common.endpoints import address
from orchestrator.common.fields import named
from orchestrator.common.json_input import nearly
from orchestrator.common.keys import key_of, split_key
from orchestrator.common.redact import LogFilter, Secrets, setting_secrets, url_secrets
from orchestrator.common.threads import Threads
from orchestrator.errors import (
    InvalidConfig,
    OutcomeUnknown,
    ServerUnavailable,
    ToolFailed,
    ToolrouteError,
    Unauthorised,
    Unavailable,
)
from orchestrator.mcp.calls import WHOLE, Confirm
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.plan import MAX_STEPS
from orchestrator.records.tool import Kind, Tool
from orchestrator.temporal.worker.turns import Turns
from orchestrator.temporal.workflow.call import is_child
from orchestrator.temporal.workflow.payload import (
    MAX_RESULT_BYTES,
    MAX_RESULTS_BYTES,
    as_result,
    hold_bytes,
)

if TYPE_CHECKING:
    from orchestrator.mcp.connections import Connections

MAX_THREADS = 200
"""The maximum number of functions that are not async and run at the same time, also after their call's deadline."""


class Executor(ABC):
    """Carries out calls of the tools for which it is registered.

    Examples:
        >>> from orchestrator import Executor, OrchestratorPlugin, ToolCall, ToolResult
        >>> class Echo(Executor):
        ...     async def execute(self, call: ToolCall) -> ToolResult:
        ...         return ToolResult(text=f"{call.tool.name}: {call.arguments}")
        >>> plugin = OrchestratorPlugin(catalogue="examples/tools.jsonl", executors={"stripe:*": Echo()})
    """

    @abstractmethod
    async def execute(self, call: ToolCall) -> ToolResult:
        """Call the tool and return its answer.

        Args:
            call: The call.

        Raises:
            ToolFailed: The tool reported an error.
            ServerUnavailable: The tool cannot be reached, and nothing was sent.
            OutcomeUnknown: The call was sent, and its answer was lost.
        """


Registered = Executor | Callable[..., Any]
"""An Executor, or a function, which may be async.

A function for a single tool gets the arguments by name. A function for a whole server or kind gets the ToolCall.
"""


Keep = Callable[[str, str], Awaitable[str]]
"""Stores a text for a tenant and returns its reference."""
KEPT_FROM = MAX_RESULTS_BYTES // MAX_STEPS
"""The number of characters from which a whole result is stored although it was not cut.

The end of a long run may cut it.
"""


class Executors:
    """Finds the executor of a call: by the tool's key, by `server:*`, by the kind, and last the MCP connections."""

    def __init__(
        self, registered: Mapping[str, Registered] | None = None, keep: Keep | None = None
    ) -> None:
        self._keep = keep
        self._threads = Threads(MAX_THREADS, "toolroute function")
        turns = Turns(MAX_THREADS)
        self._by_name = {
            name: _executor(name, executor, self._threads, turns)
            for name, executor in (registered or {}).items()
        }

    def close(self) -> None:
        """Let the threads end. Running functions are not awaited, and a later call starts new threads."""
        self._threads.close()

    async def execute(
        self,
        call: ToolCall,
        connections: "Connections | None" = None,
        confirm: Confirm | None = None,
    ) -> ToolResult:
        """Check the arguments, make the call and cut the result to the call's tokens.

        Args:
            call: The call.
            connections: The connections to MCP servers. None: this worker has no MCP servers.
            confirm: Is called with an MCP server's own definition before the call, and may raise.

        Raises:
            InvalidArguments: The arguments do not fit the tool's schema.
            InvalidConfig: No executor exists for the tool.
            ServerUnavailable: The deadline passed, and the call may be sent again.
            OutcomeUnknown: The deadline passed, and the call may not be sent again.
        """
        call = replace(
            call, arguments=await asyncio.to_thread(check_arguments, call.tool, call.arguments)
        )
        executor = self._of(call.tool)
        if executor is not None:
            kind = "function" if isinstance(executor, _FunctionExecutor) else "extension"
            with telemetry.calling(call.tool.key, kind) as seen:
                answer = await _in_time(call, executor)
                if answer.is_error:
                    seen["error.type"] = telemetry.TOOL_ERROR
        elif call.tool.kind.is_served and connections is not None:
            answer = await connections.call(
                call.tool,
                call.arguments,
                idempotency_key=call.idempotency_key or None,
                deadline_s=call.deadline_s,
                max_result_tokens=WHOLE,
                confirm=confirm,
            )
        else:
            raise InvalidConfig(
                f"no executor for {call.tool.key!r} of kind {call.tool.kind}: {_remedy(call.tool)}"
            )
        return await self._held(call, answer)

    async def present(self, call: ToolCall, connections: "Connections | None") -> Tool:
        """Return the call's tool as its server defines it now.

        If the server cannot answer, return the call's own definition.

        Raises:
            InvalidConfig: No executor exists for the tool.
            InvalidArguments: The arguments do not fit the tool's schema.
        """
        tool = call.tool
        if self._of(tool) is None and not is_child(tool):
            if not tool.kind.is_served or connections is None:
                raise InvalidConfig(
                    f"no executor for {tool.key!r} of kind {tool.kind}: {_remedy(tool)}"
                )
            # The server may be up once a person has answered.
            with suppress(Unavailable, Unauthorised):
                tool = await connections.present(tool, deadline_s=call.deadline_s)
        await asyncio.to_thread(check_arguments, tool, call.arguments)
        return tool

    def _of(self, tool: Tool) -> Executor | None:
        names = (tool.key, f"{tool.server}:*", str(tool.kind))
        return next((self._by_name[name] for name in names if name in self._by_name), None)

    async def _held(self, call: ToolCall, answer: ToolResult) -> ToolResult:
        """Return the result cut to the call's tokens, with a reference to the whole result if something may be cut."""
        held = hold(answer, call.max_result_tokens)
        if self._keep is None or not (held.truncated or len(held.text) > KEPT_FROM):
            return held
        is_text = answer.structured is None or held.text != answer.text
        try:
            content = answer.text if is_text else compact(answer.structured)
            reference = await self._keep(call.tenant, content)
        except OSError as error:
            warning = f"the whole result could not be kept: {error}"
            return replace(held, warnings=(*held.warnings, warning))
        return replace(held, whole=reference)


_LOST = OutcomeUnknown, "a proxy lost the endpoint's answer"
_REFUSED = Unauthorised, "the endpoint refused the credential"
_STATUSES: dict[int, tuple[type[ToolrouteError], str]] = {
    429: (ServerUnavailable, "the endpoint is busy"),
    **dict.fromkeys((502, 503, 504), _LOST),
    **dict.fromkeys((401, 403), _REFUSED),
}


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
            if not (name + value).isascii() or not value.isprintable() or value != value.strip():
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
        key = quote(call.idempotency_key, safe=":/")
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


class _FunctionExecutor(Executor):
    """Calls a function. Its errors are raised unchanged. A function that is not async occupies a thread."""

    def __init__(
        self, function: Callable[..., Any], whole_call: bool, threads: Threads, turns: Turns
    ) -> None:
        self._function = function
        self._whole_call = whole_call
        self._threads = threads
        self._turns = turns

    async def execute(self, call: ToolCall) -> ToolResult:
        try:
            return await self._called(call)
        except SystemExit as error:  # Otherwise it would end the worker's task without an answer.
            raise ToolFailed(
                f"{call.tool.key}: the function called sys.exit({error.code!r})"
            ) from error

    async def _called(self, call: ToolCall) -> ToolResult:
        run = self._bound(call)
        called = getattr(type(self._function), "__call__", None)  # noqa: B004  (of an object called like a function)
        if inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(called):
            return as_result(await run())
        return await self._in_thread(call, run)

    def _bound(self, call: ToolCall) -> Callable[[], Any]:
        """Return the function with its input: the whole call, or the arguments by name."""
        return (
            partial(self._function, call)
            if self._whole_call
            else partial(self._function, **call.arguments)
        )

    async def _in_thread(self, call: ToolCall, run: Callable[[], Any]) -> ToolResult:
        """Return the function's answer. The thread reads it too, because a generator computes while it is read.

        A function that returns a coroutine, such as a wrapper of an async function, is async as well.
        """

        def answer() -> ToolResult | Awaitable[Any]:
            returned = run()
            return returned if inspect.isawaitable(returned) else as_result(returned)

        give_back = self._turns.take(call.tenant)
        work = self._threads.begin(answer)
        work.add_done_callback(lambda _: give_back())
        returned = await asyncio.wrap_future(work)
        return returned if isinstance(returned, ToolResult) else as_result(await returned)


async def _in_time(call: ToolCall, executor: Executor) -> ToolResult:
    """Return the executor's answer.

    After the deadline, raise an error by which the caller knows if it may send it again.
    """
    limit = asyncio.timeout(call.deadline_s)
    try:
        async with limit:
            return await executor.execute(call)
    except TimeoutError:
        if not limit.expired():
            raise
    late = f"{call.tool.key}: no answer within {call.deadline_s:g} seconds, the limit of one call (call_timeout_s)"
    if call.replayable:
        raise ServerUnavailable(f"{late}; it may be called again")
    raise OutcomeUnknown(f"{late}; the call may have taken effect, so it was not sent again")


def hold(result: ToolResult, max_tokens: int) -> ToolResult:
    """Return the result cut to its tokens and to the size that a history may have. A cut result is marked."""
    text, is_cut = cut(result.text, max_tokens)
    structured = result.structured
    if structured is not None and not _fits(structured, max_tokens):
        structured = None
        is_cut = True
    truncated = is_cut or result.truncated
    held = hold_bytes(replace(result, text=text, structured=structured, truncated=truncated))
    return replace(held, tokens=count_tokens(held.text))


def _fits(structured: Any, max_tokens: int) -> bool:
    written = compact(structured)
    # A value that is too large for a history is not counted.
    return plain_size(written) <= MAX_RESULT_BYTES and count_tokens(written) <= max_tokens


def _executor(name: str, registered: Registered, threads: Threads, turns: Turns) -> Executor:
    is_kind = name in tuple(Kind)
    server, tool = split_key(name)
    is_key = bool(tool.strip()) and (tool == "*" or key_of(server, tool) == name)
    if not is_kind and (not is_key or nearly(name, Kind)):
        kinds = ", ".join(Kind)
        form = f"register it by its key, as `server:*` for a whole server, or by one of the kinds {kinds}"
        raise InvalidConfig(f"executor {name!r}: {form}")
    if isinstance(registered, Executor):
        return registered
    if not callable(registered):
        raise InvalidConfig(
            f"executor {name!r}: {registered!r} cannot be called; give a function or an Executor"
        )
    return _FunctionExecutor(registered, is_kind or tool == "*", threads, turns)


def _remedy(tool: Tool) -> str:
    if tool.kind.is_served:
        return f"name the server {tool.server!r} in the `mcpServers` config, or register a function for it"
    if tool.kind is Kind.WORKFLOW:
        return "call it inside a workflow, where it starts as a child workflow, or register a function for it"
    return f"register one: executors={{{tool.key!r}: function}}, {f'{tool.server}:*'!r} or {str(tool.kind)!r}"
