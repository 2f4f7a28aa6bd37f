"""Who sends a request to the gateway: its tenant, its client and its session, from the token and the connection."""

from typing import Any

from mcp.server.auth.provider import AccessToken

from orchestrator.common.tenant import os_user
from orchestrator.errors import UnknownTenant
from orchestrator.server.sessions.asker import Context
from orchestrator.server.sessions.outcome_recorder import Conversation


def token_of(context: Context) -> AccessToken | None:
    """Return the bearer token of a request over HTTP."""
    return getattr(_scope(context).get("user"), "access_token", None)


def conversation_of(context: Context, tenant: str | None) -> Conversation:
    """Return the conversation of a request.

    Its actor is the holder of the token, or the user of the operating system over stdio. A client chooses its own name,
    so the name says nothing about the person: with twenty names, one person would count as twenty in the experience.

    Args:
        context: The request.
        tenant: The tenant of all requests. None: the tenant of the token.

    Raises:
        UnknownTenant: There is no token.
    """
    token = token_of(context)
    if tenant is None:
        if token is None:
            raise UnknownTenant(
                "this request has no token, so its tenant is unknown: send an Authorization header with a bearer token"
            )
        tenant = token.client_id
    actor = os_user() if token is None else token.subject or ""
    # Over stdio the process is the session.
    session = "" if context.request is None else context.request.headers.get("mcp-session-id", "")
    return Conversation(tenant, actor, session)


def profile_of(context: Context, only: str) -> str:
    """Return the name of the profile for a request, from its token, its path or the server, or "".

    Args:
        context: The request.
        only: The profile for all clients of the server.
    """
    token = token_of(context)
    of_token = (token.claims or {}).get("profile") if token else ""
    return of_token or only or _scope(context).get("path_params", {}).get("profile", "")


def _scope(context: Context) -> Any:
    """Return the ASGI scope of a request. It is empty over stdio."""
    return {} if context.request is None else context.request.scope
