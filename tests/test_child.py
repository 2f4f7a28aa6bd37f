"""Servers end with toolroute, however it ends, and end the processes that they started."""

import json
import signal
from pathlib import Path

import pytest

from orchestrator import Connections
from tests.servers.byhand import HELLO
from tests.servers.start import alive, config, entry
from tests.user import User
from tests.waiting import until

SEARCH = {"name": "search", "arguments": {"query": "wait"}}
ASKED = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {**HELLO, "capabilities": {}, "clientInfo": HELLO["serverInfo"]},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": SEARCH},
)
"""What a client of `serve` says until it connects its servers."""


def outliving(count: Path) -> dict[str, object]:
    return entry("faulty.py", "outlive", COUNT_FILE=str(count))


def noted(count: Path) -> list[str]:
    return count.read_text().split() if count.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "servers"),
    [
        (("tools", "sync", "mcp.json"), 8),
        (("serve", "--config", "mcp.json"), 3),
        (("run", "Wait 60 seconds", "--arg", "seconds=60", "--approve", "never", "--catalogue", "tools.jsonl"), 1),
    ],
)
async def test_no_server_outlives_a_toolroute_that_is_killed(
    user: User, arguments: tuple[str, ...], servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = user.path / "pids"
    names = ["plain", *(f"other_{number}" for number in range(1, servers))]
    (user.path / "mcp.json").write_text(json.dumps(config(**dict.fromkeys(names, outliving(count)))))
    if arguments[0] == "run":
        arguments = (*arguments, "--config", "mcp.json", "--address", user.address)
    process = await user.start(*arguments)
    assert process.stdin is not None
    if arguments[0] == "serve":
        process.stdin.write("".join(f"{json.dumps(asked)}\n" for asked in ASKED).encode())
    await until(lambda: len(noted(count)) >= 2)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    await until(lambda: not any(map(alive, noted(count))))


async def test_closing_ends_what_a_server_started_and_a_server_that_does_not_end(tmp_path: Path) -> None:
    count = tmp_path / "pids"
    async with Connections(config(plain=outliving(count))) as servers:
        await servers.tools("plain")
        assert len(noted(count)) == 2
        assert all(map(alive, noted(count)))
    # A killed process is there until the system has ended it.
    await until(lambda: not any(map(alive, noted(count))))
