"""Published servers, as people run them: listed, called, and nothing of theirs left behind."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from orchestrator import Catalogue, Connections, Router
from orchestrator.mcp.config import McpConfig
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from orchestrator.records.request import RouteHint
from orchestrator.server.gateway import Gateway
from orchestrator.server.protocol import make_server
from tests.servers.real import node_entry, node_servers_installed, python_entry
from tests.servers.start import config, owners

needs_node = pytest.mark.skipif(
    not node_servers_installed and not os.environ.get("CI"),
    reason="the npm servers are not installed: make node-servers",
)


async def test_the_python_registrys_servers(tmp_path: Path) -> None:
    os.system(f"git init -q {tmp_path}")  # noqa: ASYNC221
    (tmp_path / "new.txt").write_text("new")
    servers = config(time=python_entry("mcp_server_time"), git=python_entry("mcp_server_git"))
    async with Connections(servers) as connections:
        assert "UTC" in (await connections.call("time:get_current_time", {"timezone": "UTC"})).text
        assert "new.txt" in (await connections.call("git:git_status", {"repo_path": str(tmp_path)})).text
        assert [state.tools for state in connections.states()] == [2, 12]
    assert owners() == []


async def test_a_server_installed_beside_toolroute_is_found_without_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    async with Connections(config(time={"command": "mcp-server-time"})) as connections:
        assert len(await connections.tools("time")) == 2


@needs_node
@pytest.mark.slow
async def test_a_plan_of_two_parts_is_bound_whatever_folders_its_paths_lead_through(tmp_path: Path) -> None:
    servers = config(git=python_entry("mcp_server_git"), filesystem=node_entry("filesystem", str(tmp_path)))
    async with Connections(servers) as connections:
        tools = [tool for server in servers["mcpServers"] for tool in await connections.tools(server)]
    async with Router(Catalogue(tools)) as router:
        for folder in ("/tmp/x", "/home/ana/images", "/srv/show/log"):
            task = f"read the file {folder}/fox.txt and then show the git status of repo_path {folder}/repo"
            steps = plan(PlanRequest(decision=await router.route(task))).steps
            assert [step.tool for step in steps] == ["filesystem:read_text_file", "git:git_status"], folder


@needs_node
async def test_the_npm_registrys_servers(tmp_path: Path) -> None:
    notes = tmp_path / "memory.json"
    servers = config(
        everything=node_entry("everything", API_KEY="s3cret-key"),
        files=node_entry("filesystem", str(tmp_path)),
        memory=node_entry("memory", MEMORY_FILE_PATH=str(notes)),
    )
    async with Connections(servers) as connections:
        assert len(await connections.tools("everything")) == 13
        environment = await connections.call("everything:get-env")
        assert json.loads(environment.text)["API_KEY"] == "***"
        image = await connections.call("everything:get-tiny-image")
        assert "[image image/png, " in image.text

        written = await connections.call("files:write_file", {"path": str(tmp_path / "a.txt"), "content": "hello"})
        assert str(tmp_path / "a.txt") in written.text
        assert (tmp_path / "a.txt").read_text() == "hello"
        outside = await connections.call("files:read_text_file", {"path": "/etc/hostname"})
        assert outside.is_error

        entity = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
        await connections.call("memory:create_entities", {"entities": [entity]})
        graph = await connections.call("memory:read_graph")
        assert graph.structured["entities"][0]["name"] == "Ada"
        assert notes.exists()
    assert owners() == []


@needs_node
async def test_serving_passes_images_on_as_they_are(tmp_path: Path) -> None:
    router = Router(store=str(tmp_path / "store"))
    assert router.store is not None
    parsed = McpConfig.parse(config(everything=node_entry("everything")))
    async with Gateway(parsed, router) as gateway:
        found = await gateway.search("local", "get a tiny image", 3, RouteHint.AUTO)
        assert "everything:get-tiny-image" in [match["tool"] for match in found["matches"]]
        async with Client(make_server(gateway, "local")) as client:
            call: dict[str, Any] = {"tool": "everything:get-tiny-image"}
            blocks = (await client.call_tool("call_tool", call)).content
        assert [block.type for block in blocks] == ["text", "image", "text"]
