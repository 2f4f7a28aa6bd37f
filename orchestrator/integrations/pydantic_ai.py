"""pydantic-ai: a capability that gives the model the tools that fit, and learns from the calls.

    agent = Agent("openai:gpt-5.4", tools=[...], toolsets=[...], capabilities=[ToolRouting()])

In a Temporal workflow it takes a ToolRouter. The worker's OrchestratorPlugin then has the `catalogue_of` the toolsets.
"""

from collections.abc import Sequence
from copy import copy
from itertools import chain
from typing import Any

from pydantic_core import SchemaValidator, core_schema

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.fields import member, named
from orchestrator.common.tenant import LOCAL
from orchestrator.integrations.durable import CatalogueTool, tools_of
from orchestrator.integrations.toolbox import (
    Exchange,
    OnDecision,
    Toolbox,
    Who,
    framework_tool,
    missing,
    report,
)
from orchestrator.records.call import Approve
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router
from orchestrator.temporal.workflow.tool_router import ToolRouter

try:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        ModelMessage,
        RetryPromptPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool
except ImportError as error:
    raise missing("pydantic-ai", error) from error


_PARTS_OF_CALLS = (ToolCallPart, ToolReturnPart, RetryPromptPart)


class ToolRouting(AbstractCapability[Any]):
    """Offers the few of an agent's own tools that fit, once per turn. At the end of a run, its calls are recorded.

    Args:
        router: The Router that gives the settings, the embedder and the Experience. Default: a Router that learns only
            in this process. In a workflow: a ToolRouter.
        tenant: The tenant of the tasks, as a text or as a function of the RunContext (its `deps` are yours).
            Default: `local`.
        actor: The person who asks, as a text or as a function of the RunContext.
        limit: The maximum number of tools that a turn may add.
        keep: The names of tools that are always offered.
        on_decision: Is called with each Decision.
        enforce: Has no effect, because pydantic-ai itself refuses calls of tools that are not offered.
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
            router,
            tenant=tenant,
            actor=actor,
            limit=limit,
            keep=keep,
            on_decision=on_decision,
            enforce=enforce,
        )

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """Return a copy for this run. In a workflow, a replay must not see the state of later turns."""
        if not isinstance(self._toolbox.router, ToolRouter):
            return self
        run = copy(self)
        vars(run).update(_toolbox=self._toolbox.alone())
        return run

    async def prepare_tools(
        self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]
    ) -> list[ToolDefinition]:
        conversation = exchanges(ctx.messages)
        return await self._toolbox.choose(
            tool_defs, tool_of, conversation, ctx, name=ctx.run_id or ""
        )

    async def after_run(
        self, ctx: RunContext[Any], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        await self._toolbox.record(exchanges(result.all_messages()), ctx, name=ctx.run_id or "")
        return result


class CatalogueToolset(AbstractToolset[Any]):
    """Gives an agent in a Temporal workflow the catalogue's tools that fit each task. Each call is an activity.

        agent = Agent(model, name="desk", toolsets=[CatalogueToolset(ToolRouter("org:acme"))], capabilities=[...])

    Args:
        router: Routes and calls in the workflow.
        limit: The maximum number of tools that a task may add.
        approve: The policy for calls that wait for a person, with pydantic-ai's own deferred tools. `changes`: all
            tools that are not known to only read. `destructive`: without tools that deny to destroy anything.
            `always`: all tools. `never`: no tool.
        on_decision: Is called with each Decision.

    Raises:
        InvalidInput: There is no such policy.
    """

    @named
    def __init__(
        self,
        router: ToolRouter,
        *,
        limit: int = 10,
        approve: Approve | str = Approve.CHANGES,
        on_decision: OnDecision | None = None,
    ) -> None:
        self._router = router
        RouteRequest(query="any", tenant=LOCAL, limit=limit).validate()
        self._limit = limit
        self._on_decision = on_decision
        self._policy = member(Approve, "approve", approve)
        self._text = ""
        self._tools = dict[str, CatalogueTool]()

    @property
    def id(self) -> str:
        return "toolroute"

    async def for_run(self, ctx: RunContext[Any]) -> "CatalogueToolset":
        """Return a copy for this run. In a workflow, a replay must not see the state of later turns."""
        run = copy(self)
        vars(run).update(_text="", _tools={})
        return run

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        conversation = exchanges(ctx.messages)
        text = conversation[-1].text if conversation else ""
        if text.strip() and text != self._text:
            await self._route(conversation)
        return {name: self._toolset_tool(tool) for name, tool in self._tools.items()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> str:
        return await self._tools[name].call(tool_args)

    async def _route(self, exchanges: Sequence[Exchange]) -> None:
        """Route the latest text. Tools for earlier texts of this run stay."""
        *earlier, latest = exchanges[-10:]
        self._text = latest.text
        request = RouteRequest(query=self._text, tenant=self._router.tenant, limit=self._limit)
        conversation = [exchange.as_turn({}) for exchange in earlier]
        decision = await self._router.route(request, conversation=conversation)
        report(self._on_decision, decision)
        for tool in tools_of(self._router, decision):
            self._tools[tool.name] = tool

    def _toolset_tool(self, tool: CatalogueTool) -> ToolsetTool[Any]:
        return ToolsetTool(
            toolset=self,
            tool_def=ToolDefinition(
                name=tool.name,
                description=tool.tool.description,
                parameters_json_schema=tool.schema,
                kind="unapproved" if tool.waits(self._policy) else "function",
            ),
            max_retries=1,
            args_validator=_ANY_OBJECT,
        )


_ANY_OBJECT = SchemaValidator(
    core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema())
)
"""Accepts any object. toolroute checks the arguments against the tool's own schema, and its message answers the call.
"""


def catalogue_of(*toolsets: FunctionToolset[Any]) -> Catalogue:
    """Return the Catalogue of function toolsets, for the OrchestratorPlugin of a worker."""
    return Catalogue(
        tool_of(tool.tool_def) for toolset in toolsets for tool in toolset.tools.values()
    )


def tool_of(tool: ToolDefinition) -> Tool:
    """Return the Tool of a pydantic-ai tool definition."""
    return framework_tool(tool.name, tool.description, tool.parameters_json_schema)


def exchanges(messages: Sequence[ModelMessage]) -> list[Exchange]:
    """Return each text of the user with the calls after it."""
    exchanges: list[Exchange] = []
    parts = chain.from_iterable(message.parts for message in messages)
    for part in parts:
        if isinstance(part, UserPromptPart):
            exchanges.append(Exchange(text=_text(part)))
        elif isinstance(part, _PARTS_OF_CALLS) and part.tool_name and exchanges:
            ok = isinstance(part, ToolReturnPart) and part.outcome == "success"
            exchanges[-1] = exchanges[-1].with_call(part.tool_name, ok=ok)
    return exchanges


def _text(prompt: UserPromptPart) -> str:
    if isinstance(prompt.content, str):
        return prompt.content
    return "\n".join(part for part in prompt.content if isinstance(part, str))
