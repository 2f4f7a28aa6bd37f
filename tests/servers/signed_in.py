"""A person who signs in to a server over HTTP with `toolroute login`, and calls it as a gateway and a worker do."""

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
import pytest

from orchestrator import Connections, McpConfig
from tests.command_line import command
from tests.servers.signing import Accounts, signing
from tests.servers.start import config

Show = Callable[[str], Awaitable[None]]


def kept_files() -> list[Path]:
    """The files of the sign-ins that are kept. A test sets XDG_CONFIG_HOME."""
    return [*Path(os.environ["XDG_CONFIG_HOME"], "toolroute", "sign-ins").glob("*.json")]


def kept() -> dict[str, Any]:
    """The one sign-in that is kept."""
    [file] = kept_files()
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def change_kept(**changes: Any) -> None:
    """Change the one sign-in that is kept, as time does."""
    [file] = kept_files()
    file.write_text(json.dumps(kept() | changes))


def expire() -> None:
    """Let the token of the one sign-in expire."""
    change_kept(expires_at=1.0)


async def browse(link: str) -> None:
    """Open the link, and go where it leads: back to the loopback address."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        page = await browser.get(link)
    assert page.status_code == 200, page.text


class Entry:
    """One entry of a file and its tenant, signed in to and called."""

    def __init__(self, web: str, tenant: str = "local", path: str = "/mcp", name: str = "it", **own: Any) -> None:
        self.tenant = tenant
        self.name = name
        self.mcp_servers = config(**{name: {"url": f"{web}{path}", **own}})
        self.config = McpConfig.parse(self.mcp_servers)

    async def login(self, show: Show = browse) -> None:
        """Run `toolroute login`, and open its link with `show`. Raises what the command reports."""
        loop = asyncio.get_running_loop()

        def open_link(link: str) -> bool:
            asyncio.run_coroutine_threadsafe(show(link), loop).result()
            return True

        with patch.dict(os.environ, BROWSER="opens links"), patch("webbrowser.open", open_link):
            await self._run("login")

    async def logout(self) -> None:
        await self._run("logout")

    async def _run(self, name: str) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(self.mcp_servers, file)
            file.flush()
            await command(name, self.name, "--config", file.name, "--tenant", self.tenant)

    def servers(self) -> AbstractAsyncContextManager[Connections]:
        return Connections(self.config, tenant=self.tenant)

    async def call(self, tool: str) -> str:
        async with self.servers() as servers:
            return (await servers.call(f"{self.name}:{tool}")).text

    async def whoami(self) -> str:
        return await self.call("whoami")


@pytest.fixture
def own_sign_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's sign-ins in the test's folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()


@pytest.fixture
def web(accounts: Accounts) -> Iterator[str]:
    """The address of a server that requires a sign-in, without a path."""
    with signing(accounts) as web:
        yield web
