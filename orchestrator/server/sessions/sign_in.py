"""A call whose server refused the credentials: the client's user gets a link and signs in while the call waits.

The browser comes back to the machine of `serve`. So this works over stdio only.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from mcp import MCPError
from mcp.types import CallToolRequestParams, ElicitRequest, ElicitRequestURLParams

from orchestrator.common.digests import digest
from orchestrator.common.lines import inline
from orchestrator.errors import ToolrouteError
from orchestrator.mcp.config.parse import ServerSpec
from orchestrator.server.sessions.asker import (
    Context,
    answer_in_request,
    can_ask_by_url,
    is_modern,
)

_SIGN_IN_S = 120.0
"""Seconds that a call waits until its user has signed in. The link works for longer, and a later call uses it."""


class SignIn:
    """A sign-in that is under way. `done` ends when it has, whether it went well or not."""

    def __init__(self, tenant: str, spec: ServerSpec) -> None:
        self._link: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.done = asyncio.create_task(self._login(tenant, spec))

    async def link(self) -> str:
        """Return the sign-in link, or "" if the sign-in ended without a link."""
        either: set[asyncio.Future[Any]] = {self._link, self.done}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return self._link.result() if self._link.done() else ""

    async def has_succeeded(self) -> bool:
        """Wait for the user, and return True if they have signed in."""
        await asyncio.wait({self.done}, timeout=_SIGN_IN_S)
        return self.done.done() and not self.done.cancelled() and self.done.result()

    async def cancel(self) -> None:
        self.done.cancel()
        await asyncio.wait({self.done})

    async def _login(self, tenant: str, spec: ServerSpec) -> bool:
        from orchestrator.mcp.signin.oauth import login

        try:
            await login(tenant, spec, spec.launch(), self._show)
        except ToolrouteError:
            return False  # The call's own error is better: it names the command.
        return True

    async def _show(self, link: str, _: Callable[[str], str]) -> None:
        self._link.set_result(link)


class SignIns:
    """The sign-ins of all tenants that are under way, one at a time for each server."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, str], SignIn] = {}

    def of(self, tenant: str, spec: ServerSpec) -> SignIn:
        """Start or continue a tenant's sign-in to a server."""
        key = tenant, spec.name
        if key not in self._under_way or self._under_way[key].done.done():
            self._under_way[key] = SignIn(tenant, spec)
        return self._under_way[key]

    async def close(self) -> None:
        await asyncio.gather(*(sign_in.cancel() for sign_in in self._under_way.values()))


async def has_signed_in(
    sign_in: SignIn, server: str, context: Context, params: CallToolRequestParams
) -> bool:
    """Show the client's user the link to sign in to a server, and return True if the user signed in.

    Args:
        sign_in: The sign-in that is under way.
        server: The name of the server.
        context: The request's context.
        params: The request's parameters, with the answer of a client that repeats the call.

    Raises:
        InputRequired: The client of 2026-07-28 has to show the link, and then to repeat the call.
    """
    link = await sign_in.link()
    if not link:
        return False
    message = f"Sign in to {inline(server)}, so that your agent can call its tools."
    if not await _is_accepted(context, params, message, link):
        await sign_in.cancel()
        return False
    return await sign_in.has_succeeded()


def can_show_links(context: Context) -> bool:
    """Return True if the client runs on this machine and can show its user a link."""
    return context.request is None and can_ask_by_url(context)


async def _is_accepted(
    context: Context, params: CallToolRequestParams, message: str, link: str
) -> bool:
    """Ask the client's user to open the link, in the way of the client's protocol."""
    question_id = digest(link, 16)
    answer: Any
    if is_modern(context):
        form = ElicitRequestURLParams(message=message, url=link, elicitation_id=question_id)
        answer = answer_in_request(params, question_id, ElicitRequest(params=form))
    else:
        try:
            answer = await context.session.elicit_url(
                message, link, question_id, context.request_id
            )
        except MCPError:  # The client declared that it can, and it cannot.
            return False
    return getattr(answer, "action", "") == "accept"
