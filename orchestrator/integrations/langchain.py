"""LangChain and LangGraph: a middleware that gives the model the tools that fit, and learns from the calls.

agent = create_agent(model, tools=tools, middleware=[ToolRouterMiddleware()])
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from orchestrator.common.fields import named
from orchestrator.common.threads import now
from orchestrator.integrations.toolbox import (
    Exchange,
    OnDecision,
    Toolbox,
    Who,
    framework_tool,
    missing,
)
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
    from langchain_core.tools import BaseTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Command
except ImportError as error:
    raise missing("langchain", error) from error


class ToolRouterMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Offers the few of an agent's own tools that fit, once per turn. At the end of a turn, its calls are recorded.

    Tools of the provider, given as dicts, are always offered. It works with runs, streams, and without async.

    Args:
        router: The Router that gives the settings, the embedder and the Experience. Default: a Router that learns only
            in this process.
        tenant: The tenant of the tasks, as a text or as a function of the Runtime (its `context` is yours).
            Default: `local`.
        actor: The person who asks, as a text or as a function of the Runtime.
        limit: The maximum number of tools that a turn may add.
        keep: The names of tools that are always offered.
        on_decision: Is called with each Decision.
        enforce: Whether a call of a tool that is not offered is refused.
    """

    @named
    def __init__(
        self,
        router: Router | None = None,
        *,
        tenant: Who = "",
        actor: Who = "",
        limit: int = 10,
        keep: Sequence[str] = (),
        on_decision: OnDecision | None = None,
        enforce: bool = False,
    ) -> None:
        super().__init__()
        self._toolbox = Toolbox(
            router,
            tenant=tenant,
            actor=actor,
            limit=limit,
            keep=keep,
            on_decision=on_decision,
            enforce=enforce,
        )

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        return await handler(await self._chosen(request))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(now(self._chosen(request)))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        return self._refused(request) or await handler(request)

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        return self._refused(request) or handler(request)

    def _refused(self, request: ToolCallRequest) -> ToolMessage | None:
        call = request.tool_call
        messages = request.state["messages"]
        reason = self._toolbox.refusal(
            call["name"], exchanges(messages), request.runtime, name=_turn(messages)
        )
        if not reason:
            return None
        return ToolMessage(reason, name=call["name"], tool_call_id=call["id"], status="error")

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        await self._toolbox.record(
            exchanges(state["messages"]), runtime, name=_turn(state["messages"])
        )

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        now(self.aafter_agent(state, runtime))

    async def _chosen(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        agent_tools = [tool for tool in request.tools if isinstance(tool, BaseTool)]
        # The provider runs these tools itself. They have no description that could be routed.
        provided = [tool for tool in request.tools if not isinstance(tool, BaseTool)]
        conversation = exchanges(request.messages)
        name = _turn(request.messages)
        chosen = await self._toolbox.choose(
            agent_tools, tool_of, conversation, request.runtime, name=name
        )
        return request.override(tools=[*provided, *chosen])


def tool_of(tool: BaseTool) -> Tool:
    """Return the Tool of a LangChain tool, with the schema that a model reads."""
    function = convert_to_openai_tool(tool)["function"]
    return framework_tool(tool.name, function.get("description"), function.get("parameters"))


def exchanges(messages: Sequence[AnyMessage]) -> list[Exchange]:
    """Return each text of the user with the calls after it."""
    results = [message for message in messages if isinstance(message, ToolMessage)]
    worked = {result.tool_call_id for result in results if result.status != "error"}
    exchanges: list[Exchange] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            exchanges.append(Exchange(text=str(message.text)))
        elif isinstance(message, AIMessage) and exchanges:
            for call in message.tool_calls:
                exchanges[-1] = exchanges[-1].with_call(call["name"], ok=call["id"] in worked)
    return exchanges


def _turn(messages: Sequence[AnyMessage]) -> str:
    """Return the id of the user's last message."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return message.id or ""
    return ""
