"""The gateway: a tenant finds and calls what it has now, what can be called here, and is told what changed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from orchestrator import Router
from orchestrator.catalogue.tokens import count_tokens
from orchestrator.errors import InvalidArguments, UnknownTool
from orchestrator.index.always import Capability
from orchestrator.mcp.config import McpConfig
from orchestrator.options import Options
from orchestrator.records.request import RouteHint
from orchestrator.records.run import Approve
from orchestrator.records.tool import Kind, Tool
from orchestrator.server.gateway import Gateway
from tests.catalogues import taking, tool
from tests.servers.real import python_entry
from tests.servers.start import config, entry, owners, text_of, until

QUICK, LIBRARY = entry("quick.py"), entry("plain.py")


@asynccontextmanager
async def gateway(
    folder: Path, servers: dict[str, Any] | None = None, options: Options | None = None, **limits: Any
) -> AsyncIterator[Gateway]:
    capabilities = (Capability(tool="quick:add", phrases=("add up",)),)
    router = Router(store=str(folder / "store"), capabilities=capabilities, options=options)
    assert router.store is not None
    parsed = McpConfig.parse(servers or config(quick=QUICK, time=python_entry("mcp_server_time")))
    async with Gateway(parsed, router, **limits) as made:
        yield made


async def test_tools_that_this_server_cannot_call_crowd_out_none_that_it_can(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        agents = [
            Tool(server=f"agent{n}", name=f"add_{n}", description="add two numbers", kind=Kind.AGENT) for n in range(5)
        ]
        await asyncio.to_thread(served._store.replace_servers, "org:1", {tool.server: [tool] for tool in agents})
        found = await served.search("org:1", "add two numbers", 2, RouteHint.SEMANTIC)
        assert [match["tool"] for match in found["matches"]] == ["quick:add"]


async def test_a_search_shows_no_more_than_a_call_and_what_was_shortened_is_called_whole(tmp_path: Path) -> None:
    words = "what stands in this field of the form " * 20
    form = tool(
        "quick:add", "Fill in the form", input_schema=taking("a", **{f"p{n}": words for n in range(100)}, a="A")
    )
    async with gateway(tmp_path) as served:
        await asyncio.to_thread(served._store.replace_server, "org:1", "quick", [form])
        found = await served.search("org:1", "fill in the form", 3, RouteHint.AUTO)
        assert found["matches"][0]["tool"] == "quick:add"
        assert count_tokens(json.dumps(found)) <= 8_500
        with pytest.raises(InvalidArguments, match="p99: 5 is not of type 'string'"):
            await served.call("org:1", "quick:add", {"a": "1", "p99": 5})


async def test_tools_that_this_server_cannot_call_widen_no_answer(tmp_path: Path) -> None:
    words = "what stands in this field of the form " * 20
    schema = taking("a", **{f"p{n}": words for n in range(8)}, a="A")
    forms = [tool(f"quick:fill_{n}", f"Fill in the form {n}", input_schema=schema) for n in range(10)]
    agent = Tool(server="agent", name="clerk", description="Files letters", kind=Kind.AGENT)
    async with gateway(tmp_path) as served:
        shelves = {"quick": forms, "agent": [agent]}
        await asyncio.to_thread(served._store.replace_servers, "org:1", shelves)
        found = await served.search("org:1", "fill in the form", 10, RouteHint.AUTO)
        assert [match["tool"].partition(":")[0] for match in found["matches"]] == ["quick"] * 10
        assert count_tokens(json.dumps(found)) <= 8_500


async def test_what_finds_no_room_in_the_answer_is_named(tmp_path: Path) -> None:
    needed = {f"{'long_' * 10}{n}": "what stands in this field" for n in range(200)}
    form = tool("quick:form", "Fill in the form", input_schema=taking(*needed, **needed))
    agent = Tool(server="agent", name="clerk", description="Files letters", kind=Kind.AGENT)
    async with gateway(tmp_path) as served:
        shelves = {"quick": [form], "agent": [agent]}
        await asyncio.to_thread(served._store.replace_servers, "org:1", shelves)
        found = await served.search("org:1", "fill in the form", 1, RouteHint.AUTO)
        assert found["matches"] == []
        assert any("quick:form: left out" in warning for warning in found["warnings"])


async def test_a_tenant_calls_only_what_it_has_now(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        await served.search("org:1", "add two numbers", 3, RouteHint.AUTO)
        await asyncio.to_thread(served._store.replace_server, "org:1", "quick", [])
        with pytest.raises(UnknownTool, match="no tool 'quick:add'"):
            await served.call("org:1", "quick:add", {"a": 1, "b": 2})
        assert text_of(await served.call("org:2", "quick:add", {"a": 1, "b": 2})) == "3"
    assert owners() == []


async def test_one_tenants_tool_is_unknown_to_another(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        for tenant in ("org:1", "user:1"):
            await served.search(tenant, "anything", 1, RouteHint.AUTO)
        private = Tool(server="time", name="payroll", description="Show the payroll of the company")
        await asyncio.to_thread(served._store.replace_server, "org:1", "time", [private])
        found = await served.search("org:1", "show the payroll", 3, RouteHint.AUTO)
        assert found["matches"][0]["tool"] == "time:payroll"
        other = await served.search("user:1", "show the payroll", 50, RouteHint.SEMANTIC)
        assert "time:payroll" not in {match["tool"] for match in other["matches"]}
        with pytest.raises(UnknownTool, match="no tool 'time:payroll'") as told:
            await served.call("user:1", "time:payroll", {})
        assert "did you mean" not in str(told.value)


@pytest.mark.parametrize(
    ("called", "meant"), [("add", "quick:add"), ("quik:add", "quick:add"), ("quick:ad", "quick:add")]
)
async def test_an_unknown_tool_is_told_with_the_one_that_may_be_meant(tmp_path: Path, called: str, meant: str) -> None:
    async with gateway(tmp_path) as served:
        await served.search("org:1", "anything", 1, RouteHint.AUTO)
        with pytest.raises(UnknownTool, match=rf"did you mean (?:.* or )?{meant}\b"):
            await served.call("org:1", called, {})


async def test_tools_that_this_server_cannot_call_are_not_offered(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        store = served._router.store
        assert store is not None
        adder = Tool(server="agents", name="adder", description="add two numbers", kind=Kind.AGENT)
        foreign = Tool(server="elsewhere", name="add", description="add two numbers")
        await asyncio.to_thread(store.replace_servers, "org:1", {"agents": [adder], "elsewhere": [foreign]})
        found = await served.search("org:1", "add two numbers", 50, RouteHint.SEMANTIC)
        assert found["matches"][0]["tool"] == "quick:add"
        assert {match["tool"].partition(":")[0] for match in found["matches"]} <= {"quick", "time"}
        with pytest.raises(UnknownTool, match="not called through MCP"):
            await served.call("org:1", "agents:adder", {})


async def test_arguments_may_be_the_json_text_of_an_object_or_null(tmp_path: Path) -> None:
    from orchestrator.server.protocol import make_server

    async with gateway(tmp_path) as served, Client(make_server(served, "org:1", Approve.NEVER)) as client:
        for given, said in (
            ('{"a": 1, "b": 2}', "3"),
            ("[1, 2]", "InvalidArguments: call_tool: arguments are list, not an object"),
            ("a=1, b=2", "InvalidArguments: call_tool: arguments are not JSON"),
            ([1, 2], "InvalidArguments: arguments: "),
        ):
            told = await client.call_tool("call_tool", {"tool": "quick:add", "arguments": given})
            assert text_of(told).startswith(said)
            assert told.is_error is (said != "3")
        told = await client.call_tool("call_tool", {"tool": "quick:key", "arguments": None})
        assert (text_of(told), told.is_error) == ("None", False)
        [schema] = [tool.input_schema for tool in (await client.list_tools()).tools if tool.name == "call_tool"]
        assert schema["properties"]["arguments"]["type"] == "object"


async def test_a_tool_that_changed_after_the_search_says_so(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(library=LIBRARY)) as served:
        await served.search("org:1", "add two numbers", 10, RouteHint.AUTO)
        await served.call("org:1", "library:change", {})
        await served.call("org:1", "library:grow", {})
        store = served._router.store
        assert store is not None
        await until(lambda: "library:grown" in {tool.key for tool in store.load("org:1").tools})
        with pytest.raises(InvalidArguments, match="has changed since it was chosen"):
            await served.call("org:1", "library:add", {"a": 1, "b": 2})
        result = await served.call("org:1", "library:add", {"first": 1, "second": 2})
        assert text_of(result) == "3"
        assert "Warning: library:add has changed" in text_of(result, -1)
        found = await served.search("org:1", "grown: a tool that was not there before", 3, RouteHint.AUTO)
        assert "library:grown" in [match["tool"] for match in found["matches"]]


async def test_warming_connects_the_recommended_server_alone(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        await served.search("local", "x", 1, RouteHint.AUTO)
    async with gateway(tmp_path, warm=True) as served:
        await served.search("local", "convert a time between time zones", 1, RouteHint.AUTO)
        pool = served._pools["local"]
        await until(lambda: [str(state.state) for state in pool.states()] == ["known", "ready"])
