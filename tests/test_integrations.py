"""Each published framework with the scripted model: it reads the fitting tools, and later tasks profit."""

import asyncio
import json
import sys
from collections.abc import Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from agents import Agent as OpenAIAgent, ModelBehaviorError, Runner, function_tool
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from langchain.agents import create_agent
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent
from pydantic_ai.durable_exec.temporal import AgentPlugin, PydanticAIPlugin
from temporalio.client import Client as TemporalClient
from temporalio.worker import Replayer, Worker

from examples import fastmcp_server, langchain_agent, mcp_client, openai_agents_agent, pydantic_ai_agent
from examples.functions import FUNCTIONS, current_weather
from examples.servers import notes_server
from orchestrator import Catalogue, Connections, Decision, OrchestratorPlugin, Router
from orchestrator.errors import InvalidInput
from orchestrator.integrations.fastmcp import ToolRouterSearch
from orchestrator.integrations.langchain import ToolRouterMiddleware
from orchestrator.integrations.mcp import RoutedSession
from orchestrator.integrations.openai_agents import ToolRoutedModel
from orchestrator.integrations.pydantic_ai import ToolRouting, catalogue_of
from orchestrator.integrations.toolbox import Toolbox
from orchestrator.testing import ModelRequest, Reply, ScriptedModel, ToolCalls
from tests.agent_workflow import AGENT, LOST, TOOLS, Assistant, Lost
from tests.past import JARGON

pytestmark = pytest.mark.usefixtures("default_model")
WEATHER = ToolCalls([("current_weather", {"city": "Oslo"})])
NOWHERE = "http://127.0.0.1:9"
"""A port where no store listens."""


def script(model: ScriptedModel, *replies: Reply) -> None:
    model.replies = list(replies)


def offered(asked: Sequence[ModelRequest]) -> list[list[str]]:
    return [request.tools for request in asked]


def learnt(router: Router, tenant: str = "local") -> list[list[str]]:
    """Return the tools that each remembered task used."""
    past = router.engine.experience.at_hand(tenant)
    return [] if past is None else [[key[0].lstrip(":") for key in task.used] for task in past.tasks]


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


ONCE, BOTH = ["current_weather"], ["current_weather", "stock_price"]
PRICE = ToolCalls([("stock_price", {"symbol": "X"})])
TASKS = (
    "what is the weather like in Oslo?",
    "sing me a song about the sea",
    "look up the latest price of the share X",
)


async def in_langchain(router: Router) -> None:
    tools = [langchain_tool(function) for function in FUNCTIONS]
    middleware: Any = ToolRouterMiddleware(router, limit=1, tenant="org:a")
    agent: Any = create_agent(ChatOpenAI(model="scripted"), tools=tools, middleware=[middleware])
    messages: list[Any] = []
    for task in TASKS:
        messages = (await agent.ainvoke({"messages": [*messages, user(task)]}))["messages"]


async def in_pydantic_ai(router: Router) -> None:
    routing = ToolRouting(router, limit=1, tenant=lambda ctx: ctx.deps)
    agent: Any = Agent("openai:scripted", tools=FUNCTIONS, capabilities=[routing], deps_type=str)
    messages: list[Any] = []
    for task in TASKS:
        messages = (await agent.run(task, message_history=messages, deps="org:a")).all_messages()
    with pytest.raises(InvalidInput, match="returned None: return org:ID, user:ID, or ''"):
        await agent.run(TASKS[0], deps=None)


async def in_openai_agents(router: Router) -> None:
    model: Any = ToolRoutedModel("scripted", router, limit=1, tenant="org:a")
    agent: Any = OpenAIAgent(name="A", tools=[function_tool(function) for function in FUNCTIONS], model=model)
    items: list[Any] = []
    for task in TASKS:
        items = (await Runner.run(agent, [*items, user(task)])).to_input_list()


