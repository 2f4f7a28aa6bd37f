"""`toolroute serve` as a program over stdio or HTTP, and clients that are connected to it."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.servers.start import config

SERVE = ("env", "TOOLROUTE_AUDIT=off", sys.executable, "-m", "orchestrator", "serve", "--approve", "never")
TOKENS = {"org:1": "token-of-organization-1", "org:2": "token-of-organization-2"}


def write_servers(file: Path, **servers: Any) -> Path:
    """Replace a configuration file as editors do, so that nobody reads half of it."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps(config(**servers)), encoding="utf-8")
    return new.rename(file)


def write_tokens(folder: Path) -> Path:
    file = folder / "tokens.json"
    file.write_text(json.dumps(TOKENS))
    return file


def command_of(file: Path, *options: str) -> list[str]:
    """The command that serves a configuration file from a store beside it."""
    return [*SERVE, "--config", str(file), "--store", str(file.parent / "store"), *options]


@asynccontextmanager
async def over_http(
    file: Path, *options: str, limit: Callable[[], None] | None = None
) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The URL and the process. The token that is printed where no file gives one is then that of `local`."""
    command = command_of(file, "--transport", "http", "--port", "0", *options)
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, preexec_fn=limit)
    assert process.stderr is not None
    try:
        said = (await process.stderr.readline()).decode()
        url = re.search(r"http://\S+", said)
        assert url, said + (await process.stderr.read()).decode()
        if "--tokens" not in options:
            TOKENS["local"] = (await process.stderr.readline()).decode().rpartition("Bearer ")[2].strip()
        yield url.group(), process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.communicate()


@asynccontextmanager
async def client_of(url: str, tenant: str = "local", **settings: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {TOKENS[tenant]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=150, trust_env=False) as web,
        Client(streamable_http_client(url, http_client=web), **settings) as client,
    ):
        yield client


def by_stdio(file: Path, *options: str) -> StdioServerParameters:
    program, *arguments = command_of(file, *options)
    return StdioServerParameters(command=program, args=arguments)


@asynccontextmanager
async def connected(transport: str, file: Path, *options: str, **settings: Any) -> AsyncIterator[Client]:
    """Start the program and connect a client.

    Args:
        transport: "stdio" or "http".
        file: The configuration file.
        options: Further options of the command.
        settings: Those of the client.
    """
    if transport == "http":
        async with over_http(file, *options) as (url, _), client_of(url, **settings) as client:
            yield client
    else:
        async with Client(stdio_client(by_stdio(file, *options)), **settings) as client:
            yield client


async def states_of(client: Client) -> dict[str, Any]:
    """The state of each server, as a client reads it."""
    read: Any = (await client.read_resource("toolroute://servers")).contents[0]
    return {state["server"]: state for state in json.loads(read.text)}
