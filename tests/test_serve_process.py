"""`toolroute serve` as a program: over stdio and HTTP, by tokens, and stopped while it works."""

import asyncio
import gc
import hashlib
import io
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, stdio_client
from mcp.types import Implementation

from orchestrator import Store
from orchestrator.server import stdio
from orchestrator.server.http.app import serve_http
from tests.command_line import Run
from tests.serve_program import (
    TOKENS,
    by_stdio,
    client_of,
    command_of,
    over_http,
    states_of,
    write_servers,
)
from tests.servers.real import python_entry
from tests.servers.start import HERE, alive, entry, text_of
from tests.stores import shipped
from tests.waiting import until

QUICK, TIME = entry("quick.py"), python_entry("mcp_server_time")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_servers(tmp_path / "mcp.json", quick=QUICK, time=TIME, broken={"command": "no-such-program"})


async def test_the_official_client_searches_and_calls_over_stdio(file: Path, tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w") as errlog:
        async with Client(stdio_client(by_stdio(file), errlog=errlog)) as client:
            assert client.server_info == Implementation(name="toolroute", version=version("toolroute"))
            assert (client.instructions or "").endswith("Servers: broken, quick, time.")
            assert [tool.name for tool in (await client.list_tools()).tools] == ["search", "call_tool"]
            found = await client.call_tool("search", {"query": "convert the time 12:00 from UTC to Tokyo"})
            assert (len(found.content), found.structured_content) == (1, None), "the answer comes once"
            answer = json.loads(text_of(found))
            best = answer["matches"][0]
            assert (best["tool"], answer["servers"]) == ("time:convert_time", ["time"])
            assert "server 'broken' were not searched" in answer["warnings"][0]
            given = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo", "time": "12:00"}
            assert set(given) == set(best["input_schema"]["properties"])
            assert "21:00" in text_of(await client.call_tool("call_tool", {"tool": best["tool"], "arguments": given}))
            wrong = await client.call_tool("call_tool", {"tool": best["tool"], "arguments": {}})
            assert (wrong.is_error, "InvalidArguments" in text_of(wrong)) == (True, True)
            pid = text_of(await client.call_tool("call_tool", {"tool": "quick:pid"}))
    await until(lambda: not alive(pid))
    assert "quick: 8 tools stored" in (tmp_path / "stderr").read_text()


@pytest.mark.slow
async def test_over_http_each_token_is_a_tenant_that_sees_and_runs_its_own(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST_TOKEN", TOKENS["org:1"])
    tokens = file.with_name("tokens.json")
    given = json.dumps({**TOKENS, "org:1": "${FIRST_TOKEN}"})
    tokens.write_text(given, encoding="utf-8-sig")  # As Notepad writes it.
    async with over_http(file, "--tokens", str(tokens)) as (url, process):
        async with client_of(url, "org:1") as one, client_of(url, "org:2") as two:
            await one.call_tool("search", {"query": "process id", "limit": 3})
            pids = [text_of(await one.call_tool("call_tool", {"tool": "quick:pid"}))]
            assert [str(found.uri) for found in (await one.list_resources()).resources] == ["toolroute://servers"]
            with pytest.raises(MCPError, match="unknown resource toolroute://else"):
                await one.read_resource("toolroute://else")
            states = await states_of(one)
            assert (states["quick"]["state"], states["quick"]["tools"]) == ("ready", 8)
            assert (states["time"]["state"], "no-such-program" in states["broken"]["last_error"]) == ("known", True)
            assert (await states_of(two))["quick"]["state"] == "configured"
            pids.append(text_of(await two.call_tool("call_tool", {"tool": "quick:pid"})))
            assert len(set(pids)) == 2
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        await until(lambda: not any(map(alive, pids)))
    [outcome] = Store(file.parent / "store", embedder=shipped()).outcomes.read("org:1").outcomes
    assert outcome.actor == f"token {hashlib.sha256(TOKENS['org:1'].encode()).hexdigest()[:12]}"


def test_serve_searches_few_objects_for_garbage_at_once(
    file: Path, toolroute: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    before = gc.get_threshold()
    try:
        ran = toolroute("serve", "--config", file, "--store", file.parent / "store")
        assert ran.exit_code == 0
        assert gc.get_threshold()[0] <= 10_000
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


async def test_a_new_token_is_printed_and_strangers_hosts_and_origins_are_refused(file: Path) -> None:
    async with over_http(file, "--allow-host", "tools.example", "--allow-origin", "https://app.example") as (url, _):
        good = {"authorization": f"Bearer {TOKENS['local']}", "accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(trust_env=False) as web:
            for headers, status in (
                ({}, 401),
                ({"authorization": "Bearer wrong"}, 401),
                ({"authorization": "Bearer"}, 401),
                ({"authorization": f"Basic {TOKENS['local']}"}, 401),
                ({**good, "host": "evil.example"}, 421),
                ({**good, "host": "127.0.0.1.evil.example:80"}, 421),
                ({**good, "origin": "https://evil.example"}, 403),
                ({**good, "origin": "null"}, 403),
                ({**good, "origin": "http://localhost.evil.example"}, 403),
                ({**good, "origin": "http://localhost:3000"}, 200),
                ({**good, "host": "tools.example", "origin": "https://app.example"}, 200),
                (good, 200),
            ):
                answer = await web.post(url, json=_HELLO, headers=headers)
                assert answer.status_code == status, headers


@pytest.mark.slow
async def test_a_client_gets_progress_and_ends_its_call_by_hanging_up(file: Path) -> None:
    notes, begun = file.parent / "notes", asyncio.Event()
    write_servers(file, plain=entry("plain.py", COUNT_FILE=str(notes), API_KEY="s3cret-1"))

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert (progress, total, message) == (0, 60, "waiting with ***")
        begun.set()

    async with over_http(file) as (url, _), client_of(url) as client:
        call = {"tool": "plain:wait", "arguments": {"seconds": 60}}
        calling = asyncio.create_task(client.call_tool("call_tool", call, progress_callback=on_progress))
        await begun.wait()
        calling.cancel()
        await until(lambda: notes.read_text() == "wait\nended early\n")


# --- printed to end

_CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
_HELLO: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _CLIENT}


def _call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "answer"), [(1.5, "waited"), (60.0, "OutcomeUnknown: quick:wait was sent")])
async def test_calls_under_way_are_answered_before_it_ends(file: Path, seconds: float, answer: str) -> None:
    async with over_http(file) as (url, process):
        async with client_of(url) as client:
            pid = text_of(await client.call_tool("call_tool", {"tool": "quick:pid"}))
            call = {"tool": "quick:wait", "arguments": {"seconds": seconds}}
            waiting = asyncio.create_task(client.call_tool("call_tool", call))
            while not (await states_of(client))["quick"]["calls_in_flight"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert text_of(await waiting).startswith(answer)
        assert await process.wait() == 0
    assert not alive(pid)


@asynccontextmanager
async def over_stdio(file: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The process, spoken to by hand, and the id of its server's."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command_of(file), stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for line in _HELLO, _call(2, "search", query="process id"), _call(3, "call_tool", tool="quick:pid"):
            process.stdin.write(f"{json.dumps(line)}\n".encode())
            answer = json.loads(await process.stdout.readline())
        yield process, answer["result"]["content"][0]["text"]
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.slow
async def test_a_signal_ends_it_though_its_client_keeps_the_input_open(file: Path) -> None:
    called = file.parent / "called"
    write_servers(file, quick=entry("quick.py", COUNT_FILE=str(called)))
    async with over_stdio(file) as (process, pid):
        assert process.stdin is not None
        assert process.stdout is not None
        assert alive(pid)
        process.stdin.write(
            f"{json.dumps(_call(4, 'call_tool', tool='quick:wait', arguments={'seconds': 60}))}\n".encode()
        )
        await until(called.exists)
        process.send_signal(signal.SIGTERM)
        answer = json.loads(await process.stdout.readline())
        assert answer["result"]["content"][0]["text"].startswith("OutcomeUnknown: quick:wait was sent")
        assert await process.wait() == 0
        assert not alive(pid)


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_an_interrupt_before_it_serves_ends_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(stdio, "stdio_server", lambda: begun.append("stdio"))

    async def serve() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()  # As asyncio does at a SIGINT, which takes effect at the next wait.
        if kind == "stdio":
            await stdio.serve_stdio(Any, Any)
        else:
            await serve_http(None, "127.0.0.1", 0, begun.append)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(serve())
    await asyncio.sleep(0.1)
    assert begun == []


@pytest.mark.slow
async def test_a_client_that_closes_the_input_and_then_sends_a_signal_leaves_no_server_behind(file: Path) -> None:
    printed = file.parent / "pid"
    slow = f"echo $$ > {printed}; {sys.executable} {HERE / 'quick.py'}; sleep 60"
    write_servers(file, quick={"command": "sh", "args": ["-c", slow]})
    async with over_stdio(file) as (process, quick):
        assert process.stdin is not None
        pid = printed.read_text().strip()
        assert alive(pid)
        process.stdin.close()
        await until(lambda: not alive(quick))  # The shell, which goes on, is being given its time to end.
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert not alive(pid)


# --- files of tokens


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "give an object"),
        ('{"org:1": "0123456789abcdef", "org:1": "fedcba9876543210"}', "'org:1' is twice"),
        ('{"acme": "0123456789abcdef"}', "give org:ID or user:ID"),
        ('{"org:1": "short"}', "16 or more"),
        ('{"org:1": "${NO_SUCH_TOKEN}"}', "not set in the environment: NO_SUCH_TOKEN"),
        ('{"org:1": "0123456789abcdef", "org:2": "0123456789abcdef"}', "have the same token"),
        ('{"org:1": 7}', "token: Input should be a valid string, but it is a number"),
    ],
)
def test_unusable_token_files_are_refused_and_show_no_token(
    file: Path, toolroute: Run, content: str, message: str
) -> None:
    tokens = file.with_name("tokens.json")
    tokens.write_text(content)
    ran = toolroute("serve", "--transport", "http", "--tokens", tokens, "--config", file)
    assert ran.exit_code == 2
    assert message in ran.stderr
    assert "0123456789abcdef" not in ran.stderr
