"""The names of tenants, and the user who runs this process.

Every index, cache, search, count and connection belongs to exactly one tenant.
"""

import getpass

from orchestrator.errors import UnknownTenant

LOCAL = "local"
"""The tenant of an in-process request that names none."""
SHARED = "shared"
"""The tenant whose tools every other tenant sees. Nobody routes as this tenant."""


def is_tenant(name: object) -> bool:
    """Return True for `org:ID`, `user:ID` and `local`. An ID has no blanks at its ends, and no line ends."""
    if not isinstance(name, str):
        return False
    kind, _, owner = name.partition(":")
    is_id = bool(owner) and owner == owner.strip() and "\n" not in owner
    return name == LOCAL or (kind in ("org", "user") and is_id)


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


def os_user() -> str:
    """Return the user's name, or "" if the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
