"""Servers over HTTP that restart, go away, die in mid-call or refuse: one outcome each, and no secret is shown."""

import asyncio
import contextlib
import gzip
import logging
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from orchestrator import Connections
from orchestrator.errors import (
    OutcomeUnknown,
    ServerUnavailable,
    ToolrouteError,
    Unauthorised,
)
from orchestrator.mcp import connection as mcp_connection
from orchestrator.records.tool import Tool
from tests.loopback import served
from tests.servers.byhand import HELLO, tool
from tests.servers.start import config, free_port, owners, running, until


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_an_http_server_that_restarts_is_called_again_without_a_loss(mode: str) -> None:
    port = free_port()
    async with Connections(config(web={"url": f"http://127.0.0.1:{port}/mcp"}), backoff_s=0.1) as servers:
        async with running("plain.py", port, mode):
            first = (await servers.call("web:pid")).text
        async with running("plain.py", port, mode):
            assert (await servers.call("web:pid")).text != first
    assert owners() == []


async def test_an_http_server_that_is_gone_was_sent_nothing() -> None:
    port = free_port()
    async with Connections(config(web={"url": f"http://127.0.0.1:{port}/mcp"})) as servers:
        async with running("plain.py", port):
            await servers.call("web:pid")
        with pytest.raises(ServerUnavailable, match="cannot be reached"):
            await servers.call("web:pid")


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_an_http_server_killed_in_mid_call_leaves_the_outcome_unknown(mode: str, tmp_path: Path) -> None:
    port, count = free_port(), tmp_path / "count"
    async with Connections(config(web={"url": f"http://127.0.0.1:{port}/mcp"}), backoff_s=0.1) as servers:
        async with running("plain.py", port, mode, COUNT_FILE=str(count)):
            begin = time.monotonic()
            with pytest.raises(OutcomeUnknown):
                await servers.call("web:crash")
            assert time.monotonic() - begin < 5
        assert count.read_text() == "crash\n"
        await asyncio.sleep(0.5)
        async with running("plain.py", port, mode):
            assert (await servers.call("web:add", {"a": 1, "b": 1})).text == "2"


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ("401 Unauthorized", Unauthorised, r"refused the credentials \(HTTP 401 Unauthorized\): check its headers"),
        ("403 Members Only", Unauthorised, r"refused the credentials \(HTTP 403 Members Only\): check its headers"),
        ("503 Service Unavailable", ServerUnavailable, "HTTP 503"),
    ],
)
async def test_a_refusal_over_http_shows_its_status_and_no_secret(
    answer: str, error: type[ToolrouteError], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {answer}\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as web:
        port = web.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/mcp?key=${{KEY}}"
        server = {"url": url, "headers": {"Authorization": "Bearer ${TOKEN}"}}
        environ = {"TOKEN": "s3cret-token", "KEY": "s3cret-key"}
        async with Connections(config(web=server), environ=environ) as servers:
            with pytest.raises(error, match=message) as caught:
                await servers.call("web:it")
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("path", "given", "refusal", "said"),
    [
        ("/mcp", {}, PlainTextResponse("no such\npath", 404), r"HTTP 404 Not Found: no such path$"),
        (
            "/mcp",
            {"x-key": "s3cret-key"},
            JSONResponse({"error": f"{'x' * 181} s3cret-key {'y' * 50}"}, 403),
            r'\(HTTP 403 Forbidden: \{"error":"x{181} \*\*\* yyyy\.\.\.\): check its headers',
        ),
        ("/mcp", {}, HTMLResponse("<html>oops</html>", 500), r"HTTP 500 Internal Server Error$"),
        (
            "/mcp",
            {},
            PlainTextResponse("Method Not Allowed", 405),
            r"HTTP 405 Method Not Allowed; .*older SSE transport",
        ),
        ("/v1/sse", {}, PlainTextResponse("", 404), r"HTTP 404 Not Found; .*older SSE transport"),
        ("/mcp", {}, Response(status_code=401), r"check its headers \(OAuth is not supported: .*\)$"),
    ],
)
async def test_a_refusal_over_http_tells_the_servers_reason_and_the_remedy(
    path: str, given: dict[str, str], refusal: Response, said: str
) -> None:
    async def refuse(request: Request) -> Response:
        return refusal

    with served(Starlette(routes=[Route(path, refuse, methods=["POST"])])) as web:
        async with Connections(config(web={"url": f"{web}{path}", "headers": given})) as servers:
            with pytest.raises(ToolrouteError, match=said):
                await servers.tools("web")


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (200, OutcomeUnknown, r"its answer lost \(gave an answer of more than 32 MiB\)"),
        (500, OutcomeUnknown, r"HTTP 500 Internal Server Error: x{200}\.\.\."),
    ],
)
async def test_an_answer_that_unpacks_to_more_than_is_read_fills_no_memory(
    status: int, error: type[ToolrouteError], said: str
) -> None:
    headers = {"content-type": "text/plain" if status == 500 else "application/json", "content-encoding": "gzip"}
    packed = gzip.compress(b"x" * 200_000_000)

    async def answer(request: Request) -> Response:
        asked = await request.json()
        if asked["method"] == "tools/call":
            return Response(packed, status, headers)
        return _rpc(asked) if "id" in asked else Response(status_code=202)

    with served(Starlette(routes=[Route("/mcp", answer, methods=["POST"])])) as web:
        async with Connections(config(web={"url": f"{web}/mcp"})) as servers:
            assert [tool.name for tool in await servers.tools("web")] == ["it"]
            tracemalloc.start()
            try:
                with pytest.raises(error, match=said):
                    await servers.call("web:it")
                assert tracemalloc.get_traced_memory()[1] < 150_000_000
            finally:
                tracemalloc.stop()


