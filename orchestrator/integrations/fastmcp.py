"""FastMCP: a search transform. A server's clients see two tools, and find the others by a description of their task.

mcp = FastMCP("Server", transforms=[ToolRouterSearch()])
"""

import logging
import time
from collections import deque
from collections.abc import Sequence
from functools import wraps
from typing import Annotated, Any

from orchestrator.common.fields import named
from orchestrator.common.recent import Recent
from orchestrator.common.tenant import LOCAL
from orchestrator.integrations.toolbox import (
    Exchange,
    OnDecision,
    Toolbox,
    Who,
    framework_tool,
    missing,
    who_is,
)
from orchestrator.records.outcome import Use
from orchestrator.runtime.router import Router
from orchestrator.server.sessions.outcome_recorder import Conversation, OutcomeRecorder

try:
    from fastmcp import Context
    from fastmcp.dependencies import CurrentContext
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.transforms import GetToolNext
    from fastmcp.server.transforms.search.base import BaseSearchTransform, SearchResultSerializer
    from fastmcp.tools import Tool
    from fastmcp.utilities.versions import VersionSpec
except ImportError as error:
    raise missing("fastmcp", error) from error

logger = logging.getLogger(__name__)
_CLIENTS = 1_000
"""The number of clients whose searches are kept. Those that searched longest ago are dropped first."""
_SEARCHES = 20
"""The number of latest searches that are kept of a client."""


class ToolRouterSearch(BaseSearchTransform):
    """Shows clients `search_tools` and `call_tool` instead of all tools. Calls after a search are recorded.

    Calls are recorded half a minute after the last one, and by `aclose`.

    Args:
        router: The Router that gives the settings, the embedder and the Experience. Default: a Router that learns only
            in this process.
        tenant: The tenant of the tasks, as a text or as a function of the Context. Default: `local`.
        actor: The person who asks, as a text or as a function of the Context.
        limit: The number of tools that a search finds.
        keep: The names of tools that stay listed next to the two (`always_visible` in FastMCP's own transforms).
        on_decision: Is called with each Decision.
        enforce: Whether a client can call only tools that its latest searches have found, and the tools in `keep`.
            Clients of one tenant are distinguished by `actor`.
        search_tool_name: As in FastMCP's own transforms.
        call_tool_name: As in FastMCP's own transforms.
        search_result_serializer: As in FastMCP's own transforms.
    """

    @named
    def __init__(
        self,
        router: Router | None = None,
        *,
        tenant: Who = "",
        actor: Who = "",
        limit: int = 5,
        keep: Sequence[str] = (),
        on_decision: OnDecision | None = None,
        enforce: bool = False,
        search_tool_name: str = "search_tools",
        call_tool_name: str = "call_tool",
        search_result_serializer: SearchResultSerializer | None = None,
    ) -> None:
        self._toolbox = Toolbox(
            router,
            tenant=tenant,
            actor=actor,
            limit=limit,
            keep=keep,
            on_decision=on_decision,
            enforce=enforce,
        )
        super().__init__(
            max_results=limit,
            always_visible=[*keep],
            search_tool_name=search_tool_name,
            call_tool_name=call_tool_name,
            search_result_serializer=search_result_serializer,
        )
        self._outcomes = OutcomeRecorder(self._toolbox.over(()), logger.warning)
        self._searches = Recent[Conversation, deque[set[str]]](_CLIENTS)
        """The names of the tools that each of a client's latest searches has found."""

    async def aclose(self) -> None:
        """Record the remaining calls."""
        await self._outcomes.close()

    async def transform_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        self._toolbox.check_kept([tool.name for tool in tools])
        return await super().transform_tools(tools)

    async def get_tool(
        self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None
    ) -> Tool | None:
        if self._toolbox.enforce and not self._may_call(name):
            return None
        return await super().get_tool(name, call_next, version=version)

    def _may_call(self, name: str) -> bool:
        """Return True if the client's latest searches have found the tool, or if it is always listed."""
        if name in (self._search_tool_name, self._call_tool_name, *self._toolbox.keep):
            return True
        searches = self._searches.get(self._who(get_context()), ())
        return any(name in names for names in searches)

    def _make_search_tool(self) -> Tool:
        async def search_tools(
            query: Annotated[str, "What you want to do, in a sentence"],
            ctx: Context = CurrentContext(),  # noqa: B008  (FastMCP's own way)
        ) -> str | list[dict[str, Any]]:
            """Find tools by what they do; call them with call_tool."""
            visible = await self._get_visible_tools(ctx)
            results: str | list[dict[str, Any]]
            results = await self._render_results(await self._search(visible, query))
            return results

        return Tool.from_function(fn=search_tools, name=self._search_tool_name)

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        client = self._who(get_context())
        catalogue = [framework_tool(tool.name, tool.description, tool.parameters) for tool in tools]
        decision = await self._toolbox.decide(
            catalogue, [Exchange(text=query)], client.tenant, client.actor
        )
        if decision is None:
            results = list(tools)[: self._max_results]
        else:
            matches = decision.matches if decision.recommended else ()
            keys = [match.tool.key for match in matches[: self._max_results]]
            router = self._toolbox.over(catalogue)
            self._outcomes.searched(decision, keys, client, router)
            by_key = {entry.key: tool for entry, tool in zip(catalogue, tools, strict=True)}
            results = [by_key[key] for key in keys]
        if self._toolbox.enforce:
            searches = self._searches.get(client, deque[set[str]](maxlen=_SEARCHES))
            searches.append({tool.name for tool in results})
            self._searches[client] = searches
        return results

    def _who(self, context: Context) -> Conversation:
        # As routing reads an empty tenant.
        tenant = who_is(self._toolbox.tenant, context) or LOCAL
        actor = who_is(self._toolbox.actor, context)
        # FastMCP's own `session_id` is another one for each request.
        return Conversation(tenant, actor, "")

    def _make_call_tool(self) -> Tool:
        proxy: Any = super()._make_call_tool()

        @wraps(proxy.fn)
        async def call_tool(name: str, *args: Any, **options: Any) -> Any:
            started = time.monotonic()
            key = framework_tool(name, "", None).key
            ok = False
            with self._outcomes.call(self._who(get_context()), key) as used:
                try:
                    result = await proxy.fn(name, *args, **options)
                    ok = not getattr(result, "is_error", False)
                    return result
                finally:
                    # Also for a call that raised: a failure is a result that later searches learn from.
                    ms = (time.monotonic() - started) * 1_000
                    used(Use(tool=key, ok=ok, ms=ms))

        return Tool.from_function(fn=call_tool, name=self._call_tool_name)
