"""Servers over HTTP that restart, go away, die in mid-call or refuse: one outcome each, and no secret is shown."""

import asyncio
import contextlib
import gzip
import logging
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from orchestrator import Connections, Tool
from orchestrator.errors import (
    OutcomeUnknown,
    ServerUnavailable,
    ToolrouteError,
    Unauthorised,
)
from orchestrator.mcp.listing import changes
from tests.loopback import served
from tests.servers.byhand import HELLO, text, tool
from tests.servers.start import config, free_port, owners, running
from tests.waiting import until


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_an_http_server_that_restarts_is_called_again_and_one_that_is_gone_was_sent_nothing(mode: str) -> None:
    port = free_port()

    def seen_gone() -> bool:  # an older server has no stream whose end tells it
        return mode == "legacy" or servers.states()[0].state != "ready"

    async with Connections(config(web={"url": f"http://127.0.0.1:{port}/mcp"}), backoff_s=0.1) as servers:
        async with running("plain.py", port, mode):
            first = (await servers.call("web:pid")).text
        await until(seen_gone)
        async with running("plain.py", port, mode):
            assert (await servers.call("web:pid")).text != first
        await until(seen_gone)
        with pytest.raises(ServerUnavailable, match="cannot be reached"):
            await servers.call("web:pid")
    assert owners() == []


def answering(answer: Callable[[Request], Awaitable[Response]], path: str = "/mcp") -> AbstractContextManager[str]:
    return served(Starlette(routes=[Route(path, answer, methods=["POST"])]))


@pytest.mark.parametrize(
    ("path", "refusal", "error", "said"),
    [
        ("/mcp", PlainTextResponse("no such\npath", 404), ServerUnavailable, r"HTTP 404 Not Found: no such path$"),
        (
            "/mcp",
            JSONResponse({"error": f"{'x' * 181} s3cret-token {'y' * 50}"}, 403),
            Unauthorised,
            r'\(HTTP 403 Forbidden: \{"error":"x{181} \*\*\* yyyy\.\.\.\): check its headers',
        ),
        ("/mcp", HTMLResponse("<html>oops</html>", 503), ServerUnavailable, r"HTTP 503 Service Unavailable$"),
        ("/mcp", PlainTextResponse("Method Not Allowed", 405), ServerUnavailable, "HTTP 405 Method Not Allowed$"),
        ("/mcp", Response(status_code=401), Unauthorised, r"refused the credentials .*: check its headers$"),
    ],
)
async def test_a_refusal_tells_the_servers_reason_and_the_remedy_and_no_secret(
    path: str, refusal: Response, error: type[ToolrouteError], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def refuse(request: Request) -> Response:
        return refusal

    environ = {"TOKEN": "s3cret-token", "KEY": "s3cret-key"}
    with answering(refuse, path) as web:
        server = {"url": f"{web}{path}?key=${{KEY}}", "headers": {"Authorization": "Bearer ${TOKEN}"}}
        async with Connections(config(web=server), environ=environ) as servers:
            with pytest.raises(error, match=said) as caught:
                await servers.tools("web")
    assert "s3cret" not in f"{caught.value} {caplog.text}"


def answers(
    call: Callable[[], Response | None] = lambda: None, **results: Any
) -> Callable[[Request], Awaitable[Response]]:
    """Serve one tool in the protocol of 2025. `call` answers its calls. None: "fine"."""
    results = {"initialize": HELLO, "tools/list": {"tools": [tool("it")]}, "tools/call": text("fine"), **results}

    async def answer(request: Request) -> Response:
        asked = await request.json()
        if "id" not in asked:
            return Response(status_code=202)
        if asked["method"] == "tools/call" and (given := call()):
            return given
        result = results.get(asked["method"])
        told = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], **told})

    return answer


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (200, r"its answer was lost\. .* Cause: gave a message of more than 16 MiB or 500,000 values"),
        (500, r"HTTP 500 Internal Server Error: x{200}\.\.\."),
    ],
)
async def test_an_answer_that_unpacks_to_more_than_is_read_fills_no_memory(status: int, said: str) -> None:
    headers = {"content-type": "text/plain" if status == 500 else "application/json", "content-encoding": "gzip"}
    packed = gzip.compress(bytes(200_000_000).replace(b"\0", b"x"), 1)
    with answering(answers(lambda: Response(packed, status, headers))) as web:
        async with Connections(config(web={"url": f"{web}/mcp"})) as servers:
            assert [tool.name for tool in await servers.tools("web")] == ["it"]
            tracemalloc.start()
            try:
                with pytest.raises(OutcomeUnknown, match=said):
                    await servers.call("web:it")
                assert tracemalloc.get_traced_memory()[1] < 150_000_000
            finally:
                tracemalloc.stop()


