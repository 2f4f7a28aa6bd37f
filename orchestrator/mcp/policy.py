"""When a connection is probed or closed, when a server is tried again, and when a lost call is sent again.

Nothing here waits or sends. Times are arguments, so each rule can be tested without a server:

    lifetime = Lifetime(idle_ttl_s=300)
    lifetime.leave(at=0)
    lifetime.next_step(at=10)    # Step(Action.WAIT, 290)
    lifetime.next_step(at=300)   # Step(Action.CLOSE)
"""

import math
from collections.abc import Iterable
from enum import Enum, auto
from typing import NamedTuple, Protocol, TypeVar

PROGRESS_TIMES = 60
"""A call that reports progress may take this many times its timeout, by default an hour."""


class Action(Enum):
    """The next action of a connection's owner."""

    WAIT = auto()
    PROBE = auto()
    CLOSE = auto()


class Step(NamedTuple):
    """The next action of a connection's owner, and the seconds to wait before it looks again."""

    action: Action
    seconds: float = 0.0


class Lifetime:
    """The users of a connection, and the reasons for its end.

    Attributes:
        users: The number of callers that use the connection.
        last_used: The time at which the last caller left. Infinite before the connection is ready.
        retired: It accepts no new caller, and closes after the last one.
        suspect: Whether the server still answers is to be found out.
        death: The reason why it ended. Callers are interrupted.
    """

    def __init__(self, idle_ttl_s: float) -> None:
        self._idle_ttl_s = idle_ttl_s
        self.users = 0
        self.last_used = math.inf
        self.retired = False
        self.suspect = False
        self.death = ""

    @property
    def usable(self) -> bool:
        """True while a caller may join."""
        return not (self.retired or self.death)

    def leave(self, at: float) -> None:
        self.users = max(0, self.users - 1)
        self.last_used = at

    def die(self, reason: str) -> None:
        """End it. Only the first reason counts."""
        self.death = self.death or reason

    def next_step(self, at: float) -> Step:
        if self.death:
            return Step(Action.CLOSE)
        if self.suspect:
            return Step(Action.PROBE)
        if self.users:
            return Step(Action.WAIT, self._idle_ttl_s)
        idle_left_s = self.last_used + self._idle_ttl_s - at
        if self.retired or idle_left_s <= 0:
            return Step(Action.CLOSE)
        return Step(Action.WAIT, idle_left_s)


class Backoff:
    """The pause before a server that failed is tried again. It doubles with each failure.

    Attributes:
        failures: The number of failures since the last success.
        retry_at: The time of the next try.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = max(first_s, longest_s)
        self._pause_s = 0.0
        self.failures = 0
        self.retry_at = 0.0

    def succeed(self) -> None:
        self.failures = 0
        self._pause_s = 0.0

    def fail(self, at: float, *, may_be_mended: bool) -> None:
        """Count a failure. A fault that a person may have mended is looked at again at once."""
        self.failures += 1
        self._pause_s = min(2 * self._pause_s or self._first_s, self._longest_s)
        self.retry_at = at if may_be_mended else at + self._pause_s

    def is_waiting(self, at: float) -> bool:
        return self.failures > 0 and at < self.retry_at


class HasLifetime(Protocol):
    """A connection, to the rules of this module."""

    @property
    def lifetime(self) -> Lifetime: ...


C = TypeVar("C", bound=HasLifetime)


def surplus(ready: Iterable[C], most_open: int) -> list[C]:
    """Return the unused connections to close, longest unused first, so that at most `most_open` stay open."""
    connections = list(ready)
    unused = [connection for connection in connections if not connection.lifetime.users]
    unused.sort(key=lambda connection: connection.lifetime.last_used)
    return unused[: max(0, len(connections) - most_open)]


def progress_deadline(at: float, begun: float, limit_s: float) -> float:
    """Return the new deadline of a call that reported progress.

    All times are seconds of the same clock.

    Args:
        at: The time of the report.
        begun: The time at which the call began.
        limit_s: The time limit of a call without reports. Each report extends the call by it, until the call has taken
            PROGRESS_TIMES as long.
    """
    return min(begun + PROGRESS_TIMES * limit_s, at + limit_s)


class Resend(Enum):
    """The treatment of a call without an answer."""

    AGAIN = auto()
    """Send it again now."""
    BY_CALLER = auto()
    """Report that the caller may send it again."""
    NEVER = auto()
    """Report that it may have taken effect."""


def resend(*, sent: bool, timed_out: bool, replayable: bool, is_first: bool) -> Resend:
    """Return the treatment of a call without an answer.

    Args:
        sent: The server may have run the call.
        timed_out: The server may still be running the call.
        replayable: The tool may be called twice.
        is_first: The call was sent for the first time.
    """
    if sent and not replayable:
        return Resend.NEVER
    if timed_out or not is_first:
        return Resend.BY_CALLER
    return Resend.AGAIN
