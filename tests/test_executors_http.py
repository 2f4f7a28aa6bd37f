"""Calls of an HTTP endpoint, over real HTTP: what it gets, and what its answers mean."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from orchestrator.errors import (
    InvalidConfig,
    OutcomeUnknown,
    ServerUnavailable,
    ToolFailed,
    ToolrouteError,
    Unauthorised,
)
from orchestrator.temporal.executors import Executors, HttpExecutor
from tests.test_executors import AGENT, call


class Endpoint:
    """A loopback HTTP server that answers as the test says and keeps what it was sent."""

    def __init__(self) -> None:
        self.reply: Response = PlainTextResponse("")
        self.bodies: list[Any] = []
        self.keys: list[str] = []

    async def answer(self, request: Request) -> Response:
        self.bodies.append(await request.json())
        self.keys.append(request.headers["idempotency-key"])
        return self.reply


@pytest.fixture
async def endpoint() -> AsyncIterator[tuple[Endpoint, str]]:
    found = Endpoint()
    app = Starlette(routes=[Route("/", found.answer, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  (uvicorn has no event to wait for)
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield found, f"http://127.0.0.1:{port}/"
    server.should_exit = True
    await serving


async def test_an_http_endpoint_gets_the_call_and_its_key(endpoint: tuple[Endpoint, str]) -> None:
    server, url = endpoint
    server.reply = JSONResponse({"answer": 42})
    http = HttpExecutor(url, headers={"Authorization": "Bearer secret"})
    result = await Executors({"agent": http}).execute(call(AGENT, question="why"))
    await http.aclose()
    assert result.structured == {"answer": 42}
    assert server.bodies == [{"tool": "agents:analyst", "arguments": {"question": "why"}, "tenant": "org:1"}]
    assert server.keys == ["w:p:s1"]


@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        (401, {}, Unauthorised),
        (503, {}, OutcomeUnknown),
        (503, {"Retry-After": "1"}, ServerUnavailable),
        (429, {}, ServerUnavailable),
        (500, {}, ToolFailed),
        (502, {}, OutcomeUnknown),
        (504, {}, OutcomeUnknown),
        (307, {}, InvalidConfig),
    ],
)
async def test_http_errors_say_whether_trying_again_helps(
    endpoint: tuple[Endpoint, str], status: int, headers: dict[str, str], error: type[ToolrouteError]
) -> None:
    server, url = endpoint
    server.reply = PlainTextResponse("no", status_code=status, headers=headers)
    http = HttpExecutor(url)
    with pytest.raises(error):
        await http.execute(call(AGENT, question="why"))
    await http.aclose()


@pytest.mark.parametrize("workflow", ["Auftrag-ü-1", "漢字", "two\nlines", "50%"])
async def test_a_key_of_any_letters_reaches_the_endpoint(endpoint: tuple[Endpoint, str], workflow: str) -> None:
    server, url = endpoint
    http = HttpExecutor(url)
    await http.execute(replace(call(AGENT, question="why"), idempotency_key=f"{workflow}:p:s1"))
    await http.aclose()
    assert unquote(server.keys[0]) == f"{workflow}:p:s1"


@pytest.mark.parametrize("status", [200, 500])
async def test_an_endpoint_that_repeats_its_credentials_tells_them_nobody(
    endpoint: tuple[Endpoint, str], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server, url = endpoint
    server.reply = PlainTextResponse("you sent Bearer abc123 with key=4711x", status_code=status)
    http = HttpExecutor(f"{url}?key=4711x", headers={"Authorization": "Bearer abc123"})
    try:
        said = (await http.execute(call(AGENT, question="why"))).text
    except ToolFailed as error:
        said = str(error)
    await http.aclose()
    assert "you sent" in said
    assert "HTTP Request" in caplog.text
    assert "abc123" not in said + caplog.text
    assert "4711x" not in said + caplog.text


@pytest.mark.parametrize("value", ["Bearer abc\n", "Bearer abc ", "Bearer äbc"])
def test_a_header_that_http_cannot_carry_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(InvalidConfig, match="Authorization") as failure:
        HttpExecutor("https://agents.example/call", headers={"Authorization": value})
    assert "bc" not in str(failure.value)


async def test_an_endpoint_that_is_not_there_was_sent_nothing() -> None:
    http = HttpExecutor("http://me:secret@127.0.0.1:1/hooks/aB3dE5gH7jK9mN1pQ3sT/call?key=secret")
    with pytest.raises(
        ServerUnavailable, match=r"http://127\.0\.0\.1:1/hooks/\*\*\*/call cannot be reached"
    ) as failure:
        await http.execute(call(AGENT, question="why"))
    await http.aclose()
    assert "secret" not in str(failure.value)
    assert "aB3dE5" not in str(failure.value)


async def test_an_answer_that_never_comes_leaves_the_outcome_unknown() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10_000)
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        http = HttpExecutor(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", timeout_s=2)
        with pytest.raises(OutcomeUnknown):
            await http.execute(call(AGENT, question="why"))
        await http.aclose()
