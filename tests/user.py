"""Somebody who starts `toolroute` in processes of its own, in a folder with a catalogue and a config."""

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.records.tool import Tool
from tests.decisions import CONVERT, DELETE, NOW, READ, schema
from tests.running import SERVERS
from tests.servers.start import entry

WAIT = Tool(
    server="plain",
    name="wait",
    description="Wait some seconds, then answer",
    input_schema=schema("seconds", seconds={"type": "number"}),
)


@dataclass
class User:
    """Their folder, and the address of the Temporal server that they use."""

    path: Path
    address: str

    async def toolroute(self, *arguments: str, typed: bytes | None = None) -> tuple[int, str, str]:
        """Exit code, standard output, standard error; `typed` is what the user types at a terminal."""
        ours, terminal = pty.openpty() if typed is not None else (None, None)
        process = await self.start(*arguments, stdin=terminal)
        if ours is not None and typed is not None:
            os.write(ours, typed)
        out, err = await asyncio.wait_for(process.communicate(), 90)
        for end in filter(None, (ours, terminal)):
            os.close(end)
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def start(self, *arguments: str, stdin: int | None = None) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "orchestrator", *arguments)
        # A suite that runs in the background ignores SIGINT or SIGHUP, and children would inherit that.
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=pipe if stdin is None else stdin,
            stdout=pipe,
            stderr=pipe,
            cwd=self.path,
            start_new_session=True,
            preexec_fn=_heed_interrupts,
        )

    async def is_waiting(self) -> None:
        """Returns once a step has called `wait`."""
        async with asyncio.timeout(60):
            while not (self.path / "count").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def run(self, task: str, *options: str, typed: bytes | None = None) -> tuple[int, Any, str]:
        shared = ("--catalogue", "tools.jsonl", "--config", "mcp.json", "--address", self.address, "-o", "json")
        if typed is None and "--approve" not in options:
            options = (*options, "--approve", "never")
        code, out, err = await self.toolroute("run", task, *shared, *options, typed=typed)
        return code, json.loads(out) if out else None, err


def _heed_interrupts() -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def user(tmp_path: Path, temporal_address: str) -> User:
    lines = [json.dumps({"kind": str(tool.kind), **_listed(tool)}) for tool in (NOW, CONVERT, READ, DELETE, WAIT)]
    (tmp_path / "tools.jsonl").write_text("\n".join(lines))
    servers = {**SERVERS["mcpServers"], "plain": entry("plain.py", COUNT_FILE=str(tmp_path / "count"))}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return User(tmp_path, temporal_address)


def _listed(tool: Any) -> dict[str, Any]:
    wanted = ("server", "name", "description", "input_schema")
    return {name: value for name, value in asdict(tool).items() if name in wanted}


@asynccontextmanager
async def served(user: User, task_queue: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await user.start(
        *("worker", "--catalogue", "tools.jsonl", "--config", "mcp.json"),
        *("--address", user.address, "--task-queue", task_queue),
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"serves" not in (line := await process.stderr.readline()):
                assert line, "the worker ended"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
