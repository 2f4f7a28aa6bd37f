"""Real clients of each kind before `toolroute serve`: what may change something is asked for first, or refused."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestFormParams, ElicitResult

from tests.servers.real import node, node_servers_installed
from tests.servers.start import config, entry, text_of
from tests.test_serve_process import SERVE, TOKENS, over_http

WAIT = {"tool": "quick:wait", "arguments": {"seconds": 0}}
ASKING = ("--approve", "changes")
ASK = Path(__file__).parent / "node" / "ask.mjs"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(config(quick=entry("quick.py", COUNT_FILE=str(tmp_path / "count")))))
    return path


def changes(file: Path) -> int:
    """How many calls have reached the tool."""
    count = file.parent / "count"
    return len(count.read_text().splitlines()) if count.exists() else 0


@asynccontextmanager
async def asked_by(kind: str, file: Path, answer: str | None) -> AsyncIterator[tuple[Client, list[str]]]:
    """A client of this kind whose user answers so (None: it cannot ask), and what its user was asked."""
    asked = list[str]()

    async def ask(_: object, params: ElicitRequestFormParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action=answer, content={})  # type: ignore[arg-type]

    transport, _, mode = kind.partition(" ")
    callback: Any = ask if answer else None
    async with AsyncExitStack() as stack:
        if transport == "http":
            url, _ = await stack.enter_async_context(over_http(file, *ASKING))
            headers = {"Authorization": f"Bearer {TOKENS['local']}"}
            web = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=150, trust_env=False))
            opened: Any = streamable_http_client(url, http_client=web)
        else:
            arguments = [*SERVE[1:], *ASKING, "--config", str(file), "--store", str(file.parent / "store")]
            opened = stdio_client(StdioServerParameters(command=SERVE[0], args=arguments))
        client: Any = Client(opened, mode=mode, elicitation_callback=callback)  # type: ignore[arg-type]
        yield await stack.enter_async_context(client), asked


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stdio auto", "stdio legacy", "http auto", "http legacy"])
async def test_a_client_changes_nothing_unasked(file: Path, kind: str) -> None:
    can_ask = kind != "http legacy"  # Its session ends with its request, so there is nobody to ask.
    for answer in (None, "decline"):
        async with asked_by(kind, file, answer) as (client, asked):
            for name, arguments in (
                ("call_tool", WAIT),
                ("call_tool", {**WAIT, "arguments": '{"seconds": 0}'}),
                ("quick:wait", WAIT["arguments"]),
                ("call_tool", {"tool": "quick:crash"}),
            ):
                refused = await client.call_tool(name, arguments)  # type: ignore[arg-type]
                remedy = (
                    "the user did not approve it" if asked else "this client cannot ask; call it with `toolroute call`"
                )
                assert (refused.is_error, remedy in text_of(refused)) == (True, True)
            assert (changes(file), len(asked)) == (0, 4 if answer and can_ask else 0)
    async with asked_by(kind, file, "accept") as (client, asked):
        done = await client.call_tool("call_tool", WAIT)
        assert (text_of(done) == "waited", changes(file), len(asked)) == (can_ask, int(can_ask), int(can_ask))


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
async def test_a_client_of_another_library_changes_nothing_unasked(
    file: Path, answer: str, asked: int, said: str
) -> None:
    serve = (*SERVE, *ASKING, "--config", str(file), "--store", str(file.parent / "store"))
    process = await asyncio.create_subprocess_exec(
        *(str(node), ASK, answer, "quick:wait", '{"seconds": 0}', *serve), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    answered = json.loads(out)
    assert (answered["asked"], said in answered["text"]) == (asked, True)
    assert changes(file) == (answer == "accept")
