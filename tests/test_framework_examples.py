"""Each framework's own first examples with one line of ours: contexts, memory, structured answers, handoffs.

LangChain's quickstart, pydantic-ai's bank support, the Agents SDK's triage, FastMCP's quickstart.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from agents import Agent as OpenAIAgent, Runner, function_tool
from fastmcp import Client, FastMCP
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain.chat_models import init_chat_model
from langchain.tools import ToolRuntime, tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext

from examples.functions import FUNCTIONS, book_room, current_weather
from orchestrator.integrations.fastmcp import ToolRouterSearch
from orchestrator.integrations.langchain import ToolRouterMiddleware
from orchestrator.integrations.openai_agents import ToolRoutedModel
from orchestrator.integrations.pydantic_ai import ToolRouting
from orchestrator.testing import ScriptedModel, ToolCalls

pytestmark = pytest.mark.usefixtures("default_model")


@dataclass
class Context:
    user_id: str


@dataclass
class Forecast:
    answer: str
    sunny: bool | None = None


@langchain_tool
def get_weather_for_location(city: str) -> str:
    """Get weather for a given city."""
    return f"sun over {city}"


@langchain_tool
def get_user_location(runtime: ToolRuntime[Context]) -> str:
    """Retrieve the location of the user."""
    return "Florida" if runtime.context.user_id == "1" else "Paris"


def test_langchain_context_memory_and_structured_answer(model: ScriptedModel) -> None:
    agent: Any = create_agent(
        model=init_chat_model("openai:scripted", temperature=0),
        system_prompt="You forecast the weather.",
        tools=[get_user_location, get_weather_for_location, *FUNCTIONS],
        context_schema=Context,
        response_format=ToolStrategy(Forecast),
        checkpointer=InMemorySaver(),
        middleware=[ToolRouterMiddleware(limit=2)],
    )
    model.replies = [
        ToolCalls([("get_user_location", {})]),
        ToolCalls([("get_weather_for_location", {"city": "Florida"})]),
        ToolCalls([("Forecast", {"answer": "Sunny.", "sunny": True})]),
        ToolCalls([("Forecast", {"answer": "You are welcome."})]),
    ]
    config, context = {"configurable": {"thread_id": "1"}}, Context(user_id="1")
    asked = {"messages": [{"role": "user", "content": "what is the weather at the location where I am?"}]}
    first = agent.invoke(asked, config=config, context=context)
    thanks = {"messages": [{"role": "user", "content": "thank you!"}]}
    second = agent.invoke(thanks, config=config, context=context)
    assert (first["structured_response"], second["structured_response"].answer) == (
        *(Forecast(answer="Sunny.", sunny=True), "You are welcome."),
    )
    assert "sun over Florida" in model.asked[-1].text
    for request in model.asked:
        assert set(request.tools) == {"get_user_location", "get_weather_for_location", "Forecast"}


@dataclass
class Bank:
    customer: int
    balances: dict[int, float]


class Support(BaseModel):
    advice: str
    block_card: bool
    risk: int


def bank_support() -> Agent[Bank, Support]:
    agent = Agent(
        "openai:scripted",
        deps_type=Bank,
        output_type=Support,
        instructions="You support the customers of a bank.",
        tools=FUNCTIONS,
        capabilities=[ToolRouting(limit=1)],
    )

    @agent.instructions
    async def customer(ctx: RunContext[Bank]) -> str:
        return f"The customer's number is {ctx.deps.customer}"

    @agent.tool
    async def customer_balance(ctx: RunContext[Bank]) -> str:
        """Returns the customer's current account balance."""
        return f"${ctx.deps.balances[ctx.deps.customer]:.2f}"

    return agent


def without_a_loop(agent: Agent[Bank, Support], task: str, deps: Bank) -> Support:
    """Return the result of `run_sync` in a thread without an event loop, and close the loop that it makes."""

    def run() -> Support:
        asyncio.set_event_loop(loop := asyncio.new_event_loop())
        try:
            return agent.run_sync(task, deps=deps).output
        finally:
            loop.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result(60)


def test_pydantic_ai_dependencies_instructions_and_structured_output(model: ScriptedModel) -> None:
    answer = {"advice": "It is $12.00.", "block_card": False, "risk": 1}
    model.replies = [ToolCalls([("customer_balance", {})]), ToolCalls([("final_result", answer)])]
    output = without_a_loop(bank_support(), "What is my account balance?", Bank(customer=7, balances={7: 12.0}))
    assert output == Support.model_validate(answer)
    assert [sorted(request.tools) for request in model.asked] == [["customer_balance", "final_result"]] * 2
    assert "$12.00" in model.asked[1].text
    assert "The customer's number is 7" in model.asked[0].text


async def test_openai_agents_triage_hands_over_with_structured_output(model: ScriptedModel) -> None:
    routed: Any = ToolRoutedModel("scripted", limit=1)
    tools = [function_tool(function) for function in FUNCTIONS]
    spanish = OpenAIAgent(name="Spanish agent", instructions="You only speak Spanish.", model=routed, tools=[*tools])
    english = OpenAIAgent(
        name="English agent", instructions="You only speak English", model=routed, output_type=Forecast
    )
    triage = OpenAIAgent(
        name="Triage agent",
        instructions="Hand over to the agent for the language.",
        handoffs=[spanish, english],
        model=routed,
    )
    model.replies = [
        ToolCalls([("transfer_to_spanish_agent", {})]),
        ToolCalls([("current_weather", {"city": "Oslo"})]),
        "Hace frío.",
    ]
    result = await Runner.run(triage, input="¿Qué tiempo hace? What is the weather in Oslo?")
    assert (result.final_output, result.last_agent.name) == ("Hace frío.", "Spanish agent")
    assert [request.tools for request in model.asked] == [
        ["transfer_to_spanish_agent", "transfer_to_english_agent"],
        *[["current_weather"]] * 2,
    ]


async def test_fastmcp_server_with_resource_and_prompt(model: ScriptedModel) -> None:
    server = FastMCP("Demo", transforms=[ToolRouterSearch(limit=2)])

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers"""
        return a + b

    server.tool(current_weather)
    server.tool(book_room)

    @server.resource("greeting://{name}")
    def greeting(name: str) -> str:
        """A greeting for a person."""
        return f"Hello, {name}!"

    @server.prompt
    def greet(name: str) -> str:
        """Ask for a greeting."""
        return f"Greet {name}."

    async with Client(server) as client:
        assert {tool.name for tool in await client.list_tools()} == {"search_tools", "call_tool"}
        found = await client.call_tool("search_tools", {"query": "add two numbers"})
        assert "add" in str(found.data)
        assert (await client.call_tool("call_tool", {"name": "add", "arguments": {"a": 5, "b": 3}})).data == 8
        assert (await client.call_tool("add", {"a": 5, "b": 3})).data == 8, "a hidden tool is called by its name, too"
        [greeted] = await client.read_resource("greeting://Ada")
        assert greeted.text == "Hello, Ada!"
        assert "Greet Ada" in str((await client.get_prompt("greet", {"name": "Ada"})).messages)
