import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from orchestrator.connections import Connections
from orchestrator.errors import (
    InvalidArguments,
    InvalidConfig,
    OutcomeUnknown,
    ServerUnavailable,
    ToolFailed,
    ToolrouteError,
    Unauthorised,
)
from orchestrator.executors import Executor, Executors, HttpExecutor, hold
from orchestrator.held import MAX_RESULT_BYTES
from orchestrator.models import Kind, Tool
from orchestrator.plans import ToolCall, ToolResult
from tests.decisions import NOW, READ, TEXT, schema

AGENT = Tool(server="agents", name="analyst", kind=Kind.AGENT, input_schema=schema("question", question=TEXT))


def call(tool: Tool, **arguments: Any) -> ToolCall:
    return ToolCall(tenant="org:1", tool=tool, arguments=arguments, idempotency_key="w:p:s1")


async def test_an_async_function_gets_the_arguments_by_name() -> None:
    async def read(path: str) -> str:
        return f"content of {path}"

    result = await Executors({"files:read_file": read}).execute(call(READ, path="a.txt"))
    assert result.text == "content of a.txt"
    assert result.tokens > 0


async def test_a_plain_function_runs_in_a_thread_and_its_value_becomes_structured() -> None:
    def read(path: str) -> dict[str, Any]:
        return {"path": path, "main": threading.current_thread() is threading.main_thread()}

    result = await Executors({"files:read_file": read}).execute(call(READ, path="a.txt"))
    assert result.structured == {"path": "a.txt", "main": False}


async def test_a_plain_function_s_arguments_may_have_any_name() -> None:
    names = ("self", "work", "call", "function", "func", "context")
    tool = Tool(server="s", name="keep", kind=Kind.AGENT, input_schema=schema(**dict.fromkeys(names, TEXT)))

    def keep(**arguments: str) -> dict[str, str]:
        return arguments

    result = await Executors({"s:keep": keep}).execute(call(tool, **dict.fromkeys(names, "a")))
    assert result.structured == dict.fromkeys(names, "a")


@dataclass
class Employee:
    name: str
    since: date
    photo: bytes = b"\x00\xff"


async def test_a_functions_records_and_times_become_json() -> None:
    def read(path: str) -> dict[str, Any]:
        return {"staff": [Employee(path, date(2024, 1, 2))], "size": Decimal("1.5"), "kinds": {"one"}}

    result = await Executors({"files:read_file": read}).execute(call(READ, path="Ana"))
    employee = {"name": "Ana", "since": "2024-01-02", "photo": "AP8="}
    assert result.structured == {"staff": [employee], "size": "1.5", "kinds": ["one"]}


async def test_functions_that_block_keep_neither_each_other_nor_the_process_waiting() -> None:
    all_in, release = threading.Barrier(41), threading.Event()

    def block(**_: Any) -> str:
        all_in.wait(50)
        release.wait(50)
        return "done"

    executors = Executors({READ.key: block})
    calls = asyncio.gather(*(executors.execute(call(READ, path="a.txt")) for _ in range(40)))
    try:
        async with asyncio.timeout(20):
            await asyncio.to_thread(all_in.wait, 15)
    finally:
        release.set()
    assert {result.text for result in await calls} == {"done"}


async def test_the_most_particular_executor_is_chosen() -> None:
    def whole(named: str) -> Any:
        return lambda call: f"{named} {call.tool.key} {call.idempotency_key}"

    registered = {"agents:*": whole("server"), "builtin": whole("kind"), "files:read_file": lambda path: f"tool {path}"}
    executors = Executors(registered)
    assert (await executors.execute(call(READ, path="a"))).text == "tool a"
    assert (await executors.execute(call(AGENT, question="why"))).text == "server agents:analyst w:p:s1"
    other = Tool(server="x", name="y", kind=Kind.BUILTIN)
    assert (await executors.execute(call(other))).text == "kind x:y w:p:s1"


