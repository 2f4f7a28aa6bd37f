"""OpenAI Agents SDK: a model that reads only the tools that fit, in each turn, and learns from the calls.

agent = Agent(name="Assistant", tools=[...], model=ToolRoutedModel("gpt-5.4"))
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from inspect import signature
from typing import Any

from orchestrator.common.fields import member, named
from orchestrator.integrations.durable import CatalogueTool, tools_of
from orchestrator.integrations.toolbox import (
    Exchange,
    OnDecision,
    Toolbox,
    Who,
    framework_tool,
    missing,
)
from orchestrator.records.call import Approve
from orchestrator.records.decision import Decision
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router
from orchestrator.temporal.workflow.tool_router import ToolRouter

try:
    from agents import FunctionTool, Model, ModelBehaviorError, ModelResponse, MultiProvider
    from agents.items import TResponseStreamEvent
except ImportError as error:
    raise missing("openai-agents", error) from error


class ToolRoutedModel(Model):
    """Offers the few of an agent's function tools that fit, once per turn. Tools of its MCP servers are included.

    With the last response of a turn, its calls are recorded as calls that worked, because the SDK turns failures into
    texts. Tools of the provider are always offered.

    Args:
        model: The model that answers, or its name.
        router: The Router that gives the settings, the embedder and the Experience. Default: a Router that learns only
            in this process.
        tenant: The tenant of the tasks, as a text or as a function of the ModelSettings. Default: `local`.
        actor: The person who asks, as a text or as a function of the ModelSettings.
        limit: The maximum number of tools that a turn may add.
        keep: The names of tools that are always offered.
        on_decision: Is called with each Decision.
        enforce: Whether a call of a tool that is not offered raises ModelBehaviorError, as an unknown tool does.
    """

    @named
    def __init__(
        self,
        model: Model | str,
        router: Router | None = None,
        *,
        tenant: Who = "",
        actor: Who = "",
        limit: int = 10,
        keep: Sequence[str] = (),
        on_decision: OnDecision | None = None,
        enforce: bool = False,
    ) -> None:
        self._model = MultiProvider().get_model(model) if isinstance(model, str) else model
        self._toolbox = Toolbox(
            router,
            tenant=tenant,
            actor=actor,
            limit=limit,
            keep=keep,
            on_decision=on_decision,
            enforce=enforce,
        )

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        arguments = _bound(args, options)
        routed_arguments = await self._chosen(arguments)
        response = await self._model.get_response(**routed_arguments)
        await self._ended(arguments, routed_arguments["tools"], response.output)
        return response

    async def stream_response(
        self, *args: Any, **options: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        arguments = _bound(args, options)
        routed_arguments = await self._chosen(arguments)
        async for event in self._model.stream_response(**routed_arguments):
            if event.type == "response.completed":
                await self._ended(arguments, routed_arguments["tools"], event.response.output)
            yield event

    def get_retry_advice(self, request: Any) -> Any:
        return self._model.get_retry_advice(request)

    async def close(self) -> None:
        await self._model.close()

    async def _chosen(self, arguments: dict[str, Any]) -> dict[str, Any]:
        agent_tools = list[FunctionTool]()
        provided = list[Any]()
        for tool in arguments["tools"]:
            if isinstance(tool, FunctionTool):
                agent_tools.append(tool)
            else:
                provided.append(tool)
        conversation = exchanges(arguments["input"])
        context = arguments["model_settings"]
        chosen_tools = await self._toolbox.choose(agent_tools, tool_of, conversation, context)
        return {**arguments, "tools": [*provided, *chosen_tools]}

    async def _ended(
        self, arguments: dict[str, Any], offered: Sequence[Any], output: Sequence[Any]
    ) -> None:
        called = {item.name for item in output if item.type == "function_call"}
        hidden = {tool.name for tool in arguments["tools"]} - {tool.name for tool in offered}
        wrong = sorted(called & hidden)
        if self._toolbox.enforce and wrong:
            raise ModelBehaviorError(
                f"the model called {', '.join(wrong)}, which was not offered for this task (enforce=True)"
            )
        # A response without calls is the last one of its turn.
        if not called:
            await self._toolbox.record(exchanges(arguments["input"]), arguments["model_settings"])


def _bound(args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model's call by their names."""
    arguments = signature(Model.get_response).bind(None, *args, **options).arguments
    del arguments["self"]
    return arguments


def catalogue_tools(
    router: ToolRouter, decision: Decision, *, approve: Approve | str = Approve.CHANGES
) -> list[FunctionTool]:
    """Return the tools of a Decision for an agent in a Temporal workflow. Each call is an activity with retries.

        decision = await router.route(task)
        agent = Agent(name="Desk", tools=catalogue_tools(router, decision))

    Args:
        router: The workflow's ToolRouter.
        decision: The Decision. The agent gets its matches, best first.
        approve: The policy for calls that wait for a person, with the SDK's own `needs_approval`. `changes`: all tools
            that are not known to only read. `destructive`: without tools that deny to destroy anything. `always`: all
            tools. `never`: no tool.

    Raises:
        InvalidInput: There is no such policy.
    """
    policy = member(Approve, "approve", approve)
    return [_function_tool(tool, policy) for tool in tools_of(router, decision)]


def _function_tool(tool: CatalogueTool, policy: Approve) -> FunctionTool:
    async def call(_: Any, arguments: str) -> str:
        return await tool.call(arguments)

    return FunctionTool(
        name=tool.name,
        description=tool.tool.description,
        params_json_schema=tool.schema,
        on_invoke_tool=call,
        strict_json_schema=False,
        needs_approval=tool.waits(policy),
    )


def tool_of(tool: FunctionTool) -> Tool:
    """Return the Tool of an Agents SDK function tool."""
    return framework_tool(tool.name, tool.description, tool.params_json_schema)


def exchanges(conversation: str | Sequence[Any]) -> list[Exchange]:
    """Return each text of the user with the calls after it."""
    if isinstance(conversation, str):
        return [Exchange(text=conversation)]
    exchanges: list[Exchange] = []
    item: Any
    for item in conversation:
        if item.get("role") == "user":
            exchanges.append(Exchange(text=_text(item["content"])))
        elif item.get("type") == "function_call" and exchanges:
            exchanges[-1] = exchanges[-1].with_call(item["name"], ok=True)
    return exchanges


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)
