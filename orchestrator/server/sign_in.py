"""A call whose server refused the credentials: the client's user is shown the link to sign in with."""

import asyncio
from typing import Any

from mcp import MCPError
from mcp.types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestURLParams,
    InputRequiredResult,
)

from orchestrator.common.digests import digest
from orchestrator.common.lines import inline
from orchestrator.server.approver import InputRequired
from orchestrator.server.gateway import Gateway
from orchestrator.server.sessions.asker import Context, is_modern
from orchestrator.server.sessions.sign_in_links import SignInLink

_SIGN_IN_S = 120.0
"""Seconds that a call waits until its user has signed in. The link works for longer, and a later call uses it."""


async def has_signed_in(
    gateway: Gateway, tenant: str, context: Context, params: CallToolRequestParams, key: str
) -> bool:
    """Show the client's user the link to sign in to a tool's server, and return whether they signed in.

    Works over stdio only, because the browser comes back to this machine.

    Raises:
        InputRequired: The client of 2026-07-28 has to show the link, and then to repeat the call.
    """
    link = gateway.sign_in(tenant, key) if _can_show_links(context) else None
    url = await link.url() if link is not None else ""
    if link is None or not url:
        return False
    server, _, _ = key.partition(":")
    message = f"Sign in to {inline(server)}, so that your agent can call its tools."
    if not await _is_accepted(context, params, message, url):
        link.done.cancel()
        await asyncio.wait({link.done})
        return False
    return await _completed(link)


def _can_show_links(context: Context) -> bool:
    capabilities = context.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    return elicitation is not None and elicitation.url is not None and context.request is None


async def _is_accepted(
    context: Context, params: CallToolRequestParams, message: str, url: str
) -> bool:
    """Ask the client's user to open the link, in the way of the client's protocol."""
    question_id = digest(url, 16)
    answer: Any
    if is_modern(context):
        answer = (params.input_responses or {}).get(question_id)
        if answer is None:
            request = ElicitRequestURLParams(message=message, url=url, elicitation_id=question_id)
            raise InputRequired(
                InputRequiredResult(input_requests={question_id: ElicitRequest(params=request)})
            )
    else:
        try:
            answer = await context.session.elicit_url(message, url, question_id, context.request_id)
        except MCPError:  # The client declared that it can, and it cannot.
            return False
    return getattr(answer, "action", "") == "accept"


async def _completed(link: SignInLink) -> bool:
    await asyncio.wait({link.done}, timeout=_SIGN_IN_S)
    return link.done.done() and not link.done.cancelled() and link.done.result()
