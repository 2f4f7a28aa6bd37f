"""The profile that a client of `toolroute serve` is confined to, and how often its token may call."""

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from orchestrator.errors import Busy, InvalidConfig
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.mcp.config.profiles import Profile

_EVERYTHING = Profile()
_CURRENT: ContextVar[Profile] = ContextVar("profile", default=_EVERYTHING)
"""The profile of the current request. It is set at the start of each request."""
_MAX_TOKENS = 10_000
"""Tokens whose calls are counted. The one that has not called for the longest time is forgotten first."""


def current() -> Profile:
    """Return the profile of the request that is being answered."""
    return _CURRENT.get()


def enter(config: McpConfig, name: str) -> Profile:
    """Confine the current request to a profile. Raises InvalidConfig if the file no longer has the profile."""
    if name and name not in config.profiles:
        raise InvalidConfig(
            f"unknown profile {name!r}: it is no longer in the configuration file; ask the operator of this gateway"
        )
    profile = config.profiles[name] if name else _EVERYTHING
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


def of_profile(warnings: Iterable[str], profile: Profile, servers: Iterable[str]) -> list[str]:
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
        self._buckets = OrderedDict[str, tuple[float, float]]()
        """By holder of a token: the calls that are left, and the time at which they were counted."""

    def take(self, scope: Mapping[str, Any] | None) -> None:
        """Count a call of a request's token. Raises Busy over the limit, with the time of the next allowed call."""
        token = getattr(scope.get("user"), "access_token", None) if scope else None
        per_minute = (token.claims or {}).get("calls_per_minute") if token is not None else None
        if token is None or not per_minute:
            return
        holder = f"{token.client_id} {token.subject}"
        now = time.monotonic()
        capacity = max(per_minute, 1.0)
        calls, since = self._buckets.pop(holder, (capacity, now))
        calls = min(capacity, calls + (now - since) * per_minute / 60)
        is_allowed = calls >= 1
        self._buckets[holder] = (calls - 1 if is_allowed else calls), now
        if len(self._buckets) > _MAX_TOKENS:
            self._buckets.popitem(last=False)
        if not is_allowed:
            wait_s = (1 - calls) * 60 / per_minute
            limit = f"this token may make {per_minute:g} calls a minute"
            raise Busy(f"too many calls: {limit}; call again in {wait_s:.0f} seconds")
