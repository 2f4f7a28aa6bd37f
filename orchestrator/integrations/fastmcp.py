"""FastMCP: a search transform, so that a server's clients see two tools and find the others by what they want to do.

mcp = FastMCP("Server", transforms=[ToolRouterSearch()])
"""

import logging
import time
from collections.abc import Sequence
from functools import wraps
from typing import Annotated, Any

from orchestrator.integrations.toolbox import Exchange, Toolbox, missing, named, own_tool
from orchestrator.records.outcome import Use
from orchestrator.runtime.router import LOCAL
from orchestrator.server.outcome_recorder import Conversation, OutcomeRecorder

try:
    from fastmcp import Context
    from fastmcp.dependencies import CurrentContext
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.transforms.search.base import BaseSearchTransform
    from fastmcp.tools import Tool
except ImportError as error:
    raise missing("fastmcp", error) from error

logger = logging.getLogger(__name__)


class ToolRouterSearch(BaseSearchTransform):
    """Shows clients `search_tools` and `call_tool` in place of all tools; calls that follow a search are remembered.

    `toolbox` is where tenant, actor and Router are said; its functions get the Context. The other settings are
    FastMCP's own. Calls are recorded half a minute after the last one, and by `aclose`.
    """

    def __init__(self, toolbox: Toolbox | None = None, *, max_results: int = 5, **settings: Any) -> None:
        super().__init__(max_results=max_results, **settings)
        self._toolbox = toolbox or Toolbox(limit=max_results)
        self._outcomes = OutcomeRecorder(self._toolbox.over(()), logger.warning)

    async def aclose(self) -> None:
        """Record what is left."""
        await self._outcomes.close()

    def _make_search_tool(self) -> Tool:
        async def search_tools(
            query: Annotated[str, "What you want to do, in a sentence"],
            ctx: Context = CurrentContext(),  # noqa: B008  (FastMCP's own way)
        ) -> str | list[dict[str, Any]]:
            """Find tools by what they do; call them with call_tool."""
            found: str | list[dict[str, Any]]
            found = await self._render_results(await self._search(await self._get_visible_tools(ctx), query))
            return found

        return Tool.from_function(fn=search_tools, name=self._search_tool_name)

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        context, own = get_context(), {tool.name: tool for tool in tools}
        mine = [own_tool(tool.name, tool.description, tool.parameters) for tool in tools]
        decision = await self._toolbox.decide(mine, [Exchange(text=query)], named(self._toolbox.tenant, context))
        if decision is None:
            return list(tools)[: self._max_results]
        found = [match.tool for match in decision.matches if decision.recommended][: self._max_results]
        keys = {tool.key for tool in found}
        self._outcomes.searched(decision, keys, self._who(context), self._toolbox.over(mine))
        return [own[tool.name] for tool in found]

    def _who(self, context: Context) -> Conversation:
        tenant, actor = named(self._toolbox.tenant, context) or LOCAL, named(self._toolbox.actor, context)
        return Conversation(tenant, actor, "")  # FastMCP's own `session_id` is another one for each request.

    def _make_call_tool(self) -> Tool:
        proxy: Any = super()._make_call_tool()

        @wraps(proxy.fn)
        async def call_tool(name: str, *given: Any, **more: Any) -> Any:
            begin, ok, key = time.monotonic(), False, own_tool(name, "", None).key
            with self._outcomes.call(self._who(get_context()), key) as used:
                try:
                    result = await proxy.fn(name, *given, **more)
                    ok = not getattr(result, "is_error", False)
                    return result
                finally:
                    used(Use(tool=key, ok=ok, ms=(time.monotonic() - begin) * 1_000))

        return Tool.from_function(fn=call_tool, name=self._call_tool_name)
