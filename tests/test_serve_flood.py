"""`toolroute serve --transport http` under strangers who hold its sockets open."""

import asyncio
import resource
import socket
import statistics
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from mcp import Client

from tests.servers.start import text_of, until
from tests.test_serve_process import client_of, file, over_http

__all__ = ["file"]
HALF = (
    b"",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\nAuthorization: Bearer x\r\n\r\n",
    b"\0\r\n\r\n",
)
DESCRIPTORS, STRANGERS = 256, 300


def _few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


async def _p95(client: Client, calls: int = 60) -> float:
    took = []
    for _ in range(calls):
        began = time.perf_counter()
        assert text_of(await client.call_tool("call_tool", {"tool": "quick:add", "arguments": {"a": 1, "b": 2}})) == "3"
        took.append(time.perf_counter() - began)
    return statistics.quantiles(took, n=20)[-1]


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
async def test_strangers_who_hold_sockets_open_delay_nobody_and_are_sent_away(file: Path) -> None:
    async with over_http(file, limit=_few_descriptors) as (url, process), asyncio.timeout(150):
        host, _, port = url.split("/")[2].partition(":")
        async with client_of(url, "local") as client:
            await client.call_tool("call_tool", {"tool": "quick:pid"})
            alone = await _p95(client)
        with ExitStack() as closing:
            strangers = []
            for number in range(STRANGERS):
                stranger = closing.enter_context(socket.create_connection((host, int(port))))
                stranger.sendall(HALF[number % len(HALF)])
                stranger.setblocking(False)
                strangers.append(stranger)
            async with client_of(url, "local") as client:
                among_strangers = await _p95(client)
                assert among_strangers <= 1.3 * alone + 0.02
            cost, began = _seconds_of(process.pid), time.monotonic()
            await until(lambda: all([*map(_closed, strangers)]), 60)
            assert _seconds_of(process.pid) - cost < 0.5 * (time.monotonic() - began) + 0.5, "it spins"
        process.terminate()
        assert process.stderr is not None
        assert len((await process.stderr.read()).splitlines()) <= 5
