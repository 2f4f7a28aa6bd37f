"""`toolroute serve`: any MCP client finds and calls the right tools, and each tenant only its own."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Implementation

from orchestrator.errors import InvalidConfig
from orchestrator.server.http import Tokens
from orchestrator.server.protocol import SERVERS
from tests.servers.real import python_entry
from tests.servers.start import alive, config, entry, text_of, until

COMMAND = [sys.executable, "-m", "orchestrator", "serve", "--approve", "never"]
QUICK = entry("quick.py")
TIME = python_entry("mcp_server_time")
TOKEN_1, TOKEN_2 = "token-of-organization-1", "token-of-organization-2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(config(quick=QUICK, time=TIME)))
    return path


@asynccontextmanager
async def over_http(file: Path, folder: Path, *args: str) -> AsyncIterator[tuple[str, str, asyncio.subprocess.Process]]:
    """The URL, all of standard error until it was told, and the process."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("--config", str(file), "--store", str(folder / "store"), "--transport", "http", "--port", "0", *args),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = (await process.stderr.readline()).decode()
    try:
        url = re.search(r"http://\S+", said)
        assert url, said + (await process.stderr.read()).decode()
        if not args:
            said += (await process.stderr.readline()).decode()
        yield url.group(), said, process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.communicate()


@asynccontextmanager
async def client_of(url: str, token: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as web,
        Client(streamable_http_client(url, http_client=web)) as client,
    ):
        yield client


async def test_the_official_client_searches_and_calls_over_stdio(file: Path, tmp_path: Path) -> None:
    arguments = [*COMMAND[1:], "--config", str(file), "--store", str(tmp_path / "store")]
    with (tmp_path / "stderr").open("w") as errlog:
        transport = stdio_client(StdioServerParameters(command=COMMAND[0], args=arguments), errlog=errlog)
        async with Client(transport) as client:
            assert client.server_info == Implementation(name="toolroute", version=version("toolroute"))
            assert (client.instructions or "").endswith("The servers: quick, time.")
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["search", "call_tool"]
            found = await client.call_tool("search", {"query": "convert the time 12:00 from UTC to Tokyo"})
            answer = found.structured_content
            assert answer == json.loads(found.content[0].text)  # type: ignore[union-attr]
            best = answer["matches"][0]
            assert best["tool"] == "time:convert_time"
            assert best["why"]
            assert 0 < answer["confidence"] <= 1
            assert answer["servers"] == ["time"]
            given = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo", "time": "12:00"}
            assert set(given) == set(best["input_schema"]["properties"])
            result = await client.call_tool("call_tool", {"tool": best["tool"], "arguments": given})
            assert not result.is_error
            assert "21:00" in text_of(result)
            pid = text_of(await client.call_tool("call_tool", {"tool": "quick:pid"}))
            wrong = await client.call_tool("call_tool", {"tool": best["tool"], "arguments": {}})
            assert wrong.is_error
            assert "InvalidArguments" in text_of(wrong)
    await until(lambda: not alive(pid))
    assert "quick: 8 tools stored" in (tmp_path / "stderr").read_text()


async def test_over_http_each_token_is_a_tenant_with_connections_of_its_own(file: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"org:1": TOKEN_1, "org:2": [TOKEN_2]}))
    async with over_http(file, tmp_path, "--tokens", str(tokens)) as (url, said, process):
        assert TOKEN_1 not in said
        async with client_of(url, TOKEN_1) as one, client_of(url, TOKEN_2) as two:
            pids = []
            for client in (one, two):
                await client.call_tool("search", {"query": "process id", "limit": 3})
                result = await client.call_tool("call_tool", {"tool": "quick:pid"})
                pids.append(result.content[0].text)  # type: ignore[union-attr]
            assert len(set(pids)) == 2
        process.send_signal(signal.SIGTERM)
        await process.wait()
        assert process.returncode == 0
        await until(lambda: not any(map(alive, pids)))


