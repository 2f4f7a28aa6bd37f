"""The gateway: a tenant finds and calls what it has now, what can be called here, and is told what changed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from orchestrator import Router
from orchestrator.errors import InvalidArguments, UnknownTool
from orchestrator.gateway import Gateway
from orchestrator.mcp.config import McpConfig
from orchestrator.models import Kind, RouteHint, Tool
from orchestrator.stages.always import Capability
from tests.servers.real import python_entry
from tests.servers.start import config, entry, owners, text_of, until

QUICK, LIBRARY = entry("quick.py"), entry("plain.py")


@asynccontextmanager
async def gateway(folder: Path, servers: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[Gateway]:
    capabilities = (Capability(tool="quick:add", phrases=("add up",)),)
    router = Router(store=str(folder / "store"), capabilities=capabilities)
    assert router.store is not None
    parsed = McpConfig.parse(servers or config(quick=QUICK, time=python_entry("mcp_server_time")))
    async with Gateway(parsed, router.store, router, **options) as made:
        yield made


async def test_tools_that_this_server_cannot_call_crowd_out_none_that_it_can(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        agents = [
            Tool(server=f"agent{n}", name=f"add_{n}", description="add two numbers", kind=Kind.AGENT) for n in range(5)
        ]
        await asyncio.to_thread(served._store.replace_servers, "org:1", {tool.server: [tool] for tool in agents})
        found = await served.search("org:1", "add two numbers", 2, RouteHint.SEMANTIC)
        assert [match["tool"] for match in found["matches"]] == ["quick:add"]


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
        with pytest.raises(UnknownTool, match="no tool 'time:payroll'"):
            await served.call("user:1", "time:payroll", {})


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


async def test_always_available_tools_are_offered_directly(tmp_path: Path) -> None:
    from orchestrator.mcp_server import make_server

    async with gateway(tmp_path) as served:
        await served.search("org:1", "anything", 1, RouteHint.AUTO)
        async with Client(make_server(served, "org:1")) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == ["search", "call_tool", "quick__add"]
            assert set(tools["quick__add"].input_schema["properties"]) == {"a", "b"}
            result = await client.call_tool("quick__add", {"a": 1, "b": 2})
            assert text_of(result) == "3"
            for name, given in (("search", {"query": "x", "limit": 500}), ("search", {}), ("call_tool", {"tool": 1})):
                refused = await client.call_tool(name, given)
                assert refused.is_error
                assert "InvalidArguments" in text_of(refused)


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
