"""Who carries out a call, by the tool's kind: MCP servers, registered callables, HTTP endpoints.

Workflow tools are child workflows and start inside the workflow (`orchestrator.temporal.call`); one that was registered
here as a callable runs here. Arguments are checked against the tool's schema before anything is called.
"""

import asyncio
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from orchestrator.catalogue.export import check_arguments
from orchestrator.catalogue.tokens import compact, count_tokens, cut, plain_size
from orchestrator.errors import (
    InvalidConfig,
    OutcomeUnknown,
    ServerUnavailable,
    ToolFailed,
    ToolrouteError,
    Unauthorised,
)
from orchestrator.index.endpoints import address
from orchestrator.index.threads import Threads
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.redact import LogFilter, Secrets
from orchestrator.records.secrets import header_secrets, header_values, secrets_in
from orchestrator.records.tool import Kind, Tool
from orchestrator.temporal.held import MAX_RESULT_BYTES, as_result, hold_bytes

T = TypeVar("T")

MAX_THREADS = 100
"""Functions that are not async and run at a time; Temporal runs as many activities of a worker."""


class Executor(ABC):
    """Carries out calls of any tool that it is registered for."""

    @abstractmethod
    async def execute(self, call: ToolCall) -> ToolResult:
        """The tool's answer; raises ToolFailed, ServerUnavailable (nothing was sent) or OutcomeUnknown."""


class Caller(Protocol):
    """What the executors need of `orchestrator.mcp.connections.Connections`."""

    async def call(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        *,
        idempotency_key: str | None = None,
        deadline_s: float | None = None,
        max_result_tokens: int | None = None,
    ) -> ToolResult: ...


Registered = Executor | Callable[..., Any]
"""An Executor, or a function, sync or async. One registered for a single tool gets the arguments by name; one for a
whole server or kind gets the ToolCall."""


class Executors:
    """Finds the executor of a call: by `server:name`, then `server:*`, then the kind, then the MCP connections.

    Functions that are not async run in threads of its own, so many at a time as Temporal runs activities of a worker.
    """

    def __init__(self, registered: Mapping[str, Registered] | None = None) -> None:
        self._threads = Threads(MAX_THREADS, "toolroute function")
        self._by_name = {name: _executor(name, given, self._threads) for name, given in (registered or {}).items()}

    def close(self) -> None:
        """Lets the threads end, waiting for no function; a later call starts others."""
        self._threads.close()

    async def execute(self, call: ToolCall, connections: Caller | None = None) -> ToolResult:
        """Checks the arguments, calls (MCP servers by these connections), and holds the result to the call's tokens.

        Raises InvalidArguments, InvalidConfig (no executor, with the remedy) and what the executor raises; where the
        call's deadline passes, OutcomeUnknown, or ServerUnavailable for what may be called again.
        """
        checked = replace(call, arguments=check_arguments(call.tool, call.arguments))
        executor = self._find(call.tool, connections)
        return hold(await executor.execute(checked), call.max_result_tokens)

    def _find(self, tool: Tool, connections: Caller | None) -> Executor:
        for name in (tool.key, f"{tool.server}:*", str(tool.kind)):
            if name in self._by_name:
                return self._by_name[name]
        if tool.kind is Kind.MCP and connections is not None:
            return _McpExecutor(connections)
        raise InvalidConfig(f"no executor for {tool.key!r} of kind {tool.kind}: {_remedy(tool)}")


