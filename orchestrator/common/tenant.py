"""Tenants and their names. Every index, cache, search, count and connection belongs to exactly one tenant."""

import re

from orchestrator.errors import UnknownTenant

SHARED = "shared"
"""The tenant whose tools are copied into every other tenant's catalogue; nobody routes as this one."""
_TENANT = re.compile(r"(?:org|user):\S(?:.*\S)?|local")


def is_tenant(name: str) -> bool:
    """Return True for `org:ID`, `user:ID` and `local`."""
    return isinstance(name, str) and _TENANT.fullmatch(name) is not None


def check_tenant(name: str, *, shared: bool = False) -> None:
    """Raise UnknownTenant for an invalid name, which would be a tenant without tools. `shared` allows SHARED."""
    if not name:
        raise UnknownTenant("no tenant: give an organization (org:ID), a user (user:ID), or local")
    if not (is_tenant(name) or (shared and name == SHARED)):
        raise UnknownTenant(f"tenant {name!r:.80}: give an organization (org:ID), a user (user:ID), or local")


def tenant_of(organization: str | None = None, user: str | None = None, *, default: str = "") -> str:
    """Return `org:ID` if an organization is given, `user:ID` if a user is given, otherwise the default.

    Args:
        organization: The organization's id.
        user: The user's id.
        default: The default. The command line uses `local`.
    """
    for prefix, value in (("org", organization), ("user", user)):
        if value is None:
            continue
        if not value.strip():
            raise UnknownTenant(f"{prefix} ID is {value!r}: give one that is not blank, or leave it out")
        return f"{prefix}:{value.strip()}"
    return default
