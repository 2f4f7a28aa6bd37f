"""The command line. It runs in this process, or as a program where a test needs one."""

import asyncio
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from orchestrator.cli import cli, main
from tests.catalogues import EXAMPLES
from tests.servers.start import config, entry

COMMAND = Path(sys.executable).with_name("toolroute")


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in its own process. This is several times slower, but has its own standard output."""
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, encoding="utf-8", timeout=150)


@dataclass
class Ran:
    exit_code: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


@pytest.fixture
def toolroute(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in this process."""

    def run(*args: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["toolroute", *map(str, args)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


@pytest.fixture
def route(toolroute: Run) -> Run:
    """Routes a query over the sample catalogue."""
    return lambda query, *options: toolroute("route", query, "--catalogue", EXAMPLES / "tools.jsonl", *options)


@pytest.fixture
def mcp_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write an mcpServers file into the working folder, beside a store that does not exist yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLROUTE_STORE", str(tmp_path / "default"))
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(config(quick=entry("quick.py"))))
    return path


async def command(*words: object, output: io.StringIO | None = None) -> str:
    """Run a command in a thread beside the test's event loop. Return its output, raise the error that it reports.

    Python lets a thread handle no signals, so the command's own handling of them is left out.

    Args:
        words: The command's words.
        output: Receives the output while the command runs.
    """
    output = output or io.StringIO()

    def run() -> None:
        with patch("signal.signal"), redirect_stdout(output):
            cli([*map(str, words)], standalone_mode=False)

    await asyncio.to_thread(run)
    return output.getvalue()


def digest_at_terminal(*words: Any) -> str:
    """The digest that a command which gives trust shows at a terminal alone."""
    [digest] = re.findall("--yes ([0-9a-f]{32})", at_terminal("n", "[y/N]", *map(str, words))[1])
    return str(digest)


def trusting(toolroute: Run, *words: Any) -> Ran:
    """Run a command that gives trust twice: to see what it shows at a terminal, and with the digest of that."""
    return toolroute(*words, "--yes", digest_at_terminal(*words))


def at_terminal(answer: str, asked: str, *words: str) -> tuple[int, str]:
    """Run the command at a terminal where a person answers a question. Return its exit code and its output."""
    import pty  # Windows has none.

    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-m", "orchestrator", *words])
    shown = b""
    while asked.encode() not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, f"{answer}\n".encode())
    with suppress(OSError):  # So Linux ends a terminal that nobody writes to any more.
        while more := os.read(terminal, 4096):
            shown += more
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode()


def audited(folder: Path, event: str = "") -> list[dict[str, Any]]:
    """The lines of the audit log in this folder, all or those of one event."""
    files = sorted(folder.glob("audit*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if event in ("", line["event"])]