async def test_without_a_tokens_file_a_new_token_is_told(file: Path, tmp_path: Path) -> None:
    async with over_http(file, tmp_path) as (url, said, _):
        token = said.rpartition("Bearer ")[2].strip()
        assert "for local:" in said
        async with client_of(url, token) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["search", "call_tool"]
        ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        good = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(trust_env=False) as web:
            for headers, status in (
                ({}, 401),
                ({"authorization": "Bearer wrong"}, 401),
                ({"authorization": f"Basic {token}"}, 401),
                ({**good, "host": "evil.example"}, 421),
                ({**good, "host": "127.0.0.1.evil.example:80"}, 421),
                ({**good, "origin": "https://evil.example"}, 403),
                ({**good, "origin": "null"}, 403),
                ({**good, "origin": "http://localhost.evil.example"}, 403),
                ({**good, "origin": "http://localhost:3000"}, 200),
                (good, 200),
            ):
                answer = await web.post(url, json=ask, headers=headers)
                assert answer.status_code == status, headers


async def test_a_running_serve_tells_how_its_servers_stand(tmp_path: Path) -> None:
    file, tokens = tmp_path / "mcp.json", tmp_path / "tokens.json"
    file.write_text(json.dumps(config(quick=QUICK, time=TIME, broken={"command": "no-such-program"})))
    tokens.write_text(json.dumps({"org:1": TOKEN_1, "org:2": TOKEN_2}))
    async with over_http(file, tmp_path, "--tokens", str(tokens)) as (url, _, _):
        async with client_of(url, TOKEN_1) as client:
            await client.call_tool("search", {"query": "process id"})
            await client.call_tool("call_tool", {"tool": "quick:pid"})
            assert [str(found.uri) for found in (await client.list_resources()).resources] == [SERVERS]
            with pytest.raises(MCPError, match=f"there is {SERVERS}"):
                await client.read_resource("toolroute://else")
        code, said, _ = await toolroute("servers", "--of", url, "-o", "json", token=TOKEN_1)
        states = {state["server"]: state for state in json.loads(said)}
        assert code == 0
        assert (states["quick"]["state"], states["quick"]["tools"]) == ("ready", 8)
        assert states["quick"]["idle_s"] is not None
        assert states["time"]["state"] == "known"
        assert "no-such-program" in states["broken"]["last_error"]
        _, table, _ = await toolroute("servers", "--of", url, token=TOKEN_2)
        assert re.search(r"quick +known +stdio +8", table) is None
        code, _, error = await toolroute("servers", "--of", url, token="wrong-token-of-nobody")
        assert code == 1
        assert error == "toolroute: serve refuses the token: set TOOLROUTE_TOKEN to one that it knows\n"
        assert "wrong-token" not in error


async def toolroute(*args: str, token: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *COMMAND[:3],
        *args,
        env={**os.environ, "TOOLROUTE_TOKEN": token},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    return process.returncode, out.decode(), error.decode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "give an object"),
        ('{"org:1": "0123456789abcdef", "org:1": "fedcba9876543210"}', "'org:1' stands twice"),
        ('{"acme": "0123456789abcdef"}', "give org:ID or user:ID"),
        ('{"org:1": "short"}', "16 or more"),
        ('{"org:1": "${NO_SUCH_TOKEN}"}', "NO_SUCH_TOKEN is not set"),
        ('{"org:1": "0123456789abcdef", "org:2": "0123456789abcdef"}', "have the same token"),
        ('{"org:1": 7}', "a token is a text"),
    ],
)
def test_unusable_token_files_are_refused_and_show_no_token(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(content)
    with pytest.raises(InvalidConfig, match=message) as caught:
        Tokens.read(path, {})
    assert "0123456789abcdef" not in str(caught.value)


async def test_a_token_from_the_environment_names_its_tenant(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text('{"org:1": "${T}"}', encoding="utf-8-sig")  # As Notepad writes it.
    tokens = Tokens.read(path, {"T": TOKEN_1})
    known = await tokens.verify_token(TOKEN_1)
    assert known is not None
    assert known.client_id == "org:1"
    assert await tokens.verify_token("") is None
