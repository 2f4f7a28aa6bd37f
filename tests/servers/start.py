"""How the tests reach the servers of this folder: as entries of an mcpServers file, or running over HTTP."""

import asyncio
import os
import random
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from mcp.types import CallToolResult

HERE = Path(__file__).parent


def entry(script: str, *args: str, own: dict[str, float] | None = None, **env: str) -> dict[str, Any]:
    """A stdio entry that runs a script of this folder."""
    return {
        "command": sys.executable,
        "args": [str(HERE / script), *args],
        "env": env,
        "toolroute": own or {},
    }


def config(**servers: dict[str, Any]) -> dict[str, Any]:
    return {"mcpServers": servers}


def free_port() -> int:
    """A free port below those that systems give to clients, because another test's client could take one of these."""
    for port in random.SystemRandom().sample(range(20_000, 32_768), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no port from 20000 to 32767 is free")


@asynccontextmanager
async def running(script: str, port: int, *args: str, **env: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a script of this folder as an HTTP server on the port, and kill it at the end."""
    command = [sys.executable, str(HERE / script), "http", str(port), *args]
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **env}, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await _answers(port, process)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _answers(port: int, process: asyncio.subprocess.Process) -> None:
    for _ in range(2_000):
        assert process.returncode is None, "the server ended before it listened"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise TimeoutError("the server does not listen")


def alive(pid: int | str) -> bool:
    """Return True if the process runs. A zombie does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def text_of(result: CallToolResult, block: int = 0) -> str:
    content = result.content[block]
    assert content.type == "text"
    return content.text


def owners() -> list[str]:
    """The tasks that still own a connection."""
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("toolroute connection")]