class HttpExecutor(Executor):
    """Posts a call as JSON (`{"tool", "arguments", "tenant"}`) to one endpoint.

    The header `Idempotency-Key` carries the call's key. A JSON object or list in the reply becomes structured content.
    Headers stay in this process: they enter no history and no log, nor does a secret of the URL, even where the
    endpoint repeats it. The client opens on the first call and lives with the executor.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 60.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidConfig(f"url={url!r}: give one that starts with http:// or https://")
        self.url, self.timeout_s = url, timeout_s
        self._headers = dict(headers or {})
        for name, value in self._headers.items():
            if not (name + value).isascii() or not value.isprintable() or value != value.strip():
                raise InvalidConfig(f"headers[{name!r}] holds a line break, a blank at an end or a letter beyond ASCII")
        known = [part for name, value in self._headers.items() for part in header_secrets(name, value)]
        self._secrets = Secrets(header_values(self._headers), strong=[*known, *secrets_in(url)])
        self._client: Any = None

    async def execute(self, call: ToolCall) -> ToolResult:
        import httpx2

        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=httpx2.Timeout(self.timeout_s, connect=5.0))
        body = {"tool": call.tool.key, "arguments": call.arguments, "tenant": call.tenant}
        headers = {**self._headers, "Idempotency-Key": _as_header(call.idempotency_key)}
        try:
            with LogFilter(self._secrets):
                reply = await self._client.post(self.url, json=body, headers=headers)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise ServerUnavailable(f"{call.tool.key}: {address(self.url)} cannot be reached ({error})") from error
        except httpx2.TransportError as error:
            told = f"no answer from {address(self.url)} ({type(error).__name__})"
            raise OutcomeUnknown(f"{call.tool.key}: {told}") from error
        asked_to_wait = "retry-after" in reply.headers
        text = self._secrets.scrub_result(reply.text)
        return _read_reply(call.tool.key, reply.status_code, text, asked_to_wait=asked_to_wait)

    async def aclose(self) -> None:
        """Closes the client."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


class _McpExecutor(Executor):
    """Calls an MCP server through the connections."""

    def __init__(self, connections: Caller) -> None:
        self._connections = connections

    async def execute(self, call: ToolCall) -> ToolResult:
        return await self._connections.call(
            call.tool,
            call.arguments,
            idempotency_key=call.idempotency_key or None,
            deadline_s=call.deadline_s,
            max_result_tokens=call.max_result_tokens,
        )


class _TimedExecutor(Executor):
    """Holds an Executor of the user's to the call's deadline. MCP connections keep it themselves: they know more."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def execute(self, call: ToolCall) -> ToolResult:
        return await _in_time(call, self._executor.execute(call))


class _FunctionExecutor(Executor):
    """Calls a function; one that is not async runs in a thread."""

    def __init__(self, function: Callable[..., Any], whole_call: bool, threads: Threads) -> None:
        self._function, self._whole_call, self._threads = function, whole_call, threads

    async def execute(self, call: ToolCall) -> ToolResult:
        try:
            answer = await self._answer(call)
        except ToolrouteError:
            raise
        except Exception as error:
            raise ToolFailed(f"{call.tool.key}: {type(error).__name__}: {error}") from error
        return as_result(answer if isinstance(answer, ToolResult) else _plain(answer))

    async def _answer(self, call: ToolCall) -> Any:
        positional, named = ((call,), {}) if self._whole_call else ((), call.arguments)
        if inspect.iscoroutinefunction(self._function):
            return await _in_time(call, self._function(*positional, **named))
        work = self._threads.begin(_whole, self._function, *positional, **named)
        return await _in_time(call, _finished(work), began=lambda: not work.cancel())


async def _in_time(call: ToolCall, work: Awaitable[T], *, began: Callable[[], bool] = lambda: True) -> T:
    """What the work gives within the call's deadline; else the error that says whether it may be called again."""
    limit = asyncio.timeout(call.deadline_s)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise  # The tool's own.
    time = f"the time of one call: give more as call_timeout_s (it had {call.deadline_s:g} s)"
    told = f"{call.tool.key}: no answer within {time}"
    if not began():
        raise ServerUnavailable(f"{told}; it was not begun, as {MAX_THREADS} functions that came before have not ended")
    if call.replayable:
        raise ServerUnavailable(f"{told}; it may be called again")
    raise OutcomeUnknown(f"{told}; whether it took effect is not known, so it was not called again")


