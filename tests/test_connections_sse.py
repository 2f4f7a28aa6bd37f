"""The older transport over HTTP: named in the entry or found where a URL takes no other one."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator import Connections
from orchestrator.errors import ServerUnavailable, Unauthorised
from tests.loopback import served
from tests.servers.byhand import HELLO, text, tool
from tests.servers.start import config, owners


@pytest.mark.parametrize("own", [{"type": "sse"}, {"transport": "sse"}, {}, {"type": "http"}])
async def test_a_server_that_only_speaks_sse_is_called(own: dict[str, Any]) -> None:
    with served(by_hand("/messages", lambda _: None)) as web:
        async with Connections(config(old={"url": f"{web}/sse", **own})) as servers:
            assert (await servers.call("old:it")).text == "fine"
    assert owners() == []


def asking_for(token: str) -> ASGIApp:
    """An SSE server that answers nothing without this token."""
    server = MCPServer("guarded")

    @server.tool()
    def hello() -> str:
        return "hello"

    app = server.sse_app()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (b"authorization", f"Bearer {token}".encode()) not in scope["headers"]:
            await PlainTextResponse("no", 401)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


@pytest.mark.parametrize("own", [{"type": "sse"}, {}])
async def test_headers_are_sent_with_the_stream_and_the_messages(own: dict[str, Any]) -> None:
    with served(asking_for("s3cret-token")) as web:
        entry = {"url": f"{web}/sse", "headers": {"Authorization": "Bearer ${TOKEN}"}, **own}
        async with Connections(config(old=entry), environ={"TOKEN": "s3cret-token"}) as servers:
            assert (await servers.call("old:hello")).text == "hello"
        async with Connections(config(old=entry), environ={"TOKEN": "another"}) as servers:
            with pytest.raises(Unauthorised, match="HTTP 401 Unauthorized"):
                await servers.call("old:hello")


def by_hand(endpoint: str, take: Callable[[Any], Response | None]) -> Starlette:
    """Serve one tool. The server's stream names `endpoint`, and `take` may refuse a message there."""
    answers = asyncio.Queue[dict[str, Any]]()
    results = {"initialize": HELLO, "tools/list": {"tools": [tool("it")]}, "tools/call": text("fine")}

    async def stream(request: Request) -> Response:
        async def events() -> AsyncIterator[str]:
            yield f"event: endpoint\ndata: {endpoint}\n\n"
            with contextlib.suppress(asyncio.CancelledError):
                while True:
                    yield f"event: message\ndata: {json.dumps(await answers.get())}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def message(request: Request) -> Response:
        asked = await request.json()
        if refused := take(asked):
            return refused
        if "id" in asked:
            answers.put_nowait({"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]})
        return PlainTextResponse("Accepted", 202)

    return Starlette(routes=[Route("/sse", stream), Route("/messages", message, methods=["POST"])])


async def test_a_message_that_is_refused_is_answered_at_once() -> None:
    def take(asked: Any) -> Response | None:
        return PlainTextResponse("too many calls", 429) if asked["method"] == "tools/call" else None

    with served(by_hand("/messages", take)) as web:
        old = {"url": f"{web}/sse", "type": "sse", "toolroute": {"call_timeout_s": 100}}
        async with Connections(config(old=old)) as servers, asyncio.timeout(50):
            with pytest.raises(ServerUnavailable, match=r"is busy \(HTTP 429 Too Many Requests: too many calls\)"):
                await servers.call("old:it")
            assert [tool.name for tool in await servers.tools("old", fresh=True)] == ["it"]


async def test_messages_go_to_no_other_host_than_the_streams() -> None:
    seen = list[Any]()
    with (
        served(by_hand("/messages", seen.append)) as other,
        served(by_hand(f"{other}/messages", seen.append)) as web,
    ):
        old = {"url": f"{web}/sse", "type": "sse", "headers": {"Authorization": "Bearer s3cret"}}
        async with Connections(config(old=old), connect_timeout_s=10) as servers:
            with pytest.raises(ServerUnavailable):
                await servers.tools("old")
    assert seen == []
