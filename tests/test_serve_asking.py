"""Real clients of each kind before `toolroute serve`: a call that may change data is asked about first, or refused."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.types import ElicitRequestFormParams, ElicitResult

from tests.gateway import serving
from tests.serve_program import TOKENS, client_of, command_of, connected, over_http, states_of, write_servers
from tests.servers.real import node, node_servers_installed
from tests.servers.start import config, entry, text_of
from tests.waiting import until

WAIT = {"tool": "quick:wait", "arguments": {"seconds": 0}}
ASKING = ("--approve", "changes")
KINDS = ["stdio auto", "stdio legacy", "http auto", "http legacy"]
ASK = Path(__file__).parent / "node" / "ask.mjs"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_servers(tmp_path / "mcp.json", quick=entry("quick.py", COUNT_FILE=str(tmp_path / "count")))


def changes(file: Path) -> int:
    """How many calls have reached the tool."""
    count = file.parent / "count"
    return len(count.read_text().splitlines()) if count.exists() else 0


@asynccontextmanager
async def asked_by(kind: str, file: Path, answer: str | None) -> AsyncIterator[tuple[Client, list[str]]]:
    """Return a client whose user gives this answer (None: it cannot ask), and the questions to the user."""
    asked = list[str]()

    async def ask(_: object, params: ElicitRequestFormParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action=answer, content={})  # type: ignore[arg-type]

    transport, _, mode = kind.partition(" ")
    callback: Any = ask if answer else None
    async with connected(transport, file, *ASKING, mode=mode, elicitation_callback=callback) as client:
        yield client, asked


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_changes_nothing_unasked(file: Path, kind: str) -> None:
    for answer in (None, "decline"):
        async with asked_by(kind, file, answer) as (client, asked):
            for tool, arguments in (
                ("call_tool", WAIT),
                ("call_tool", {**WAIT, "arguments": '{"seconds": 0}'}),
                ("quick:wait", WAIT["arguments"]),
                ("call_tool", {"tool": "quick:crash"}),
            ):
                refused = await client.call_tool(tool, arguments)  # type: ignore[arg-type]
                remedy = "the user did not approve the call" if asked else "this client cannot ask"
                assert (refused.is_error, remedy in text_of(refused)) == (True, True)
            assert (changes(file), len(asked)) == (0, 4 if answer else 0)
    async with asked_by(kind, file, "accept") as (client, asked):
        done = await client.call_tool("call_tool", WAIT)
        assert (text_of(done), changes(file), len(asked)) == ("waited", 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_call_ends_at_its_server_and_frees_its_place(file: Path, kind: str) -> None:
    notes, begun = file.parent / "count", asyncio.Event()
    write_servers(file, plain=entry("plain.py", COUNT_FILE=str(notes)))

    async def on_progress(*_: object) -> None:
        begun.set()

    async with asked_by(kind, file, "accept") as (client, _):
        call = {"tool": "plain:wait", "arguments": {"seconds": 600}}
        calling = asyncio.create_task(client.call_tool("call_tool", call, progress_callback=on_progress))
        await begun.wait()
        calling.cancel()
        await until(lambda: notes.read_text() == "wait\nended early\n")
        assert [state["calls_in_flight"] for state in (await states_of(client)).values()] == [0]


async def test_a_cancelled_call_leaves_its_tenants_place_to_the_next(tmp_path: Path) -> None:
    notes, begun = tmp_path / "notes", asyncio.Event()

    async def on_progress(*_: object) -> None:
        begun.set()

    plain = entry("plain.py", COUNT_FILE=str(notes))
    async with (
        serving(tmp_path, config(plain=plain)) as served,
        served.client(mode="legacy", server={"most_calls": 1}) as client,
    ):
        wait = {"tool": "plain:wait", "arguments": {"seconds": 600}}
        calling = asyncio.create_task(client.call_tool("call_tool", wait, progress_callback=on_progress))
        await begun.wait()
        add = {"tool": "plain:add", "arguments": {"a": 1, "b": 2}}
        assert "Busy" in text_of(await client.call_tool("call_tool", add))
        calling.cancel()
        await until(lambda: notes.read_text() == "wait\nended early\n")
        assert text_of(await client.call_tool("call_tool", add)) == "3"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["2025-06-18", "2025-11-25"])
async def test_a_session_is_asked_and_a_client_that_keeps_none_is_refused(file: Path, protocol: str) -> None:
    async with over_http(file, *ASKING) as (url, _):
        headers = {"authorization": f"Bearer {TOKENS['local']}", "accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(headers=headers, timeout=150, trust_env=False) as web:
            about = {"protocolVersion": protocol, "clientInfo": {"name": "raw", "version": "1"}}
            hello = {**about, "capabilities": {"elicitation": {}}}
            sent = await web.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
            session = {"mcp-session-id": sent.headers["mcp-session-id"], "mcp-protocol-version": protocol}
            begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await web.post(url, json=begun, headers=session)).status_code == 202
            params = {"name": "call_tool", "arguments": WAIT}
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
            for other, status in (({}, 400), ({"mcp-session-id": "unknown"}, 404)):
                refused = await web.post(url, json=call, headers={"mcp-protocol-version": protocol, **other})
                assert (refused.status_code, "ession" in refused.text) == (status, True)
            async with web.stream("POST", url, json=call, headers=session) as answers:
                lines = (json.loads(line[6:]) async for line in answers.aiter_lines() if line.startswith("data: {"))
                question = await anext(lines)
                assert (question["method"], changes(file)) == ("elicitation/create", 0)
                yes = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}
                assert (await web.post(url, json=yes, headers=session)).status_code == 202
                assert (await anext(lines))["result"]["content"][0]["text"] == "waited"


@pytest.mark.slow
async def test_a_client_that_listens_does_not_delay_the_end(file: Path) -> None:
    async with over_http(file) as (url, process), client_of(url, mode="legacy") as client:
        await client.list_tools()
        process.terminate()
        assert process.stderr is not None
        said = (await process.stderr.read()).decode()
        assert (await process.wait(), "exceeded" in said, "Traceback" in said) == (0, False, False)


async def test_one_session_too_many_ends_the_one_that_was_idle_for_longest(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"org:1": "a" * 16, "org:2": "b" * 16}))
    async with serving(tmp_path, config()) as served, served.over_http(tokens, most_sessions=2) as web:

        async def post(token: str, **message: Any) -> httpx2.Response:
            accept = "application/json, text/event-stream"
            headers = {"authorization": f"Bearer {token * 16}", "accept": accept, **message.pop("headers", {})}
            return await web.post("/mcp", json={"jsonrpc": "2.0", "id": 1, **message}, headers=headers)

        about = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "raw", "version": "1"}, "capabilities": {}}

        async def opened(token: str) -> str:
            return (await post(token, method="initialize", params=about)).headers["mcp-session-id"]

        async def answers(token: str, session: str) -> int:
            return (await post(token, method="ping", headers={"mcp-session-id": session})).status_code

        other, first, second = await opened("b"), await opened("a"), await opened("a")
        assert await answers("a", first) == 200
        third = await opened("a")
        found = [await answers("a", session) for session in (first, second, third)]
        assert (found, await answers("b", other), await answers("b", first)) == ([200, 404, 200], 200, 404)


@pytest.mark.slow
async def test_a_yes_counts_for_the_call_that_was_shown_alone(file: Path) -> None:
    async with asked_by("http auto", file, "decline") as (client, _):
        asked = await client.session.call_tool("call_tool", WAIT, allow_input_required=True)
        (word,) = asked.input_requests
        yes = {word: ElicitResult(action="accept", content={})}
        for other in ({**WAIT, "arguments": {"seconds": 0.01}}, {"tool": "quick:crash"}):
            again = await client.session.call_tool("call_tool", other, input_responses=yes, allow_input_required=True)
            assert word not in again.input_requests
        assert changes(file) == 0
        assert text_of(await client.session.call_tool("call_tool", WAIT, input_responses=yes)) == "waited"


@pytest.mark.slow
@pytest.mark.skipif(
    not node_servers_installed and not os.environ.get("CI"), reason="the npm packages are not installed: make test"
)
@pytest.mark.parametrize(
    ("answer", "asked", "said"),
    [("none", 0, "this client cannot ask"), ("decline", 1, "did not approve"), ("accept", 1, "waited")],
)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_of_another_library_changes_nothing_unasked(
    file: Path, transport: str, answer: str, asked: int, said: str
) -> None:
    async with AsyncExitStack() as stack:
        if transport == "http":
            url, _ = await stack.enter_async_context(over_http(file, *ASKING))
            reached: tuple[str, ...] = (url, TOKENS["local"])
        else:
            reached = tuple(command_of(file, *ASKING))
        process = await asyncio.create_subprocess_exec(
            *(str(node), ASK, answer, "quick:wait", '{"seconds": 0}', *reached), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
    answered = json.loads(out)
    assert (answered["asked"], said in answered["text"]) == (asked, True)
    assert changes(file) == (answer == "accept")
