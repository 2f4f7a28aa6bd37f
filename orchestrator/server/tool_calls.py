"""The tool `call_tool` of the gateway: one call from the check of its arguments to the record of its use."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from mcp import MCPError
from mcp.server.subscriptions import ToolsListChanged
from mcp.types import URL_ELICITATION_REQUIRED

from orchestrator.catalogue.resolve import check_arguments
from orchestrator.common.threads import Threads
from orchestrator.errors import (
    InvalidArguments,
    OutcomeUnknown,
    StoreUnavailable,
    ToolrouteError,
)
from orchestrator.mcp.calls import Call, OnProgress
from orchestrator.mcp.config.profiles import texts
from orchestrator.mcp.results import Answered, as_mcp_result
from orchestrator.mcp.server_requests import ASKER
from orchestrator.records.durable_names import IDEMPOTENCY_KEY
from orchestrator.records.outcome import Use
from orchestrator.records.tool import Tool
from orchestrator.server.apps import interface
from orchestrator.server.audit_trail import AuditTrail
from orchestrator.server.sessions.client_profile import current
from orchestrator.server.sessions.kept_results import KeptResults
from orchestrator.server.sessions.outcome_recorder import Conversation, OutcomeRecorder
from orchestrator.server.tenant_servers import TenantServers
from orchestrator.server.uris import with_shown_links, with_shown_ui
from orchestrator.telemetry import TOOL_ERROR
from orchestrator.trust.approval_rules import ASKED
from orchestrator.trust.audit import Entry, arguments_digest
from orchestrator.trust.definition_changes import is_quarantined
from orchestrator.trust.server_texts import definition_for_model, error_for_model

if TYPE_CHECKING:
    from mcp.types import CallToolResult

_CUTTING_THREADS = 2
"""The answers that are cut at the same time, for all tenants. More would take the processor from the event loop."""
Allow = Callable[[Tool, Mapping[str, Any]], Awaitable[str]]
"""Returns the reason why the tool may be called with these arguments. Raises an error if it may not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """A client's request to call a tool.

    Attributes:
        key: The tool's key.
        arguments: The arguments.
        meta: The `_meta` of the client's request.
        allow: Asks for approval, and raises if the call is not allowed.
        on_progress: Receives the server's progress. None: the client does not want to know it.
    """

    key: str
    arguments: Mapping[str, Any]
    meta: Mapping[str, Any]
    allow: Allow
    on_progress: OnProgress | None


@dataclass(frozen=True, slots=True)
class _CheckedCall:
    """The tool of a call, the definition that its client was shown, and the checked arguments."""

    tool: Tool
    definition: Tool
    arguments: dict[str, Any]


class ToolCalls:
    """Calls tools of a tenant's servers.

    Args:
        results: Keeps the results that are cut.
        outcomes: Learns which tools are called after a search.
        audit: Gets a line for each call.
    """

    def __init__(self, results: KeptResults, outcomes: OutcomeRecorder, audit: AuditTrail) -> None:
        self._results = results
        self._outcomes = outcomes
        self._audit = audit
        self._cutting = WeakValueDictionary[str, asyncio.Lock]()
        # Not asyncio's threads: a store that does not answer may hold all of these.
        self._threads = Threads(_CUTTING_THREADS, "toolroute results")
        self._stopping = False

    def stop(self) -> None:
        """Record no failure from now on: the connections are closed, and no tool is to blame."""
        self._stopping = True

    def close(self) -> None:
        """Let the threads end."""
        self._threads.close()

    async def call(
        self, servers: TenantServers, who: Conversation, request: CallRequest
    ) -> "CallToolResult":
        """Call a tool of the tenant's present catalogue after its approval.

        Args:
            servers: The tenant's servers.
            who: The client's conversation.
            request: The key, the arguments and the callbacks of the call.

        Returns:
            The tool's result, cut to the maximum size of a result. An error of the tool is a result, too.

        Raises:
            UnknownTool: The tenant has no such tool.
            InvalidArguments: The arguments do not fit. `allow` and the connection may raise further errors.
        """
        entry = Entry(
            event="call",
            tenant=who.tenant,
            actor=who.actor,
            arguments=arguments_digest(request.arguments),
        )
        try:
            checked = await _checked_call(servers, request)
        except ToolrouteError as error:
            self._note_refused(entry, request.key, error)
            raise
        entry = replace(
            entry,
            server=checked.tool.server,
            tool=checked.tool.key,
            arguments=arguments_digest(checked.arguments),
            decision=self._outcomes.search_of(who, checked.tool.key),
        )
        with (
            self._outcomes.call(who, checked.tool.key) as record_use,
            self._audit.request(entry) as fields,
        ):
            tool, fields["approval"] = await _approved(servers, checked, request.allow)
            checked = replace(checked, tool=tool)
            # Read before the call, so that its answer waits for no store.
            ui = await _interface(servers, checked.tool)
            began = time.perf_counter()
            try:
                answer = await _send(servers, request, checked, fields, self._results.max_tokens)
            except OutcomeUnknown:
                if not self._stopping:
                    record_use(Use(tool=checked.tool.key, ok=False))
                raise
            fields["result"] = TOOL_ERROR  # Unless it is an answer.
            _raise_if_links(answer)
            result = await self._shown_result(servers, who, checked.tool.server, answer, ui)
            ms = (time.perf_counter() - began) * 1000
            record_use(Use(tool=checked.tool.key, ok=not result.is_error, ms=ms))
            fields["result"] = TOOL_ERROR if result.is_error else "ok"
            fields["bytes"] = _size(result)
        return result

    def _note_refused(self, entry: Entry, key: str, error: ToolrouteError) -> None:
        """Note in the audit log that a call was refused before anybody was asked."""
        # A name that is no tool's name may be any text, so it is not written down.
        tool = key if isinstance(error, InvalidArguments) else ""
        self._audit.note(
            replace(entry, tool=tool, approval="not asked", result=type(error).__name__)
        )

    async def _shown_result(
        self,
        servers: TenantServers,
        who: Conversation,
        server: str,
        answer: Answered,
        ui: dict[str, Any] | None,
    ) -> "CallToolResult":
        """Return a server's result as the client sees it. The part that is cut off is kept."""
        had_kept_results = self._results.has_any(who.client)
        keep = partial(self._results.keep, who.client)
        # In a thread, one at a time for a tenant: a large answer takes 10 ms, and others are served meanwhile.
        async with self._cutting.setdefault(who.tenant, asyncio.Lock()):
            result = await self._threads.run(as_mcp_result, answer, keep)
        if self._results.has_any(who.client) and not had_kept_results:
            await servers.tell(ToolsListChanged())  # `read_result` is there from now on.
        result.content = [with_shown_links(server, block) for block in result.content]
        meta = with_shown_ui(server, result.meta or {})
        result.meta = {"ui": ui, **meta} if ui else meta or None
        return result