def _whole(function: Callable[..., Any], /, *positional: Any, **named: Any) -> Any:
    """The function's answer, all of it where it comes bit by bit."""
    answer = function(*positional, **named)
    return list(answer) if isinstance(answer, Iterator) else answer


async def _finished(work: Future[Any]) -> Any:
    """What a thread's work gives, also where that is still to be awaited."""
    answer = await asyncio.wrap_future(work)
    if isinstance(answer, AsyncIterable):
        return [part async for part in answer]
    return await answer if isinstance(answer, Awaitable) else answer


def _plain(answer: Any) -> Any:
    """A function's answer as JSON has it: records as objects, times as ISO texts, bytes in base64."""
    from pydantic_core import to_jsonable_python

    try:
        return to_jsonable_python(answer, bytes_mode="base64", fallback=str)
    except ValueError:  # Deeper than that reads, or in a circle.
        return answer


def hold(result: ToolResult, max_tokens: int) -> ToolResult:
    """The result within its tokens and within what a history may hold; what is cut is marked."""
    text, truncated = cut(result.text, max_tokens)
    structured = result.structured
    if structured is not None and _is_beyond(compact(structured), max_tokens):
        structured, truncated = None, True
    held = hold_bytes(
        replace(result, text=text, structured=structured, truncated=truncated or result.truncated, tokens=0)
    )
    return replace(held, tokens=count_tokens(held.text))


def _is_beyond(written: str, max_tokens: int) -> bool:
    """Whether it takes more; what no history holds is not counted first."""
    return plain_size(written) > MAX_RESULT_BYTES or count_tokens(written) > max_tokens


def _executor(name: str, given: Registered, threads: Threads) -> Executor:
    server, colon, tool = name.partition(":")
    if not (colon and server and tool) and name not in tuple(Kind):
        kinds = ", ".join(Kind)
        raise InvalidConfig(f"executor {name!r}: register it as `server:name`, `server:*` or one of the kinds {kinds}")
    if isinstance(given, Executor):
        return _TimedExecutor(given)
    if not callable(given):
        raise InvalidConfig(f"executor {name!r} is {given!r}: give a function or an Executor")
    return _FunctionExecutor(given, not colon or tool == "*", threads)


def _remedy(tool: Tool) -> str:
    if tool.kind is Kind.MCP:
        return f"name the server {tool.server!r} in the `mcpServers` config, or register a function for it"
    if tool.kind is Kind.WORKFLOW:
        return "call it inside a workflow, where it starts as a child workflow, or register a function for it"
    return f"register one: executors={{{tool.key!r}: function}}, {f'{tool.server}:*'!r} or {str(tool.kind)!r}"


def _as_header(key: str) -> str:
    """The key as a header can carry it: a workflow's id, and so its calls' keys, may hold any letter."""
    return key if key.isascii() and key.isprintable() else quote(key, safe=":/")


def _read_reply(key: str, status: int, text: str, *, asked_to_wait: bool) -> ToolResult:
    """A 503 says that nothing was done only with a Retry-After: gateways give a bare one for an answer they lost."""
    if status in (401, 403):
        raise Unauthorised(f"{key}: the endpoint refused the credential (HTTP {status})")
    if status == 429 or (status == 503 and asked_to_wait):
        raise ServerUnavailable(f"{key}: the endpoint is busy (HTTP {status})")
    if status in (502, 503, 504):
        raise OutcomeUnknown(f"{key}: a gateway lost the endpoint's answer (HTTP {status})")
    if 300 <= status < 400:
        raise InvalidConfig(f"{key}: the endpoint is elsewhere (HTTP {status}): give the address that it names")
    if status >= 400:
        raise ToolFailed(f"{key}: HTTP {status}: {text[:500]}")
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return ToolResult(text=text)
    return as_result(value) if isinstance(value, (dict, list, str)) else ToolResult(text=text)
