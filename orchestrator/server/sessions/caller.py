"""Who sends a request to the gateway: its tenant, its client and its session, from the token and the connection."""

from typing import Any

from orchestrator.common.os_user import os_user
from orchestrator.errors import UnknownTenant
from orchestrator.server.sessions.asker import Context
from orchestrator.server.sessions.outcome_recorder import Conversation


def http_scope(context: Context) -> Any:
    """Return the ASGI scope of a request, or None over stdio."""
    return None if context.request is None else context.request.scope


def token_tenant(context: Context) -> str:
    """Return the tenant of a request's token. Raises UnknownTenant without a token."""
    user = _user(context)
    if user is None:
        raise UnknownTenant(
            "this request has no token, so its tenant is unknown: send an Authorization header with a bearer token"
        )
    return str(user.access_token.client_id)


def conversation_of(context: Context, tenant: str) -> Conversation:
    """Return the conversation of a tenant's request."""
    return Conversation(tenant, _actor(context), _session(context))


def _actor(context: Context) -> str:
    """Return the actor: the holder of the request's token, or the user of the operating system over stdio.

    A client chooses its own name, so the name says nothing about the person. With twenty names, one person would count
    as twenty in the experience.
    """
    user = _user(context)
    return os_user() if user is None else str(user.access_token.subject or "")


def _session(context: Context) -> str:
    """Return the session over HTTP.

    "" over stdio, where the process is the session, and for a client without sessions.
    """
    return context.request.headers.get("mcp-session-id", "") if context.request is not None else ""


def _user(context: Context) -> Any:
    return context.request.scope.get("user") if context.request is not None else None
