"""Limits of calls: the maximum number of calls at the same time for a tenant, and a minute for a token."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from mcp.server.auth.provider import AccessToken

from orchestrator.common.recent import Recent
from orchestrator.errors import Busy

_MAX_TOKENS = 10_000
"""Tokens whose calls are counted. The one that has not called for the longest time is forgotten first."""


class ConcurrentCalls:
    """The calls in progress of each tenant, up to a limit."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._in_progress = Counter[str]()

    @contextmanager
    def slot(self, tenant: str) -> Iterator[None]:
        """Count a call while it runs. Raises Busy over the limit."""
        if self._in_progress[tenant] >= self._limit:
            raise Busy(
                f"tenant {tenant!r} has reached its limit of {self._limit} concurrent calls: call again later"
            )
        self._in_progress[tenant] += 1
        try:
            yield
        finally:
            self._in_progress[tenant] -= 1


class RateLimit:
    """Calls a minute for each token: a bucket that holds a minute's calls and refills steadily."""

    def __init__(self) -> None:
        self._buckets = Recent[str, tuple[float, float]](_MAX_TOKENS)
        """By holder of a token: the calls that are left, and the time at which they were counted."""

    def take(self, token: AccessToken | None) -> None:
        """Count a call with a token. Raises Busy over the limit, with the time of the next allowed call."""
        per_minute = (token.claims or {}).get("calls_per_minute") if token else None
        if token is None or not per_minute:
            return
        holder = f"{token.client_id} {token.subject}"
        now = time.monotonic()
        capacity = max(per_minute, 1.0)
        calls, since = self._buckets.get(holder, (capacity, now))
        calls = min(capacity, calls + (now - since) * per_minute / 60)
        is_allowed = calls >= 1
        self._buckets[holder] = (calls - 1 if is_allowed else calls), now
        if not is_allowed:
            wait_s = (1 - calls) * 60 / per_minute
            limit = f"this token may make {per_minute:g} calls a minute"
            raise Busy(f"too many calls: {limit}; call again in {wait_s:.0f} seconds")
