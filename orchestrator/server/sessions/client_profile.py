"""The profile that a client of `toolroute serve` is confined to, and how often its token may call."""

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from orchestrator.errors import Busy, InvalidConfig
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.mcp.config.profiles import Profile

_WHOLE = Profile()
_CURRENT: ContextVar[Profile] = ContextVar("profile", default=_WHOLE)
"""The profile of the current request. It is set at the start of each request."""
_MOST_TOKENS = 10_000


def current() -> Profile:
    """Return the profile of the request that is being answered."""
    return _CURRENT.get()


def enter(config: McpConfig, name: str) -> Profile:
    """Confine the current request to a profile. Raises InvalidConfig if the file no longer has the profile."""
    if name and name not in config.profiles:
        raise InvalidConfig(
            f"unknown profile {name!r}: it is no longer in the configuration file; ask the operator of this gateway"
        )
    profile = config.profiles[name] if name else _WHOLE
    _CURRENT.set(profile)
    return profile


def named(scope: Mapping[str, Any] | None, only: str) -> str:
    """Return the name of the profile for a request, from its token, its path or the server, or "".

    Args:
        scope: The request's ASGI scope, or None over stdio.
        only: The profile for all clients of the server.
    """
    if scope is None:
        return only
    claims = getattr(getattr(scope.get("user"), "access_token", None), "claims", None) or {}
    return claims.get("profile") or only or scope.get("path_params", {}).get("profile", "")


def fitting(warnings: Iterable[str], profile: Profile, servers: Iterable[str]) -> list[str]:
    """Return the warnings of a search without those that name a server outside the profile.

    Args:
        warnings: The search's warnings.
        profile: The profile.
        servers: All servers of the configuration.
    """
    others = [repr(server) for server in servers if not profile.has_server(server)]
    return [warning for warning in warnings if not any(other in warning for other in others)]


class RateLimit:
    """Calls a minute for each token: a bucket that holds a minute's calls and refills steadily."""

    def __init__(self) -> None:
        self._left = OrderedDict[str, tuple[float, float]]()

    def take(self, scope: Mapping[str, Any] | None) -> None:
        """Count a call of a request's token. Raises Busy over the limit, with the time of the next allowed call."""
        token = getattr(scope.get("user"), "access_token", None) if scope else None
        if token is None or not (most := (token.claims or {}).get("calls_per_minute")):
            return
        now, key = time.monotonic(), f"{token.client_id} {token.subject}"
        left, since = self._left.pop(key, (max(most, 1.0), now))
        left = min(max(most, 1.0), left + (now - since) * most / 60)
        self._left[key] = (left - 1 if left >= 1 else left), now
        if len(self._left) > _MOST_TOKENS:
            self._left.popitem(last=False)
        if left < 1:
            wait = (1 - left) * 60 / most
            raise Busy(f"too many calls: this token may make {most:g} calls a minute; call again in {wait:.0f} seconds")
