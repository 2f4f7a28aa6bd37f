"""pydantic-ai: a capability that gives the model the tools that fit, and learns from the calls.

    agent = Agent("openai:gpt-5.4", tools=[...], toolsets=[...], capabilities=[ToolRouting()])

In a Temporal workflow it takes a ToolRouter, and the worker's OrchestratorPlugin has the `catalogue_of` the toolsets.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.fields import named
from orchestrator.integrations.toolbox import Exchange, OnDecision, Toolbox, Who, missing, own_tool
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router
from orchestrator.temporal.workflow import ToolRouter

try:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage, RetryPromptPart, ToolCallPart, ToolReturnPart, UserPromptPart
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as error:
    raise missing("pydantic-ai", error) from error


class ToolRouting(AbstractCapability[Any]):
    """Offers an agent's own tools as a Toolbox chooses them, once a turn; what a run called is recorded at its end.

    The parameters are a Toolbox's (docs/integrations.md); functions for `tenant` and `actor` get the RunContext (its
    `deps` are yours). pydantic-ai itself refuses calls of tools that are not offered, so `enforce` changes nothing.
    """

    @named
    def __init__(
        self,
        router: Router | ToolRouter | None = None,
        *,
        tenant: Who = "",
        actor: Who = "",
        limit: int = 10,
        keep: Sequence[str] = (),
        on_decision: OnDecision | None = None,
        enforce: bool = False,
    ) -> None:
        self._toolbox = Toolbox(
            router, tenant=tenant, actor=actor, limit=limit, keep=keep, on_decision=on_decision, enforce=enforce
        )

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """Return one for this run: a workflow that is replayed must not know of what it has not done yet."""
        if not isinstance(self._toolbox.router, ToolRouter):
            return self
        run = copy(self)
        vars(run).update(_toolbox=self._toolbox.alone())
        return run

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        said, name = exchanges(ctx.messages), ctx.run_id or ""
        return await self._toolbox.choose(tool_defs, tool_of, said, ctx, name=name)

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        await self._toolbox.record(exchanges(result.all_messages()), ctx, name=ctx.run_id or "")
        return result


def catalogue_of(*toolsets: FunctionToolset[Any]) -> Catalogue:
    """Return the Catalogue of toolsets of functions, for the OrchestratorPlugin of a worker."""
    return Catalogue(tool_of(tool.tool_def) for toolset in toolsets for tool in toolset.tools.values())


def tool_of(tool: ToolDefinition) -> Tool:
    """Return the Tool of a pydantic-ai tool's definition."""
    return own_tool(tool.name, tool.description, tool.parameters_json_schema)


def exchanges(messages: Sequence[ModelMessage]) -> list[Exchange]:
    """Return each text of the user with the calls that came after it."""
    found: list[Exchange] = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, UserPromptPart):
            parts = [part.content] if isinstance(part.content, str) else part.content
            found.append(Exchange(text="\n".join(text for text in parts if isinstance(text, str))))
        elif found and isinstance(part, ToolCallPart | ToolReturnPart | RetryPromptPart) and part.tool_name:
            ok = isinstance(part, ToolReturnPart) and part.outcome == "success"
            found[-1] = replace(found[-1], calls={**found[-1].calls, part.tool_name: ok})
    return found
