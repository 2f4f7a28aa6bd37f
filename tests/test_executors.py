"""Executors: functions, Executors of the user's own, HTTP endpoints over real HTTP, and real MCP servers."""

import asyncio
import gzip
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from orchestrator import Executor, HttpExecutor, Kind, Tool, ToolCall, ToolResult
from orchestrator.errors import (
    Busy,
    InvalidConfig,
    OutcomeUnknown,
    ServerUnavailable,
    ToolFailed,
    Unauthorised,
)
from orchestrator.temporal.worker.executors import Executors, hold
from orchestrator.temporal.workflow.payload import MAX_RESULT_BYTES
from tests.decisions import DELETE, NOW, READ, TEXT, schema
from tests.loopback import served

AGENT = Tool(server="agents", name="analyst", kind=Kind.AGENT, input_schema=schema("question", question=TEXT))


def call(tool: Tool, **arguments: Any) -> ToolCall:
    return ToolCall(tenant="org:1", tool=tool, arguments=arguments, idempotency_key="w:p:s1")


@dataclass
class Employee:
    name: str
    since: date
    photo: bytes = b"\x00\xff"


async def test_a_plain_function_runs_in_a_thread_and_its_records_and_times_become_json() -> None:
    def read(path: str) -> Iterator[Any]:
        yield {"staff": [Employee(path, date(2024, 1, 2))], "size": Decimal("1.5"), "kinds": {"one"}}
        yield threading.current_thread() is threading.main_thread()

    result = await Executors({"files:read_file": read}).execute(call(READ, path="Ana"))
    employee = {"name": "Ana", "since": "2024-01-02", "photo": "AP8="}
    assert result.structured == [{"staff": [employee], "size": "1.5", "kinds": ["one"]}, False]


async def test_a_function_that_returns_a_coroutine_is_awaited() -> None:
    async def answer(path: str) -> str:
        await asyncio.sleep(0)
        return f"content of {path}"

    executors = Executors({"files:read_file": lambda path: answer(path)})
    assert (await executors.execute(call(READ, path="a.txt"))).text == "content of a.txt"


async def test_a_null_for_an_optional_parameter_is_left_out() -> None:
    def given(call: ToolCall) -> Any:
        return dict(call.arguments)

    noted = replace(AGENT, input_schema=schema("question", question=TEXT, note=TEXT), hash="")
    result = await Executors({"agents:*": given}).execute(call(noted, question="why", note=None))
    assert result.structured == {"question": "why"}


async def test_a_function_that_exits_fails_its_call_alone() -> None:
    def leave(path: str) -> str:
        raise SystemExit(3)

    with pytest.raises(ToolFailed, match=r"files:read_file: the function called sys.exit\(3\)"):
        await Executors({"files:read_file": leave}).execute(call(READ, path="a.txt"))


class Gate(Executor):
    """A tool in each possible shape. It answers when the gate opens."""

    def __init__(self) -> None:
        self.opened, self.calls = threading.Event(), 0

    def blocking(self, path: str) -> str:
        self.calls += 1
        self.opened.wait(50)
        return path

    async def waiting(self, path: str) -> str:
        await asyncio.sleep(50)
        return path

    async def execute(self, call: ToolCall) -> ToolResult:
        return ToolResult(text=await self.waiting(""))


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.mark.parametrize("shape", ["blocking", "waiting", ""])
@pytest.mark.parametrize(
    ("tool", "error", "said"),
    [(DELETE, OutcomeUnknown, "may have taken effect"), (READ, ServerUnavailable, "may be called again")],
)
async def test_a_call_ends_at_its_deadline_and_says_whether_it_may_go_again(
    gate: Gate, shape: str, tool: Tool, error: type[Exception], said: str
) -> None:
    executors = Executors({tool.key: getattr(gate, shape) if shape else gate})
    with pytest.raises(error, match=rf"no answer within 0\.2 seconds, .*; .*{said}"):
        async with asyncio.timeout(150):
            await executors.execute(replace(call(tool, path="a.txt"), deadline_s=0.2))


