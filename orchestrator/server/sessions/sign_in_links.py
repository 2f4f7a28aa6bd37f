"""Sign-ins that begin at a call: the client's user is shown the link, and the browser comes back to `serve`."""

import asyncio
from collections.abc import Callable
from typing import Any

from orchestrator.errors import ToolrouteError
from orchestrator.mcp.config.parse import ServerSpec


class SignInLink:
    """One sign-in that is under way. `done` ends when it has, whether it went well or not."""

    def __init__(self, tenant: str, spec: ServerSpec) -> None:
        self._link: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.done = asyncio.create_task(self._login(tenant, spec))

    async def url(self) -> str:
        """Return the sign-in link, or "" if there is none."""
        either: set[asyncio.Future[Any]] = {self._link, self.done}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return self._link.result() if self._link.done() else ""

    async def _login(self, tenant: str, spec: ServerSpec) -> bool:
        from orchestrator.mcp.signin.oauth import login

        try:
            await login(tenant, spec, spec.launch(), self._show)
        except ToolrouteError:
            return False  # The call's own error is better: it names the command.
        return True

    async def _show(self, link: str, _: Callable[[str], str]) -> None:
        self._link.set_result(link)


class SignInLinks:
    """Those of all tenants, one at a time for each server."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, str], SignInLink] = {}

    def of(self, tenant: str, spec: ServerSpec) -> SignInLink:
        key = tenant, spec.name
        if key not in self._under_way or self._under_way[key].done.done():
            self._under_way[key] = SignInLink(tenant, spec)
        return self._under_way[key]

    async def close(self) -> None:
        tasks = [sign_in.done for sign_in in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
