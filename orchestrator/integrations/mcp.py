"""MCP clients: a session with the tools of many servers that fit a task, instead of a session with one server.

async with RoutedSession("what time is it in Oslo?", router, connections) as session:
    tools = (await session.list_tools()).tools
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from orchestrator.catalogue.export import exported_name, offered_schema
from orchestrator.catalogue.resolve import resolve
from orchestrator.common.fields import named
from orchestrator.errors import ToolrouteError
from orchestrator.integrations.toolbox import OnDecision, missing, report
from orchestrator.mcp.calls import Call
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.results import as_mcp_result
from orchestrator.records.delta import Delta
from orchestrator.records.outcome import Use
from orchestrator.records.request import RouteRequest, Turn
from orchestrator.runtime.router import Router

try:
    from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool
except ImportError as error:
    raise missing("mcp", error) from error

logger = logging.getLogger(__name__)
_TURNS = 10
"""The earlier turns that a later session knows. Routing reads the last ones only."""


class RoutedSession:
    """Lists and calls the tools that fit a task, and connects their servers. At the end, its calls are recorded.

    If a call fails, or its tool is not listed, the result has `is_error`.

    Args:
        task: The task in words.
        router: Routes the task among its tools.
        connections: Calls the tools.
        tenant: The tenant of the task. Default: `local`.
        actor: The person who asks.
        limit: The maximum number of tools that the task may add.
        keep: The keys of tools that are always listed.
        filters: Conditions that every tool must meet: `kind`, `server`, `name` or a label, each with its value.
        on_decision: Is called with the Decision.
        after: The session of the turn before. Its tools come first, unchanged.
    """

    @named
    def __init__(
        self,
        task: str,
        router: Router,
        connections: Connections,
        *,
        tenant: str = "",
        actor: str = "",
        limit: int = 10,
        keep: Sequence[str] = (),
        filters: Mapping[str, str] | None = None,
        on_decision: OnDecision | None = None,
        after: "RoutedSession | None" = None,
    ) -> None:
        self._request = RouteRequest(
            query=task, tenant=tenant, limit=limit, filters=dict(filters or {}), actor=actor
        )
        self._router = router
        self._connections = connections
        self._actor = actor
        self._keep = keep
        self._on_decision = on_decision
        self._seen: Delta = after.delta if after else Delta()
        self.turns: tuple[Turn, ...] = after.turns if after else ()
        self._used = list[Use]()

    async def __aenter__(self) -> Self:
        self.decision = await self._router.route(self._request, conversation=self.turns)
        report(self._on_decision, self.decision)
        if self._keep:
            catalogue = await self._router.engine.catalogue(self.decision.tenant)
            self._seen = Delta.between(
                [*self._seen.offered, *(catalogue[key] for key in self._keep)], ()
            )
        # A tool without a connection could be read about and never called.
        servers = self._connections.config.servers
        matched = [match.tool for match in self.decision.matches if match.tool.server in servers]
        self.delta: Delta = Delta.between(
            self._seen.offered, matched, adds=bool(self.decision.recommended)
        )
        self._connections.warm(self.decision.servers)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.turns = (*self.turns, self.decision.turn(*(use.tool for use in self._used)))[-_TURNS:]
        try:
            if self._used:
                await self._router.record(self.decision, used=self._used, actor=self._actor)
        # Raised here, it would hide an error of the caller's own block.
        except ToolrouteError as error:
            logger.warning("the outcome of the task was not recorded: %s", error)

    async def list_tools(self, **_: Any) -> ListToolsResult:
        """Return the tools, with names that models accept."""
        tools = list[Tool]()
        for tool in self.delta.offered:
            name = exported_name(tool)
            schema = offered_schema(tool)
            tools.append(Tool(name=name, description=tool.description, input_schema=schema))
        return ListToolsResult(tools=tools)

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, **_: Any
    ) -> CallToolResult:
        """Call a listed tool on its server."""
        begin = time.monotonic()
        try:
            call = resolve(self.delta.current, {"name": name, "arguments": arguments or {}})
            result = as_mcp_result(
                await self._connections.exchange(Call.of(call.tool, call.arguments))
            )
        except ToolrouteError as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)
        took = (time.monotonic() - begin) * 1_000
        self._used.append(Use(tool=call.tool.key, ok=not result.is_error, ms=took))
        return result
