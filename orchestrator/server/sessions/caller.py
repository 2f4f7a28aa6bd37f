"""The sender of a request to the gateway, and the profile that confines it, from the token and the connection."""

from typing import Any

from mcp.server.auth.provider import AccessToken

from orchestrator.common.tenant import os_user
from orchestrator.errors import UnknownTenant
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.server.sessions.asker import Context
from orchestrator.server.sessions.client_profile import enter
from orchestrator.server.sessions.outcome_recorder import Conversation


def token_of(context: Context) -> AccessToken | None:
    """Return the bearer token of a request over HTTP."""
    return getattr(_scope(context).get("user"), "access_token", None)


def identified(context: Context, config: McpConfig, tenant: str | None, only: str) -> Conversation:
    """Return the conversation of a request, and confine the request to its profile.

    Its actor is the holder of the token, or the user of the operating system over stdio. A client chooses its own name,
    so the name is no evidence for a person: with twenty names, one person would count as twenty in the experience.

    Args:
        context: The request.
        config: The configuration with the profiles.
        tenant: The tenant of all requests. None: the tenant of the token.
        only: The profile of all requests, or "" for the profile of the token or the path.

    Raises:
        UnknownTenant: There is no token.
        InvalidConfig: The configuration no longer has the profile.
    """
    token = token_of(context)
    if not tenant:
        if token is None:
            raise UnknownTenant(
                "this request has no token, so its tenant is unknown: send an Authorization header with a bearer token"
            )
        tenant = token.client_id
    of_token = (token.claims or {}).get("profile") if token else ""
    of_path = _scope(context).get("path_params", {}).get("profile", "")
    enter(config, of_token or only or of_path)
    actor = os_user() if token is None else token.subject or ""
    # Over stdio the process is the session.
    session = "" if context.request is None else context.request.headers.get("mcp-session-id", "")
    return Conversation(tenant, actor, session)


def _scope(context: Context) -> Any:
    """Return the ASGI scope of a request. It is empty over stdio."""
    return {} if context.request is None else context.request.scope
