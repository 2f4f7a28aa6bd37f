"""`toolroute serve` over HTTP as its clients meet it: its address, calls that take long, and who is no serve."""

import asyncio
import json
import socket
from pathlib import Path

import pytest

from tests.servers.start import config, entry, free_port, running, until
from tests.test_mcp_server import TOKEN_1, client_of, file, over_http, toolroute

__all__ = ["file"]


async def test_the_address_that_is_told_can_be_used_where_it_is_of_ipv6(file: Path, tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 on this machine")
    async with over_http(file, tmp_path, "--host", "::1") as (url, _, _):
        code, _, error = await toolroute("servers", "--of", url, token=TOKEN_1)
    assert code == 1
    assert "serve refuses the token" in error


async def test_a_server_that_is_no_serve_is_told_so() -> None:
    port = free_port()
    async with running("plain.py", port):
        code, said, error = await toolroute("servers", "--of", f"http://127.0.0.1:{port}/mcp", token=TOKEN_1)
    assert (code, said) == (2, "")
    assert error.startswith("toolroute: --of: the server there has no toolroute://servers: give the URL")


async def test_a_client_hears_of_progress_and_ends_its_call_by_hanging_up(tmp_path: Path) -> None:
    tokens, notes = tmp_path / "tokens.json", tmp_path / "notes"
    tokens.write_text(json.dumps({"org:1": TOKEN_1}))
    servers = tmp_path / "mcp.json"
    servers.write_text(json.dumps(config(plain=entry("plain.py", COUNT_FILE=str(notes), API_KEY="s3cret-1"))))
    begun = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert (progress, total, message) == (0, 60, "waiting with ***")
        begun.set()

    async with over_http(servers, tmp_path, "--tokens", str(tokens)) as (url, _, _), client_of(url, TOKEN_1) as client:
        call = {"tool": "plain:wait", "arguments": {"seconds": 60}}
        calling = asyncio.create_task(client.call_tool("call_tool", call, progress_callback=on_progress))
        async with asyncio.timeout(20):
            await begun.wait()
        calling.cancel()
        await until(lambda: notes.read_text() == "wait\nended early\n")