async def test_a_function_that_hangs_keeps_its_thread_from_its_own_tenant_alone(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.temporal.worker.executors.MAX_THREADS", 2)
    executors = Executors({DELETE.key: gate.blocking})
    late = replace(call(DELETE, path="a.txt"), deadline_s=0.2)
    for error, tenant in ((OutcomeUnknown, "org:1"), (Busy, "org:1"), (OutcomeUnknown, "org:2")):
        with pytest.raises(error):
            await executors.execute(replace(late, tenant=tenant))
    gate.opened.set()
    assert (await executors.execute(replace(call(DELETE, path="c.txt"), tenant="org:3"))).text == "c.txt"
    assert gate.calls == 3


async def test_the_most_particular_executor_is_chosen() -> None:
    def whole(named: str) -> Any:
        return lambda call: f"{named} {call.tool.key} {call.idempotency_key}"

    registered = {"agents:*": whole("server"), "builtin": whole("kind"), "files:read_file": lambda path: f"tool {path}"}
    executors = Executors(registered)
    assert (await executors.execute(call(READ, path="a"))).text == "tool a"
    assert (await executors.execute(call(AGENT, question="why"))).text == "server agents:analyst w:p:s1"
    other = Tool(server="x", name="y", kind=Kind.BUILTIN)
    assert (await executors.execute(call(other))).text == "kind x:y w:p:s1"


@pytest.mark.parametrize(
    ("tool", "remedy"),
    [(NOW, "mcpServers"), (AGENT, "executors="), (Tool(server="w", name="f", kind=Kind.WORKFLOW), "child workflow")],
)
async def test_a_tool_without_an_executor_names_the_remedy(tool: Tool, remedy: str) -> None:
    with pytest.raises(InvalidConfig, match=remedy):
        await Executors().execute(call(tool, **dict.fromkeys((tool.input_schema or {}).get("required", ()), "UTC")))


@pytest.mark.parametrize(
    ("registered", "said"),
    [*(({name: print}, "by its key") for name in ("agentt", "files:", ":read", "")), ({READ.key: "no"}, "Executor")],
)
def test_a_wrong_registration_is_refused(registered: Any, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        Executors(registered)


def test_a_result_is_held_to_tokens_and_bytes() -> None:
    many = hold(ToolResult(text="word " * 10_000, structured={"all": "word " * 10_000}), 500)
    assert (many.truncated, many.structured) == (True, None)
    assert many.tokens <= 500
    assert "left out" in many.text
    blanks = hold(ToolResult(text=" " * 5_000_000), 500)  # one token, five megabytes
    assert len(blanks.text) < MAX_RESULT_BYTES + 100
    small = ToolResult(text="fine", tokens=1)
    assert hold(small, 500) == small


class Endpoint:
    """A loopback HTTP server that gives the test's answers and keeps its requests."""

    def __init__(self) -> None:
        self.reply: Response = PlainTextResponse("")
        self.bodies: list[Any] = []
        self.keys: list[str] = []
        self.url = ""

    async def answer(self, request: Request) -> Response:
        self.bodies.append(await request.json())
        self.keys.append(request.headers["idempotency-key"])
        return self.reply

    async def ask(self, asked: ToolCall, path: str = "", **headers: str) -> ToolResult:
        """Return the result of an HttpExecutor for this endpoint."""
        http = HttpExecutor(f"{self.url}{path}", headers=headers)
        try:
            return await http.execute(asked)
        finally:
            await http.aclose()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()
    with served(Starlette(routes=[Route("/", found.answer, methods=["POST"])])) as address:
        found.url = f"{address}/"
        yield found


@pytest.mark.parametrize("workflow", ["w", "Auftrag-ü-1", "two\nlines", "50%"])
async def test_an_http_endpoint_gets_the_call_and_its_key(endpoint: Endpoint, workflow: str) -> None:
    endpoint.reply = JSONResponse({"answer": 42})
    asked = replace(call(AGENT, question="why"), idempotency_key=f"{workflow}:p:s1")
    assert (await endpoint.ask(asked, Authorization="Bearer secret")).structured == {"answer": 42}
    assert endpoint.bodies == [{"tool": "agents:analyst", "arguments": {"question": "why"}, "tenant": "org:1"}]
    assert unquote(endpoint.keys[0]) == f"{workflow}:p:s1"


@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        (401, {}, Unauthorised),
        (503, {}, OutcomeUnknown),
        (503, {"Retry-After": "1"}, ServerUnavailable),
        (429, {}, ServerUnavailable),
        (500, {}, ToolFailed),
        (502, {}, OutcomeUnknown),
        (307, {}, ToolFailed),
    ],
)
async def test_http_errors_say_whether_trying_again_helps(
    endpoint: Endpoint, status: int, headers: dict[str, str], error: type[Exception]
) -> None:
    endpoint.reply = PlainTextResponse("no", status_code=status, headers=headers)
    with pytest.raises(error):
        await endpoint.ask(call(AGENT, question="why"))


@pytest.mark.parametrize("status", [200, 500])
async def test_an_endpoint_that_repeats_its_credentials_shows_them_to_nobody(
    endpoint: Endpoint, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    endpoint.reply = PlainTextResponse("you sent Bearer abc123 with key=4711x", status_code=status)
    try:
        said = (await endpoint.ask(call(AGENT, question="why"), "?key=4711x", Authorization="Bearer abc123")).text
    except ToolFailed as error:
        said = str(error)
    assert "you sent" in said
    assert "HTTP Request" in caplog.text
    assert not [secret for secret in ("abc123", "4711x") if secret in said + caplog.text]


@pytest.mark.parametrize("value", ["Bearer abc\n", "Bearer abc ", "Bearer äbc"])
def test_a_header_that_http_cannot_carry_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(InvalidConfig, match="Authorization") as failure:
        HttpExecutor("https://agents.example/call", headers={"Authorization": value})
    assert "bc" not in str(failure.value)


async def test_a_reply_that_unpacks_to_too_much_is_refused(endpoint: Endpoint) -> None:
    packed = gzip.compress(bytes(25 * 2**20))
    endpoint.reply = Response(packed, headers={"content-encoding": "gzip", "content-type": "text/plain"})
    with pytest.raises(ToolFailed, match="the answer has more than 24 MiB"):
        await endpoint.ask(call(AGENT, question="why"))


async def test_an_endpoint_that_is_not_there_was_sent_nothing() -> None:
    http = HttpExecutor("http://me:secret@127.0.0.1:1/hooks/aB3dE5gH7jK9mN1pQ3sT/call?key=secret")
    with pytest.raises(ServerUnavailable, match=r"http://127\.0\.0\.1:1/hooks/\*\*\*/call cannot") as failure:
        await http.execute(call(AGENT, question="why"))
    await http.aclose()
    assert not [secret for secret in ("secret", "aB3dE5") if secret in str(failure.value)]


async def test_an_answer_that_never_comes_leaves_the_outcome_unknown() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10_000)
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        http = HttpExecutor(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", timeout_s=2)
        with pytest.raises(OutcomeUnknown):
            await http.execute(call(AGENT, question="why"))
        await http.aclose()
