"""MCP clients: what a session with one server has, over those tools of many that fit a task.

async with RoutedSession("what time is it in Oslo?", router, connections) as session:
    tools = (await session.list_tools()).tools
"""

import logging
import time
from typing import Any, Self

from orchestrator.catalogue.export import exported_name, parameters, resolve
from orchestrator.errors import ToolrouteError
from orchestrator.integrations.toolbox import missing
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


class RoutedSession:
    """Lists and calls the tools that fit a task, whose servers begin to connect; its calls are recorded at its end.

    Takes the settings of a RouteRequest by name (`tenant=`, `limit=`), and `after=`, the session of the turn before:
    its tools come first, unchanged. A call that fails is a result with `is_error`.
    """

    def __init__(
        self, task: str, router: Router, connections: Connections, *, actor: str = "", **settings: Any
    ) -> None:
        after: RoutedSession | None = settings.pop("after", None)
        self._request, self._router, self._connections = RouteRequest(query=task, **settings), router, connections
        self._seen: Delta = after.delta if after else Delta()
        self.turns: tuple[Turn, ...] = after.turns if after else ()
        self._actor, self._used = actor, list[Use]()

    async def __aenter__(self) -> Self:
        self.decision = await self._router.route(self._request, conversation=self.turns)
        known = self._connections.config.servers
        found = [match.tool for match in self.decision.matches if match.tool.server in known]
        self.delta: Delta = Delta.between(self._seen.offered, found, adds=bool(self.decision.recommended))
        self._connections.warm(self.decision.servers)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.turns = (*self.turns, self.decision.turn(*(use.tool for use in self._used)))[-_TURNS:]
        try:
            if self._used:
                await self._router.record(self.decision, used=self._used, actor=self._actor)
        except ToolrouteError as error:
            logger.warning("what the task used is not remembered: %s", error)

    async def list_tools(self, **_: Any) -> ListToolsResult:
        """Return the tools, by names that models take."""
        listed = [(exported_name(tool), tool.description, parameters(tool)) for tool in self.delta.offered]
        return ListToolsResult(
            tools=[Tool(name=name, description=text, input_schema=form) for name, text, form in listed]
        )

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **_: Any) -> CallToolResult:
        """Call a listed tool on its server."""
        begin = time.monotonic()
        try:
            call = resolve(self.delta.current, {"name": name, "arguments": arguments or {}})
            result = as_mcp_result(await self._connections.exchange(Call.of(call.tool, call.arguments)))
        except ToolrouteError as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)
        took = (time.monotonic() - begin) * 1_000
        self._used.append(Use(tool=call.tool.key, ok=not result.is_error, ms=took))
        return result