@pytest.mark.parametrize("talk", [in_langchain, in_pydantic_ai, in_openai_agents])
async def test_tools_are_appended_turn_by_turn_and_what_was_called_is_learnt(talk: Any, model: ScriptedModel) -> None:
    router = Router(Catalogue())
    script(model, WEATHER, "Grey.", "Which shares?", PRICE, "101.5")
    await talk(router)
    assert offered(model.asked) == [ONCE, ONCE, ONCE, BOTH, BOTH]
    assert learnt(router, "org:a") == [["current_weather"], ["stock_price"]]
    assert learnt(router) == []


def test_langchain_calls_that_are_not_async_share_one_loop_and_store(model: ScriptedModel, tmp_path: Path) -> None:
    router = Router(store=tmp_path / "store")
    tools = [langchain_tool(function) for function in FUNCTIONS]
    middleware: Any = ToolRouterMiddleware(router, limit=2, keep=["send_email"])
    agent: Any = create_agent(ChatOpenAI(model="scripted"), tools=tools, middleware=[middleware])
    model.replies = lambda asked: "Grey." if asked.called else WEATHER
    agent.batch([{"messages": [user(f"what is the weather like in Oslo on day {day}?")]} for day in range(4)])
    assert offered(model.asked)[0][:2] == ["send_email", "current_weather"]
    assert router.store is not None
    assert len(router.store.outcomes.read("local").outcomes) == 4
    asyncio.run(router.aclose())


async def test_openai_agents_that_share_a_model_each_read_the_tools_of_their_own_after_a_handoff(
    model: ScriptedModel,
) -> None:
    router = Router(Catalogue())
    shared: Any = ToolRoutedModel("scripted", router, limit=1)
    weather = OpenAIAgent(name="B", tools=[function_tool(current_weather)], model=shared)
    others: Any = [function_tool(function) for function in FUNCTIONS if function is not current_weather]
    first = OpenAIAgent(name="A", tools=others, handoffs=[weather], model=shared)
    script(model, ToolCalls([("transfer_to_b", {})]), WEATHER, "Grey.")
    assert (await Runner.run(first, "what is the weather like in Oslo?")).final_output == "Grey."
    assert offered(model.asked) == [["transfer_to_b"], ONCE, ONCE]
    assert learnt(router) == [ONCE]


