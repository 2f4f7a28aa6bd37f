"""`toolroute serve` over HTTP as its clients meet it: the address that is told, and who is not a serve."""

import socket
from pathlib import Path

import pytest

from tests.servers.start import free_port, running
from tests.test_mcp_server import TOKEN_1, file, over_http, toolroute

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
