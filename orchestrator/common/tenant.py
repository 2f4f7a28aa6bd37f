"""The names of tenants. Every index, cache, search, count and connection belongs to exactly one tenant."""

import re

from orchestrator.errors import UnknownTenant

LOCAL = "local"
"""The tenant of an in-process request that names none."""
SHARED = "shared"
"""The tenant whose tools every other tenant sees. Nobody routes as this tenant."""
_TENANT = re.compile(r"(?:org|user):\S(?:.*\S)?|local")


def is_tenant(name: str) -> bool:
    """Return True for `org:ID`, `user:ID` and `local`."""
    return isinstance(name, str) and _TENANT.fullmatch(name) is not None


def check_tenant(name: str, *, shared: bool = False) -> None:
    """Raise UnknownTenant for a malformed name, because such a tenant would have no tools. `shared` allows SHARED."""
    if not name:
        raise UnknownTenant(
            "no tenant was given: give an organization (org:ID), a user (user:ID), or local"
        )
    if not (is_tenant(name) or (shared and name == SHARED)):
        raise UnknownTenant(
            f"tenant {name!r:.80}: give an organization (org:ID), a user (user:ID), or local"
        )


def tenant_of(organization: str | None, user: str | None) -> str:
    """Return `org:ID` if an organization is given, `user:ID` if only a user is given, and otherwise "".

    Args:
        organization: The organization's ID.
        user: The user's ID.
    """
    for prefix, value in (("org", organization), ("user", user)):
        if value is None:
            continue
        if not value.strip():
            raise UnknownTenant(
                f"{prefix} ID is {value!r}: give an ID that is not blank, or leave it out"
            )
        return f"{prefix}:{value.strip()}"
    return ""