async def _interface(servers: TenantServers, tool: Tool) -> Any:
    """Return the interface of a tool, or None if the store cannot be read: the call works without it."""
    try:
        offers = await servers.offers([tool.server])
    except StoreUnavailable:
        return None
    return interface(tool, offers[tool.server])


async def _checked_call(servers: TenantServers, request: CallRequest) -> _CheckedCall:
    """Return the tool of a call with its checked arguments."""
    profile = current()
    tool = await servers.tool(request.key)
    profile.check(tool, request.arguments)
    if is_quarantined(tool):
        tool = await servers.listed_now(tool)
    definition = servers.shown_definitions.get(tool.key, tool)
    if definition.hash != tool.hash:  # The connection says what has changed.
        return _CheckedCall(tool, definition, dict(request.arguments))
    # In a thread, because a stranger's schema may take seconds, and others are served meanwhile.
    arguments = await asyncio.to_thread(check_arguments, profile.shown(tool), request.arguments)
    return _CheckedCall(tool, definition, arguments)


async def _approved(
    servers: TenantServers, checked: _CheckedCall, allow: Allow
) -> tuple[Tool, str]:
    """Return the tool as its server defines it after its person has answered, and the last approval.

    The definition may have changed, without a notification, while the person thought. Then the person is asked about
    the new one.
    """
    tool = checked.tool
    approval = await allow(tool, checked.arguments)
    while approval in ASKED:
        live = await servers.listed_now(tool)
        if live.hash == tool.hash:
            break
        tool = live
        approval = await allow(tool, checked.arguments)
    return tool, approval


async def _send(
    servers: TenantServers,
    request: CallRequest,
    checked: _CheckedCall,
    fields: dict[str, Any],
    max_tokens: int,
) -> Answered:
    """Send the call to its server. A definition that has changed since the approval is approved again."""

    async def confirm(live: Tool) -> None:
        changed = await servers.differing(checked.tool, live)
        if changed is not None:
            fields["approval"] = await request.allow(changed, checked.arguments)

    fixed = current().fixed(checked.tool)
    idempotency_key = request.meta.get(IDEMPOTENCY_KEY)
    call = Call.of(
        checked.definition,
        {**checked.arguments, **fixed},
        idempotency_key=str(idempotency_key) if idempotency_key else None,
        meta=request.meta,
        max_tokens=max_tokens,
        confirm=confirm,
        on_progress=request.on_progress,
    )
    if not fixed:
        return await servers.pool.exchange(call)
    # The client must not read these values, wherever a server quotes them.
    fixed_texts = list(texts(fixed))
    asker = ASKER.get()
    if asker is not None:
        asker.fixed.add(fixed_texts)
    answer = await servers.pool.exchange(call)
    return replace(answer, secrets=answer.secrets.also(fixed_texts))


def _raise_if_links(answer: Answered) -> None:
    """Pass on the error that names the links a user has to visit first: clients show these."""
    error = answer.result
    if isinstance(error, MCPError) and error.code == URL_ELICITATION_REQUIRED:
        secrets = answer.secrets
        message = error_for_model(secrets.redact(error.message))
        data = definition_for_model(secrets.redact_json(error.data))
        raise MCPError(error.code, message, data)


def _size(result: "CallToolResult") -> int:
    """Return the bytes of an answer's texts and files."""
    return sum(len(getattr(block, "text", getattr(block, "data", ""))) for block in result.content)