def _rpc(asked: dict[str, Any]) -> Response:
    """What a server of one tool answers, in the protocol of 2025."""
    known = {"initialize": HELLO, "tools/list": {"tools": [tool("it")]}}
    result = known.get(asked["method"])
    told = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
    return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], **told})


async def test_a_call_that_a_busy_server_refuses_was_not_carried_out_and_the_connection_stays() -> None:
    port, busy = free_port(), asyncio.Event()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        answers = asyncio.create_task(_pump(there, writer))
        while data := await reader.read(65_536):
            if busy.is_set() and b"tools/call" in data:
                answers.cancel()
                writer.write(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                break
            back.write(data)
        writer.close()
        back.close()

    async with running("plain.py", port), await asyncio.start_server(forward, "127.0.0.1", 0) as proxy:
        url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}/mcp"
        async with Connections(config(web={"url": url})) as servers:
            first = (await servers.call("web:pid")).text
            busy.set()
            with pytest.raises(ServerUnavailable, match=r"server 'web' is busy \(HTTP 429 Too Many Requests\)"):
                await servers.call("web:pid")
            assert servers.states()[0].state == "ready"
            busy.clear()
            assert (await servers.call("web:pid")).text == first


async def test_changes_are_heard_however_often_a_proxy_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_connection, "_LISTEN_AGAIN_S", 0.01)
    heard: list[set[str]] = []
    port, open_now = free_port(), set[asyncio.Transport]()

    async def on_listed(server: str, tools: tuple[Tool, ...]) -> None:
        heard.append({tool.name for tool in tools})

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        open_now.add(writer.transport)
        await asyncio.gather(_pump(reader, back), _pump(there, writer))
        open_now.discard(writer.transport)

    async with running("plain.py", port), await asyncio.start_server(forward, "127.0.0.1", 0) as proxy:
        url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}/mcp"
        async with Connections(config(web={"url": url}), on_listed=on_listed) as servers:
            await servers.call("web:pid")
            for ended in range(4):
                for transport in open_now:
                    transport.close()
                # A stream that is opened again is followed by a listing, since what changed meanwhile reached nobody.
                await until(lambda told=ended: len(heard) > told + 1)  # type: ignore[misc]
            await servers.call("web:grow")
            await until(lambda: "grown" in heard[-1])


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
