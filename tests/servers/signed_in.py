"""A person who signs in to a server over HTTP, and calls it: as `toolroute login`, a gateway and a worker do."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx2

from orchestrator import Connections, McpConfig
from orchestrator.mcp.signin.files import SignIn, SignInFile, folder
from orchestrator.mcp.signin.oauth import login, logout
from tests.servers.start import config

Show = Callable[[str, Callable[[str], str]], Awaitable[None]]


def kept_folder() -> Path:
    """The folder of the sign-ins that are kept."""
    return folder()


async def browse(link: str, take: Callable[[str], str]) -> None:
    """Open the link, and go where it leads: back to the loopback address."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        page = await browser.get(link)
    assert page.status_code == 200, page.text


class Entry:
    """One entry of a file and its tenant, signed in to and called."""

    def __init__(self, web: str, tenant: str = "local", path: str = "/mcp", **own: Any) -> None:
        self.tenant = tenant
        self.mcp_servers = config(it={"url": f"{web}{path}", **own})
        self.config = McpConfig.parse(self.mcp_servers)
        self.spec = self.config.servers["it"]

    @property
    def file(self) -> SignInFile:
        return SignInFile(self.tenant, self.spec, self.spec.launch())

    @property
    def kept(self) -> SignIn:
        kept = self.file.read()
        assert kept is not None
        return kept

    async def login(self, show: Show = browse) -> None:
        await login(self.tenant, self.spec, self.spec.launch(), show)

    async def logout(self) -> str:
        return await logout(self.tenant, self.spec, self.spec.launch())

    def servers(self) -> AbstractAsyncContextManager[Connections]:
        return Connections(self.config, tenant=self.tenant)

    async def whoami(self) -> str:
        async with self.servers() as servers:
            return (await servers.call("it:whoami")).text

    def expire(self) -> None:
        self.file.write(self.kept.model_copy(update={"expires_at": 1.0}))
