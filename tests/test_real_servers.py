"""Published servers, as people run them: listed, called, and nothing of theirs left behind."""

import json
import os
from pathlib import Path

import pytest

from orchestrator import Connections
from orchestrator.index.flags import suspects
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
async def test_the_npm_registrys_servers(tmp_path: Path) -> None:
    notes = tmp_path / "memory.json"
    servers = config(
        everything=node_entry("everything", API_KEY="s3cret-key"),
        files=node_entry("filesystem", str(tmp_path)),
        memory=node_entry("memory", MEMORY_FILE_PATH=str(notes)),
    )
    async with Connections(servers) as connections:
        assert len(await connections.tools("everything")) == 13
        tools = [tool for server in ("everything", "files", "memory") for tool in await connections.tools(server)]
        assert not suspects(tools)
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
