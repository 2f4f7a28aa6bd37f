"""Each framework as it is published, with the scripted model: it reads the tools that fit, and later tasks profit."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest
from agents import Agent as OpenAIAgent
from agents import Runner, function_tool, set_tracing_disabled
from fastmcp import Client
from langchain.agents import create_agent
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent
from pydantic_ai.durable_exec.temporal import AgentPlugin, PydanticAIPlugin
from temporalio.client import Client as TemporalClient
from temporalio.worker import Replayer, Worker

from examples import fastmcp_server, langchain_agent, openai_agents_agent, pydantic_ai_agent
from examples.functions import FUNCTIONS
from orchestrator import Router
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.integrations.langchain import ToolRouterMiddleware
from orchestrator.integrations.openai_agents import ToolRoutedModel
from orchestrator.integrations.pydantic_ai import ToolRouting, catalogue_of
from orchestrator.records import durable_names as names
from orchestrator.temporal.plugin import OrchestratorPlugin
from orchestrator.testing import Asked, Reply, ScriptedModel, ToolCalls
from tests.agent_workflow import AGENT, TOOLS, Assistant

WEATHER = ToolCalls([("current_weather", {"city": "Oslo"})])
Ask = Callable[..., Any]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedModel]:
    with ScriptedModel() as found:
        monkeypatch.setenv("OPENAI_BASE_URL", found.url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        set_tracing_disabled(True)
        yield found


def script(model: ScriptedModel, *replies: Reply) -> None:
    model._replies = list(replies)


def offered(asked: Sequence[Asked]) -> list[list[str]]:
    return [request.tools for request in asked]


def learnt(router: Router, tenant: str = "local") -> list[list[str]]:
    """What each remembered task used."""
    past = router.memories.at_hand(tenant)
    return [] if past is None else [[key[0].lstrip(":") for key in task.tools[: task.used]] for task in past.tasks]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("example", "named"),
    [(langchain_agent, "scripted"), (pydantic_ai_agent, "openai:scripted"), (openai_agents_agent, "scripted")],
)
async def test_each_example_streams_what_its_tools_found(
    example: Any, named: str, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    script(model, WEATHER, "It is grey in Oslo.")
    await example.main(named)
    assert "It is grey in Oslo." in capsys.readouterr().out
    assert [len(names) for names in offered(model.asked)] == [3, 3]
    assert all(names[0] == "current_weather" for names in offered(model.asked))
    assert all(request.body["stream"] for request in model.asked)
    assert "grey, 4 degrees" in json.dumps(model.asked[1].body)


async def test_langchain_appends_tools_turn_by_turn_and_learns_from_what_was_called(model: ScriptedModel) -> None:
    router = Router(Catalogue())
    tools = [langchain_tool(function) for function in FUNCTIONS]
    given: Any = {"model": ChatOpenAI(model="scripted"), "tools": tools}
    agent = create_agent(**given, middleware=[ToolRouterMiddleware(router, limit=1)])
    script(model, WEATHER, "Grey.", "Which shares?", ToolCalls([("stock_price", {"symbol": "X"})]), "101.5")
    state = await agent.ainvoke({"messages": [user("what is the weather like in Oslo?")]})
    state = await agent.ainvoke({"messages": [*state["messages"], user("sing me a song about the sea")]})
    await agent.ainvoke({"messages": [*state["messages"], user("look up the latest price of the share X")]})
    once, both = ["current_weather"], ["current_weather", "stock_price"]
    assert offered(model.asked) == [once, once, once, both, both]
    assert learnt(router) == [["current_weather"], ["stock_price"]]


def test_langchain_works_without_async_and_from_within_a_running_loop(model: ScriptedModel) -> None:
    tools = [langchain_tool(function) for function in FUNCTIONS]
    router = Router(Catalogue())
    middleware = ToolRouterMiddleware(router, limit=2, keep=["send_email"])
    agent: Any = create_agent(ChatOpenAI(model="scripted"), tools=tools, middleware=[middleware])
    script(model, WEATHER, "Grey.")
    assert agent.invoke({"messages": [user("the weather in Oslo")]})["messages"][-1].content == "Grey."
    assert offered(model.asked)[0][:2] == ["send_email", "current_weather"]
    assert json.dumps(model.asked[1].body).count("grey, 4 degrees") == 1
    assert learnt(router) == [["current_weather"]]


ONCE, BOTH = ["current_weather"], ["current_weather", "stock_price"]
PRICE = ToolCalls([("stock_price", {"symbol": "X"})])


async def test_pydantic_ai_appends_tools_turn_by_turn_and_learns_from_what_was_called(model: ScriptedModel) -> None:
    router = Router(Catalogue())
    routing = ToolRouting(router, limit=1, tenant=lambda ctx: ctx.deps)
    agent: Any = Agent("openai:scripted", tools=FUNCTIONS, capabilities=[routing], deps_type=str)
    script(model, WEATHER, "Grey.", "Which shares?", PRICE, "101.5")
    result = await agent.run("what is the weather like in Oslo?", deps="org:a")
    for task in ("sing me a song about the sea", "look up the latest price of the share X"):
        result = await agent.run(task, message_history=result.all_messages(), deps="org:a")
    assert offered(model.asked) == [ONCE, ONCE, ONCE, BOTH, BOTH]
    assert learnt(router, "org:a") == [["current_weather"], ["stock_price"]]
    assert learnt(router) == []


async def test_openai_agents_append_tools_turn_by_turn_and_learn_from_what_was_called(model: ScriptedModel) -> None:
    router = Router(Catalogue())
    tools: Any = [function_tool(function) for function in FUNCTIONS]
    agent = OpenAIAgent(name="A", tools=tools, model=ToolRoutedModel("scripted", router, limit=1))
    script(model, WEATHER, "Grey.", "Which shares?", PRICE, "101.5")
    result = await Runner.run(agent, "what is the weather like in Oslo?")
    for task in ("sing me a song about the sea", "look up the latest price of the share X"):
        result = await Runner.run(agent, [*result.to_input_list(), {"role": "user", "content": task}])
    assert result.final_output == "101.5"
    assert offered(model.asked) == [ONCE, ONCE, ONCE, BOTH, BOTH]
    assert learnt(router) == [["current_weather"], ["stock_price"]]


async def test_fastmcp_shows_two_tools_finds_the_others_and_learns_from_the_calls_that_follow() -> None:
    async with Client(fastmcp_server.server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["search_tools", "call_tool"]
        found = await client.call_tool("search_tools", {"query": "the weather in Oslo"})
        listed: Any = found.structured_content
        assert listed["result"][0]["name"] == "current_weather"
        assert len(listed["result"]) == 3
        call = {"name": "current_weather", "arguments": {"city": "Oslo"}}
        assert (await client.call_tool("call_tool", call)).data == "Oslo: grey, 4 degrees, light wind"
        nothing: Any = (await client.call_tool("search_tools", {"query": "sing me a song"})).structured_content
        assert nothing == {"result": []}
    await fastmcp_server.search.aclose()
    assert learnt(fastmcp_server.search._toolbox.router) == [["current_weather"]]  # type: ignore[arg-type]


async def test_pydantic_ai_in_a_workflow_routes_and_records_by_activities_and_replays(
    model: ScriptedModel, temporal_address: str
) -> None:
    script(model, WEATHER, "Grey.")
    ours = OrchestratorPlugin(catalogue=catalogue_of(TOOLS))
    client = await TemporalClient.connect(temporal_address, plugins=[PydanticAIPlugin(), ours])
    queue = f"agents-{uuid4().hex[:8]}"
    async with Worker(
        client,
        task_queue=queue,
        workflows=[Assistant],
        plugins=[AgentPlugin(AGENT)],
        build_id="test",
        max_cached_workflows=0,
    ):
        handle = await client.start_workflow(
            Assistant.run, "what is the weather like in Oslo?", id=queue, task_queue=queue
        )
        assert await handle.result() == "Grey."
    assert offered(model.asked) == [ONCE, ONCE]
    history = await handle.fetch_history()
    kinds = [event.activity_task_scheduled_event_attributes.activity_type.name for event in history.events]
    assert [kind for kind in kinds if kind.startswith("toolroute")] == [names.ROUTE, names.RECORD_OUTCOME]
    plugins = [PydanticAIPlugin(), AgentPlugin(AGENT), ours]
    await Replayer(workflows=[Assistant], plugins=plugins, debug_mode=True).replay_workflow(history)
