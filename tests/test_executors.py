import asyncio
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from orchestrator.errors import (
    InvalidArguments,
    InvalidConfig,
    OutcomeUnknown,
    ServerUnavailable,
    ToolFailed,
)
from orchestrator.mcp.connections import Connections
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.tool import Kind, Tool
from orchestrator.temporal.executors import Executor, Executors, hold
from orchestrator.temporal.payload import MAX_RESULT_BYTES
from tests.decisions import DELETE, NOW, READ, TEXT, schema

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


class Gate:
    """A tool in each shape that there is; it answers when the gate opens."""

    def __init__(self) -> None:
        self.opened, self.calls = threading.Event(), 0

    def blocking(self, path: str) -> str:
        self.calls += 1
        self.opened.wait(50)
        return path

    async def waiting(self, path: str) -> str:
        await asyncio.sleep(50)
        return path

    class Own(Executor):
        async def execute(self, call: ToolCall) -> ToolResult:
            await asyncio.sleep(50)
            return ToolResult(text="")


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.mark.parametrize("shape", ["blocking", "waiting", "Own"])
@pytest.mark.parametrize(
    ("tool", "error", "said"),
    [(DELETE, OutcomeUnknown, "not known whether it took effect"), (READ, ServerUnavailable, "may be called again")],
)
async def test_a_call_ends_at_its_deadline_and_says_whether_it_may_go_again(
    gate: Gate, shape: str, tool: Tool, error: type[Exception], said: str
) -> None:
    function = Gate.Own() if shape == "Own" else getattr(gate, shape)
    late = replace(call(tool, path="a.txt"), deadline_s=0.2)
    with pytest.raises(error, match=rf"no answer within .*: it had 0\.2 s; .*{said}"):
        async with asyncio.timeout(20):
            await Executors({tool.key: function}).execute(late)


async def test_a_call_that_found_no_thread_before_its_deadline_was_not_made(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.temporal.executors.MAX_THREADS", 1)
    executors, others = Executors({DELETE.key: gate.blocking}), Executors({READ.key: lambda path: path})
    late = replace(call(DELETE, path="a.txt"), deadline_s=0.2)
    for error in (OutcomeUnknown, ServerUnavailable):
        with pytest.raises(error):
            await executors.execute(late)
    assert (await others.execute(call(READ, path="b.txt"))).text == "b.txt"
    gate.opened.set()
    assert (await executors.execute(call(DELETE, path="c.txt"))).text == "c.txt"
    assert gate.calls == 2


async def test_a_function_s_own_timeout_is_its_failure() -> None:
    async def read(path: str) -> str:
        raise TimeoutError(f"{path} is slow")

    with pytest.raises(ToolFailed, match=r"TimeoutError: a\.txt is slow"):
        await Executors({READ.key: read}).execute(replace(call(READ, path="a.txt"), deadline_s=20))


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
        result = await Executors().execute(call(NOW, timezone="Europe/Berlin"), connections)
        wrong = await Executors().execute(call(NOW, timezone="Nowhere/Land"), connections)
    assert "Europe/Berlin" in result.text
    assert wrong.is_error


def test_a_result_is_held_to_tokens_and_bytes() -> None:
    many = hold(ToolResult(text="word " * 10_000, structured={"all": "word " * 10_000}), 500)
    assert many.truncated
    assert many.structured is None
    assert many.tokens <= 500
    assert "left out" in many.text
    blanks = hold(ToolResult(text=" " * 5_000_000), 500)  # one token, five megabytes
    assert len(blanks.text) < MAX_RESULT_BYTES + 100
    assert blanks.truncated
    small = ToolResult(text="fine", tokens=1)
    assert hold(small, 500) == small
