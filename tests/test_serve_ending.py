"""`toolroute serve` over HTTP is told to end while it works: nobody is left without an answer."""

import asyncio
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from orchestrator.server.protocol import SERVERS
from tests.servers.start import HERE, alive, config, entry, text_of, until
from tests.test_mcp_server import COMMAND, client_of, over_http


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(config(quick=entry("quick.py"))))
    return path


async def _ended_quietly(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    last_words = (await asyncio.wait_for(process.stderr.read(), 30)).decode()
    assert re.fullmatch(r"(quick: 8 tools stored in \S+ s\n)?", last_words)
    assert await asyncio.wait_for(process.wait(), 30) == 0


_CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
_HELLO: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _CLIENT}


def _call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def _token(told: str) -> str:
    found = re.search(r"Bearer (\S+)", told)
    assert found
    return found[1]


async def _under_way(client: Client) -> None:
    """Returns once a call is."""
    while True:
        read: Any = (await client.read_resource(SERVERS)).contents[0]
        if json.loads(read.text)[0]["calls_in_flight"]:
            return
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(("seconds", "said"), [(1.5, "waited"), (60.0, "OutcomeUnknown: quick:wait was sent")])
async def test_calls_under_way_are_answered(file: Path, tmp_path: Path, seconds: float, said: str) -> None:
    async with over_http(file, tmp_path) as (url, told, process):
        async with client_of(url, _token(told)) as client:
            pid = int(text_of(await client.call_tool("call_tool", {"tool": "quick:pid"})))
            call = {"tool": "quick:wait", "arguments": {"seconds": seconds}}
            waiting = asyncio.create_task(client.call_tool("call_tool", call))
            async with asyncio.timeout(20):
                await _under_way(client)
            process.send_signal(signal.SIGTERM)
            assert text_of(await asyncio.wait_for(waiting, 30)).startswith(said)
        await _ended_quietly(process)
    assert not alive(pid)


async def test_over_stdio_a_signal_ends_it_though_its_client_keeps_the_input_open(file: Path, tmp_path: Path) -> None:
    command = [*COMMAND, "--config", str(file), "--store", str(tmp_path / "store")]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for line in _HELLO, _call(2, "search", query="process id"), _call(3, "call_tool", tool="quick:pid"):
            process.stdin.write(f"{json.dumps(line)}\n".encode())
            answer = json.loads(await asyncio.wait_for(process.stdout.readline(), 30))
        pid = answer["result"]["content"][0]["text"]
        assert alive(pid)
        waiting = _call(4, "call_tool", tool="quick:wait", arguments={"seconds": 60})
        process.stdin.write(f"{json.dumps(waiting)}\n".encode())
        await asyncio.sleep(1)
        process.send_signal(signal.SIGTERM)
        answer = json.loads(await asyncio.wait_for(process.stdout.readline(), 20))
        assert answer["result"]["content"][0]["text"].startswith("OutcomeUnknown: quick:wait was sent")
        assert await asyncio.wait_for(process.wait(), 20) == 0
        assert not alive(pid)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_client_that_closes_the_input_and_then_sends_a_signal_leaves_no_server_behind(tmp_path: Path) -> None:
    """As MCP clients do, the signal while the servers are given their time to end."""
    told, file = tmp_path / "pid", tmp_path / "mcp.json"
    slow = f"echo $$ > {told}; {sys.executable} {HERE / 'quick.py'}; sleep 60"
    file.write_text(json.dumps(config(quick={"command": "sh", "args": ["-c", slow]})))
    command = [*COMMAND, "--config", str(file), "--store", str(tmp_path / "store")]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for line in _HELLO, _call(2, "search", query="process id"), _call(3, "call_tool", tool="quick:pid"):
            process.stdin.write(f"{json.dumps(line)}\n".encode())
            await asyncio.wait_for(process.stdout.readline(), 30)
        pid = told.read_text().strip()
        assert alive(pid)
        process.stdin.close()
        await asyncio.sleep(1)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
        assert not alive(pid)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_command_that_is_told_to_end_leaves_no_server_behind(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    deaf = {"command": "sh", "args": ["-c", f"echo $$ > {told}; exec sleep 60"]}
    (tmp_path / "mcp.json").write_text(json.dumps(config(deaf=deaf)))
    process = await asyncio.create_subprocess_exec(*COMMAND[:3], "servers", "--check", cwd=tmp_path)
    await until(lambda: told.exists() and bool(told.read_text().strip()), 30)
    assert alive(pid := told.read_text().strip())
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 20) == 143
    assert not alive(pid)