async def test_with_a_store_that_is_down_the_agent_goes_on_with_its_tools(
    model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    agent: Any = Agent("openai:scripted", tools=FUNCTIONS, capabilities=[ToolRouting(Router(store=NOWHERE), limit=1)])
    script(model, WEATHER, "Grey.")
    assert (await agent.run("what is the weather like in Oslo?")).output == "Grey."
    assert offered(model.asked) == [ONCE, ONCE]
    assert "the outcome of the task was not recorded" in caplog.text


HIDDEN = ToolCalls([("send_email", {"to": "a@b.org", "subject": "Hi"})])
WEATHER_TASK = "what is the weather like in Oslo?"


async def enforced_in_langchain(**settings: Any) -> str:
    tools = [langchain_tool(function) for function in FUNCTIONS]
    agent: Any = create_agent(ChatOpenAI(model="scripted"), tools=tools, middleware=[ToolRouterMiddleware(**settings)])
    said = await agent.ainvoke({"messages": [user(WEATHER_TASK)]})
    return "\n".join(str(message.text) for message in said["messages"])


async def enforced_in_pydantic_ai(**settings: Any) -> str:
    agent: Any = Agent("openai:scripted", tools=FUNCTIONS, capabilities=[ToolRouting(**settings)])
    return str((await agent.run(WEATHER_TASK)).all_messages())


@pytest.mark.parametrize("run", [enforced_in_langchain, enforced_in_pydantic_ai])
async def test_a_call_of_a_hidden_tool_is_refused_where_that_is_enforced(run: Any, model: ScriptedModel) -> None:
    script(model, HIDDEN, "Sorry.")
    seen: list[Any] = []
    said = await run(limit=1, enforce=True, on_decision=seen.append)
    assert "send_email was not offered for this task" in said or "Unknown tool name: 'send_email'" in said
    assert "sent to" not in said
    assert [decision.recommended for decision in seen] == [("current_weather",)]


async def test_langchain_calls_a_hidden_tool_where_nothing_is_enforced(model: ScriptedModel) -> None:
    script(model, HIDDEN, "Done.")
    assert "sent to a@b.org" in await enforced_in_langchain(limit=1)


async def test_openai_agents_fail_on_a_hidden_tool_where_that_is_enforced(model: ScriptedModel) -> None:
    script(model, HIDDEN, "Sent.", HIDDEN, HIDDEN)
    tools: Any = [function_tool(function) for function in FUNCTIONS]
    agents = [
        OpenAIAgent(name="A", tools=tools, model=ToolRoutedModel("scripted", limit=1, enforce=enforce))
        for enforce in (False, True)
    ]
    assert (await Runner.run(agents[0], WEATHER_TASK)).final_output == "Sent."
    with pytest.raises(ModelBehaviorError, match="the model called send_email, which was not offered for this task"):
        await Runner.run(agents[1], WEATHER_TASK)
    with pytest.raises(ModelBehaviorError, match="the model called send_email"):
        async for _ in Runner.run_streamed(agents[1], WEATHER_TASK).stream_events():
            pass


async def test_a_fastmcp_client_calls_what_its_searches_found_where_that_is_enforced() -> None:
    asking = ["ana"]
    search = ToolRouterSearch(actor=lambda _: asking[0], limit=1, keep=["stock_price"], enforce=True)
    server: Any = FastMCP("Office", transforms=[search])
    for function in FUNCTIONS:
        server.tool(function)
    async with Client(server) as client:
        assert {tool.name for tool in await client.list_tools()} == {"search_tools", "call_tool", "stock_price"}
        assert (await client.call_tool("stock_price", {"symbol": "X"})).data
        await client.call_tool("search_tools", {"query": WEATHER_TASK})
        call = {"name": "current_weather", "arguments": {"city": "Oslo"}}
        assert (await client.call_tool("call_tool", call)).data
        assert (await client.call_tool("current_weather", {"city": "Oslo"})).data
        with pytest.raises(ToolError, match="Unknown tool"):
            await client.call_tool("send_email", {"to": "a@b.org", "subject": "Hi"})
        asking[0] = "ben"
        with pytest.raises(ToolError, match="Unknown tool"):
            await client.call_tool("call_tool", call)


async def test_a_fastmcp_client_is_served_by_its_own_past_tasks() -> None:
    decisions = list[Decision]()
    router = Router(Catalogue())
    search = ToolRouterSearch(router, actor="ana", limit=20, on_decision=decisions.append)
    server: Any = FastMCP("Office", transforms=[search])
    for function in FUNCTIONS:
        server.tool(function)
    task = {"query": "friday thing for the board, now"}
    async with Client(server) as client:
        await client.call_tool("search_tools", task)
        office = router.with_catalogue(Catalogue(match.tool for match in decisions[0].matches))
        for past_task in JARGON:
            await office.record(past_task, used=["send_email"], actor="ana")
        await client.call_tool("search_tools", task)
    assert decisions[1].matches[0].tool.name == "send_email"
    assert "one person's past tasks" not in str(decisions[1].warnings)


async def test_a_failing_on_decision_and_a_foreign_name_to_keep_are_logged(
    model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    script(model, "Grey.", "Grey.")
    await enforced_in_langchain(on_decision=lambda decision: decision.nothing, keep=["of_another_agent"])
    assert "on_decision failed (AttributeError" in caplog.text
    assert caplog.text.count("keep: none of these 8 tools has the name 'of_another_agent'") == 1
    with pytest.raises(InvalidInput, match=r"keep: unknown tool 'send_emial'; did you mean 'send_email'\?"):
        await enforced_in_langchain(keep=["send_emial"])


@pytest.mark.parametrize("kind", [ToolRouterMiddleware, ToolRouting, ToolRouterSearch, partial(ToolRoutedModel, "m")])
def test_all_integrations_take_the_same_settings(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    assert signature(Toolbox).parameters.keys() <= signature(kind).parameters.keys()
    kind(Router(Catalogue()), tenant="org:a", actor="ana", limit=3, keep=["a"], on_decision=print, enforce=True)
    with pytest.raises(TypeError, match=r"unknown setting 'limt'; did you mean 'limit'\?"):
        kind(limt=3)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"limit": 0}, "limit=0"),
        ({"keep": "send_email"}, "keep='send_email': give a list"),
        ({"router": "tools.jsonl"}, "router='tools.jsonl': give a Router or a ToolRouter"),
        ({"tenant": "a b"}, "tenant 'a b'"),
        ({"limt": 3}, "did you mean 'limit'"),
    ],
)
def test_settings_that_would_route_nothing_are_refused_at_once(given: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Toolbox(**given)


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


def servers() -> dict[str, Any]:
    notes = [str(Path(notes_server.__file__)), "--file", "notes.sqlite"]
    entries = {"time": ["-m", "mcp_server_time"], "notes": notes}
    return {"mcpServers": {name: {"command": sys.executable, "args": args} for name, args in entries.items()}}


@pytest.mark.slow
async def test_an_mcp_client_s_session_has_the_tools_of_its_task_and_connects_their_servers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Connections(servers()) as listing:
        router = Router(Catalogue([tool for name in ("time", "notes") for tool in await listing.tools(name)]))
    async with Connections(servers()) as connections:
        async with RoutedSession("what time is it in Oslo?", router, connections, limit=1) as session:
            (tool,) = (await session.list_tools()).tools
            result = await session.call_tool(tool.name, {"timezone": "Europe/Oslo"})
            unknown = await session.call_tool("notes__add_note", {})
            wrong = await session.call_tool(tool.name, {"timezone": 7})
        states = {state.server: str(state.state) for state in connections.states()}
        async with RoutedSession("add a note: buy milk", router, connections, limit=1, after=session) as later:
            both = [own.name for own in (await later.list_tools()).tools]
    assert not result.is_error
    assert "Europe/Oslo" in str(result.content)
    assert unknown.is_error
    assert wrong.is_error
    assert states == {"time": "ready", "notes": "configured"}
    assert both == ["time__get_current_time", "notes__add_note"]
    assert learnt(router) == [["time:get_current_time"]]


@pytest.mark.slow
async def test_the_example_of_an_mcp_client_calls_what_the_model_chose(
    model: ScriptedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "mcp.json").write_text(json.dumps(servers()))
    monkeypatch.chdir(tmp_path)
    script(model, ToolCalls([("time__get_current_time", {"timezone": "Europe/Oslo"})]))
    await mcp_client.main("scripted")
    assert "Europe/Oslo" in capsys.readouterr().out
    assert offered(model.asked)[0][0] == "time__get_current_time"


@pytest.mark.slow
async def test_pydantic_ai_in_a_workflow_routes_and_records_by_activities_and_replays(
    model: ScriptedModel, temporal_address: str
) -> None:
    script(model, WEATHER, "Grey.", WEATHER, "Grey.")
    ours = OrchestratorPlugin(catalogue=catalogue_of(TOOLS))
    client = await TemporalClient.connect(temporal_address, plugins=[PydanticAIPlugin(), ours])
    queue = f"agents-{uuid4().hex[:8]}"
    agents = [AgentPlugin(AGENT), AgentPlugin(LOST)]
    task = "what is the weather like in Oslo?"
    async with Worker(
        client,
        task_queue=queue,
        workflows=[Assistant, Lost],
        plugins=agents,
        build_id="test",
        max_cached_workflows=0,
    ):
        handle = await client.start_workflow(Assistant.run, task, id=queue, task_queue=queue)
        assert await handle.result() == "Grey."
        assert await client.execute_workflow(Lost.run, task, id=f"{queue}-lost", task_queue=queue) == "Grey."
    assert offered(model.asked)[:2] == [ONCE, ONCE]
    assert [len(own) for own in offered(model.asked)[2:]] == [len(FUNCTIONS)] * 2
    history = await handle.fetch_history()
    kinds = [event.activity_task_scheduled_event_attributes.activity_type.name for event in history.events]
    assert [kind for kind in kinds if kind.startswith("toolroute")] == ["toolroute.route", "toolroute.record_outcome"]
    plugins = [PydanticAIPlugin(), *agents, ours]
    await Replayer(workflows=[Assistant], plugins=plugins, debug_mode=True).replay_workflow(history)