async def test_arguments_are_checked_before_anything_is_called() -> None:
    called: list[str] = []
    with pytest.raises(InvalidArguments, match="path"):
        await Executors({"files:read_file": called.append}).execute(call(READ, path=7))
    assert called == []


@pytest.mark.parametrize(
    ("tool", "remedy"),
    [(NOW, "mcpServers"), (AGENT, "executors="), (Tool(server="w", name="f", kind=Kind.WORKFLOW), "child workflow")],
)
async def test_a_tool_without_an_executor_names_the_remedy(tool: Tool, remedy: str) -> None:
    arguments = {"timezone": "UTC"} if tool is NOW else {"question": "why"}
    with pytest.raises(InvalidConfig, match=remedy):
        await Executors().execute(call(tool, **arguments))


@pytest.mark.parametrize("name", ["reader", "files:", ":read", ""])
def test_an_executor_under_a_name_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match="server:name"):
        Executors({name: print})


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="function or an Executor"):
        Executors({"files:read_file": "not a function"})  # type: ignore[dict-item]


async def test_an_exception_of_a_function_is_the_tools_failure() -> None:
    def read(path: str) -> str:
        raise OSError(f"{path} is gone")

    with pytest.raises(ToolFailed, match=r"OSError: a\.txt is gone"):
        await Executors({"files:read_file": read}).execute(call(READ, path="a.txt"))


async def test_an_executor_of_ones_own_decides_what_may_be_tried_again() -> None:
    class Busy(Executor):
        async def execute(self, call: ToolCall) -> ToolResult:
            raise ServerUnavailable("come back later")

    with pytest.raises(ServerUnavailable):
        await Executors({"builtin": Busy()}).execute(call(READ, path="a"))


async def test_mcp_tools_go_to_their_real_server() -> None:
    config = {"mcpServers": {"time": {"command": sys.executable, "args": ["-m", "mcp_server_time"]}}}
    async with Connections(config) as connections:
        executors = Executors(connections=connections)
        result = await executors.execute(call(NOW, timezone="Europe/Berlin"))
        wrong = await executors.execute(call(NOW, timezone="Nowhere/Land"))
    assert "Europe/Berlin" in result.text
    assert wrong.is_error


def test_a_result_is_held_to_tokens_and_bytes() -> None:
    many = hold(ToolResult(text="word " * 10_000, structured={"all": "word " * 10_000}), 500)
    assert many.truncated
    assert many.structured is None
    assert many.tokens <= 500
    assert "left out" in many.text
    blanks = hold(ToolResult(text=" " * 5_000_000), 500)  # one token, five megabytes
    assert len(blanks.text) < MAX_RESULT_BYTES
    assert blanks.truncated
    small = ToolResult(text="fine", tokens=1)
    assert hold(small, 500) == small


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
    ("status", "error"), [(401, Unauthorised), (503, ServerUnavailable), (429, ServerUnavailable), (500, ToolFailed)]
)
async def test_http_errors_say_whether_trying_again_helps(
    endpoint: tuple[Endpoint, str], status: int, error: type[ToolrouteError]
) -> None:
    server, url = endpoint
    server.reply = PlainTextResponse("no", status_code=status)
    http = HttpExecutor(url)
    with pytest.raises(error):
        await http.execute(call(AGENT, question="why"))
    await http.aclose()


async def test_an_endpoint_that_is_not_there_was_sent_nothing(endpoint: tuple[Endpoint, str]) -> None:
    http = HttpExecutor("http://127.0.0.1:1/")
    with pytest.raises(ServerUnavailable, match="cannot be reached"):
        await http.execute(call(AGENT, question="why"))
    await http.aclose()


async def test_an_answer_that_never_comes_leaves_the_outcome_unknown() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10_000)
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        http = HttpExecutor(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", timeout_s=2)
        with pytest.raises(OutcomeUnknown):
            await http.execute(call(AGENT, question="why"))
        await http.aclose()