async def test_listings_and_answers_are_mended_over_http_too() -> None:
    odd = {"tools/list": {"tools": [{"name": "it"}, {"name": 7}]}, "tools/call": {"structuredContent": {"count": 1}}}
    with answering(answers(**odd)) as web:
        async with Connections(config(bad={"url": f"{web}/mcp"})) as servers:
            assert [tool.name for tool in await servers.tools("bad")] == ["it"]
            assert (await servers.call("bad:it")).structured == {"count": 1}


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_a_call_whose_answer_cannot_be_read_has_an_unknown_outcome(kind: str) -> None:
    answer = '{"jsonrpc": "2.0", "id": 3, "result": {"secret"'
    content = f"data: {answer}\n\n" if kind == "text/event-stream" else answer
    with answering(answers(lambda: Response(content, media_type=kind))) as web:
        async with Connections(config(web={"url": f"{web}/mcp"})) as servers:
            with pytest.raises(OutcomeUnknown, match="its answer cannot be read") as error:
                await servers.call("web:it")
            assert "secret" not in str(error.value)
            assert servers.states()[0].state == "ready"


async def test_a_call_that_a_busy_server_refuses_was_not_carried_out_and_the_connection_stays() -> None:
    refusals = [Response(status_code=429)]
    with answering(answers(lambda: refusals.pop() if refusals else None)) as web:
        async with Connections(config(web={"url": f"{web}/mcp"})) as servers:
            with pytest.raises(ServerUnavailable, match=r"server 'web' is busy \(HTTP 429 Too Many Requests\)"):
                await servers.call("web:it")
            assert servers.states()[0].state == "ready"
            assert (await servers.call("web:it")).text == "fine"


async def test_an_entry_may_name_the_protocol_version() -> None:
    proposed: list[str] = []

    async def answer(request: Request) -> Response:
        asked = await request.json()
        if asked["method"] == "initialize":
            proposed.append(asked["params"]["protocolVersion"])
        is_probe = asked["method"] == "server/discover"
        return PlainTextResponse("closed", 403) if is_probe else await answers()(request)

    own = {"protocol_version": "2025-03-26"}
    with answering(answer) as web:
        async with Connections(config(web={"url": f"{web}/mcp", "toolroute": own})) as servers:
            assert (await servers.call("web:it")).text == "fine"
    assert proposed == ["2025-03-26"]


@pytest.mark.parametrize("status", [404, 410])
async def test_a_forgotten_session_is_begun_again(status: int) -> None:
    """410 says the same as 404, which the protocol asks for."""
    sessions: list[str] = []

    async def answer(request: Request) -> Response:
        method = (await request.json())["method"]
        if method == "initialize":
            sessions.append(f"s{len(sessions)}")
        elif method == "tools/call" and request.headers["mcp-session-id"] == "s0":
            return PlainTextResponse("gone", status)
        response = await answers()(request)
        response.headers["mcp-session-id"] = sessions[-1] if sessions else ""
        return response

    with answering(answer) as web:
        async with Connections(config(web={"url": f"{web}/mcp"})) as servers:
            assert (await servers.call("web:it")).text == "fine"
    assert sessions == ["s0", "s1"]


async def test_changes_are_heard_however_often_a_proxy_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_LISTEN_AGAIN_S", 0.01)
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
    with contextlib.closing(writer), contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
