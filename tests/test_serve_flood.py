"""`toolroute serve --transport http` against strangers that keep its sockets open."""

import asyncio
import resource
import socket
import threading
import time
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from orchestrator.server import tool_calls
from tests.gateway import call_over_http, serving
from tests.serve_program import TOKENS, client_of, over_http, write_servers, write_tokens
from tests.servers.start import config, entry, text_of
from tests.waiting import until

HALF = (
    b"",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\nAuthorization: Bearer x\r\n\r\n",
    b"\0\r\n\r\n",
)
DESCRIPTORS, STRANGERS = 256, 300


def _few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


async def _cost(client: Client, pid: int, calls: int = 100) -> float:
    """The processor time that these calls take there: unlike their latency, a busy machine does not add to it."""
    began = _seconds_of(pid)
    for _ in range(calls):
        assert text_of(await client.call_tool("call_tool", {"tool": "quick:add", "arguments": {"a": 1, "b": 2}})) == "3"
    return _seconds_of(pid) - began


def _seconds_of(pid: int) -> float:
    """The processor time that the process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _closed(stranger: socket.socket) -> bool:
    try:
        return stranger.recv(65_536) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.slow
async def test_strangers_who_hold_sockets_open_delay_nobody_and_are_sent_away(tmp_path: Path) -> None:
    file = write_servers(tmp_path / "mcp.json", quick=entry("quick.py"))
    async with over_http(file, limit=_few_descriptors) as (url, process):
        host, _, port = url.split("/")[2].partition(":")
        async with client_of(url) as client:
            await client.call_tool("call_tool", {"tool": "quick:pid"})
            alone = await _cost(client, process.pid)
        with ExitStack() as closing:
            strangers = []
            for number in range(STRANGERS):
                stranger = closing.enter_context(socket.create_connection((host, int(port))))
                stranger.sendall(HALF[number % len(HALF)])
                stranger.setblocking(False)
                strangers.append(stranger)
            async with client_of(url) as client:
                assert await _cost(client, process.pid) <= 1.3 * alone + 0.1
            cost, began = _seconds_of(process.pid), time.monotonic()
            await until(lambda: all([*map(_closed, strangers)]))
            assert _seconds_of(process.pid) - cost < 0.5 * (time.monotonic() - began) + 0.5, "it spins"
        process.terminate()
        assert process.stderr is not None
        assert len((await process.stderr.read()).splitlines()) <= 5


@pytest.mark.slow
async def test_one_tenants_calls_take_no_place_that_another_needs(tmp_path: Path) -> None:
    file = write_servers(tmp_path / "mcp.json", plain=entry("plain.py"))
    async with (
        over_http(file, "--tokens", str(write_tokens(tmp_path)), limit=_few_descriptors) as (url, _),
        client_of(url, "org:1") as busy,
        client_of(url, "org:2") as other,
    ):
        add = {"tool": "plain:add", "arguments": {"a": 1, "b": 2}}
        for client in (busy, other):
            assert text_of(await client.call_tool("call_tool", add)) == "3"
        wait = {"tool": "plain:wait", "arguments": {"seconds": 60}}
        calls = []
        for _ in range(100):
            calls.append(asyncio.create_task(busy.call_tool("call_tool", wait)))
            await asyncio.sleep(0.03)  # All at once they would leave many idle connections, of which some are closed.
        refused, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert text_of(await other.call_tool("call_tool", add)) == "3"
        assert "Busy" in text_of(refused.pop().result())
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert text_of(await busy.call_tool("call_tool", add)) == "3"


async def test_a_burst_of_one_tenant_delays_no_other(tmp_path: Path) -> None:
    answered = list[str]()

    async def ask(web: httpx2.AsyncClient, organization: str) -> None:
        status, _ = await call_over_http(web, TOKENS[f"org:{organization}"], "call_tool", {"tool": "no:tool"})
        assert status == HTTPStatus.OK
        answered.append(organization)

    async with serving(tmp_path, config()) as served, served.over_http(write_tokens(tmp_path)) as web:
        await ask(web, "2")
        await asyncio.gather(*(ask(web, organization) for organization in "1" * 100 + "2"))
    assert answered[1:51].count("2") == 1


async def test_requests_that_come_together_share_one_check_of_the_configuration(tmp_path: Path) -> None:
    checks = list[int]()
    all_came = threading.Event()

    def changed() -> None:
        checks.append(len(checks))
        assert all_came.wait(60)

    async with serving(tmp_path, config(), changed=changed) as served:
        client = await served.as_client()
        requests = [asyncio.create_task(client.call_tool("call_tool", {"tool": "no:tool"})) for _ in range(50)]
        await until(lambda: bool(checks))
        await asyncio.sleep(0.5)
        all_came.set()
        await asyncio.gather(*requests)
    assert len(checks) < 10


async def test_a_finished_call_waits_for_no_store(tmp_path: Path) -> None:
    store_answers = threading.Event()
    calls = tmp_path / "calls"
    async with serving(tmp_path, config(quick=entry("quick.py", COUNT_FILE=str(calls)))) as served:
        call = asyncio.create_task(served.call("quick:wait", {"seconds": 1}))
        await until(calls.exists)
        reads = [asyncio.create_task(asyncio.to_thread(store_answers.wait, 60)) for _ in range(100)]
        try:
            async with asyncio.timeout(30):
                await call
        finally:
            store_answers.set()
            await asyncio.gather(*reads)


async def test_large_results_of_one_tenant_delay_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others_are_served = threading.Event()
    cut = tool_calls.as_mcp_result

    def cut_slowly(*args: Any) -> Any:
        assert others_are_served.wait(60)
        return cut(*args)

    async with serving(tmp_path, config(quick=entry("quick.py"))) as served:
        await served.search(tenant="org:1")
        await served.search(tenant="org:2")
        monkeypatch.setattr(tool_calls, "as_mcp_result", cut_slowly)
        calls = [asyncio.create_task(served.call("quick:add", {"a": 1, "b": 2})) for _ in range(20)]
        await asyncio.sleep(0.5)
        assert (await served.search(tenant="org:2"))["matches"]
        others_are_served.set()
        assert {text_of(result) for result in await asyncio.gather(*calls)} == {"3"}
