"""The executor of each call is found by the tool: a registered one, or the MCP connections.

A tool of kind `workflow` starts as a child workflow (`orchestrator.temporal.workflow.call`), unless a
function is registered for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator import telemetry
from orchestrator.catalogue.resolve import check_arguments
from orchestrator.catalogue.tokens import compact, count_tokens, cut, plain_size
from orchestrator.common.json_input import nearly
from orchestrator.common.keys import key_of, split_key
from orchestrator.common.threads import Threads
from orchestrator.errors import (
    InvalidConfig,
    OutcomeUnknown,
    ServerUnavailable,
    Unauthorised,
    Unavailable,
)
from orchestrator.mcp.calls import UNLIMITED, Confirm
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.plan import MAX_STEPS
from orchestrator.records.tool import Kind, Tool
from orchestrator.temporal.worker.executor import Executor, Registered
from orchestrator.temporal.worker.function_executor import FunctionExecutor
from orchestrator.temporal.worker.turns import Turns
from orchestrator.temporal.workflow.call import is_child
from orchestrator.temporal.workflow.payload import (
    MAX_RESULT_BYTES,
    MAX_RESULTS_BYTES,
    hold_bytes,
)

if TYPE_CHECKING:
    from orchestrator.mcp.connections import Connections

MAX_THREADS = 200
"""The maximum number of functions that are not async and run at the same time, also after their call's deadline."""


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
        # In a thread, because a foreign schema may take a quarter of a second.
        arguments = await asyncio.to_thread(check_arguments, call.tool, call.arguments)
        call = replace(call, arguments=arguments)
        executor = self._of(call.tool)
        if executor is not None:
            kind = "function" if isinstance(executor, FunctionExecutor) else "extension"
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
                max_result_tokens=UNLIMITED,
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
        limited = hold(answer, call.max_result_tokens)
        if self._keep is None or not (limited.truncated or len(limited.text) > KEPT_FROM):
            return limited
        is_text = answer.structured is None or limited.text != answer.text
        try:
            content = answer.text if is_text else compact(answer.structured)
            reference = await self._keep(call.tenant, content)
        except OSError as error:
            warning = f"the whole result could not be kept: {error}"
            return replace(limited, warnings=(*limited.warnings, warning))
        return replace(limited, whole=reference)


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
    limited = hold_bytes(replace(result, text=text, structured=structured, truncated=truncated))
    return replace(limited, tokens=count_tokens(limited.text))


def _fits(structured: Any, max_tokens: int) -> bool:
    json_text = compact(structured)
    # A value that is too large for a history is not counted.
    return plain_size(json_text) <= MAX_RESULT_BYTES and count_tokens(json_text) <= max_tokens


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
    return FunctionExecutor(registered, is_kind or tool == "*", threads, turns)


def _remedy(tool: Tool) -> str:
    if tool.kind.is_served:
        return f"name the server {tool.server!r} in the `mcpServers` config, or register a function for it"
    if tool.kind is Kind.WORKFLOW:
        return "call it inside a workflow, where it starts as a child workflow, or register a function for it"
    return f"register one: executors={{{tool.key!r}: function}}, {f'{tool.server}:*'!r} or {str(tool.kind)!r}"
