"""The profile that a client of `toolroute serve` is confined to."""

from collections.abc import Iterable
from contextvars import ContextVar

from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.mcp.config.profiles import Profile

_EVERYTHING = Profile()
_CURRENT: ContextVar[Profile] = ContextVar("profile", default=_EVERYTHING)
"""The profile of the current request. It is set at the start of each request."""


def current() -> Profile:
    """Return the profile of the request that is being answered."""
    return _CURRENT.get()


def enter(config: McpConfig, name: str) -> None:
    """Confine the current request to a profile. Raises InvalidConfig if the file no longer has the profile."""
    if name and name not in config.profiles:
        raise InvalidConfig(
            f"unknown profile {name!r}: it is no longer in the configuration file; ask the operator of this gateway"
        )
    _CURRENT.set(config.profiles[name] if name else _EVERYTHING)


def warnings_within(profile: Profile, warnings: Iterable[str], servers: Iterable[str]) -> list[str]:
    """Return the warnings of a search that name no server outside the profile.

    Args:
        profile: The profile.
        warnings: The search's warnings.
        servers: All servers of the configuration.
    """
    hidden = [repr(server) for server in servers if not profile.has_server(server)]
    return [warning for warning in warnings if not any(name in warning for name in hidden)]
