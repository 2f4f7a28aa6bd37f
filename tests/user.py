"""A user who starts `toolroute` in separate processes, in a folder with a catalogue and a configuration."""

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Tool
from tests.decisions import CONVERT, DELETE, NOW, READ, schema
from tests.running import SERVERS
from tests.servers.start import entry
from tests.waiting import until

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

    async def toolroute(self, *arguments: str, stdin: int | None = None) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        process = await self.start(*arguments, stdin=stdin)
        out, err = await asyncio.wait_for(process.communicate(), 150)
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def at_terminal(self, *arguments: str, early: bytes, answers: list[bytes]) -> tuple[int, str, str]:
        """The same at a terminal: `early` is typed before anything is shown, each answer after its question."""
        ours, terminal = pty.openpty()
        os.write(ours, early)
        process = await self.start(*arguments, stdin=terminal, stderr=terminal)
        os.close(terminal)
        answering = asyncio.create_task(asyncio.to_thread(_answer, ours, answers))
        try:
            out, _ = await asyncio.wait_for(process.communicate(), 150)
        except TimeoutError:
            process.kill()
            pytest.fail(f"the command did not end; its terminal shows:\n{await answering}")
        finally:
            err = await answering
            os.close(ours)
        assert process.returncode is not None
        return process.returncode, out.decode(), err

    async def start(
        self, *arguments: str, stdin: int | None = None, stderr: int | None = None
    ) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "orchestrator", *arguments)
        # A suite that runs in the background ignores SIGINT or SIGHUP, and children would inherit that.
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=pipe if stdin is None else stdin,
            stdout=pipe,
            stderr=pipe if stderr is None else stderr,
            cwd=self.path,
            start_new_session=True,
            preexec_fn=_heed_interrupts,
        )

    async def is_waiting(self) -> None:
        """Returns once a step has called `wait`."""
        await until((self.path / "count").exists)

    def command(self, task: str, *options: str) -> tuple[str, ...]:
        tools = () if "--task-queue" in options else ("--catalogue", "tools.jsonl", "--config", "mcp.json")
        return ("run", task, *tools, "--address", self.address, "-o", "json", *options)

    async def run(self, task: str, *options: str) -> tuple[int, Any, str]:
        if "--approve" not in options:
            options = (*options, "--approve", "never")
        code, out, err = await self.toolroute(*self.command(task, *options))
        return code, json.loads(out) if out else None, err


def _answer(terminal: int, answers: list[bytes]) -> str:
    """Type each answer once its question is shown. Return the whole output."""
    shown, left = "", list(answers)
    with suppress(OSError):  # The other end is closed.
        while read := os.read(terminal, 65_536):
            shown += read.decode()
            while left and shown.count("[y/N]: ") > len(answers) - len(left):
                os.write(terminal, left.pop(0))
    return shown


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
        async with asyncio.timeout(150):
            while b"serves" not in (line := await process.stderr.readline()):
                assert line, "the worker ended"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
