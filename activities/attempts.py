"""The attempts of a call, counted by the worker.

Temporal counts an attempt whenever a worker takes a call, also if the worker sends it back because its tenant has no
turn. So the retry policy of calls has no maximum. `ToolCall.attempts` has it, and the worker counts. The numbers travel
in the details of heartbeats, which the next attempt receives:

    {"waits": 3, "unsent": 5}     attempt 5 sent nothing, and three of the attempts 1 to 5 only waited for a turn
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import activity

WAITS = "waits"
UNSENT = "unsent"
FIRST_WAIT_S = 0.5
WAIT_GROWTH = 1.25
MOST_WAIT_S = 60.0
"""A call without a turn comes back after half a second. Each further wait is a quarter longer, up to a minute.

So a wait is about a fifth of the time that the call has waited already, and a free slot is soon taken.
"""
_MOST_COUNTED = 100
"""Exponents above this number are cut, because a float would overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The current attempt of an activity.

    Attributes:
        taken: The number of times that a worker took the activity, which is Temporal's number.
        waits: How many of them went back to the queue without a turn, before this one.
        sent_before: Whether an earlier attempt may have sent something.
        maximum: The maximum of the retry policy. 0: none.
    """

    taken: int
    waits: int
    sent_before: bool
    maximum: int

    @classmethod
    def current(cls) -> "Attempt":
        """Return the attempt of the current activity."""
        info = activity.info()
        note = _note(info.heartbeat_details)
        return cls(
            taken=info.attempt,
            waits=note.get(WAITS, 0),
            sent_before=info.attempt > 1 and note.get(UNSENT) != info.attempt - 1,
            maximum=info.retry_policy.maximum_attempts if info.retry_policy else 0,
        )

    @property
    def number(self) -> int:
        """The number of this attempt, without the attempts that went back to the queue."""
        return self.taken - self.waits

    @property
    def details(self) -> tuple[dict[str, int], ...]:
        """The details of this attempt's heartbeats."""
        return ({WAITS: self.waits},) if self.waits else ()

    def note_unsent(self) -> None:
        """Record, for the next attempt, that this attempt sent nothing."""
        activity.heartbeat({WAITS: self.waits, UNSENT: self.taken})

    def note_wait(self) -> None:
        """Record, for the next attempt, that this attempt only waited for a turn."""
        activity.heartbeat({WAITS: self.waits + 1, UNSENT: self.taken})

    def until_turn(self) -> timedelta:
        """Return the time after which a call without a turn comes back."""
        growth = WAIT_GROWTH ** min(self.waits, _MOST_COUNTED)
        return timedelta(seconds=min(MOST_WAIT_S, FIRST_WAIT_S * growth))

    def until_retry(self) -> timedelta | None:
        """Return the retry policy's interval after this attempt. None: no attempt waited, so the server knows it."""
        policy = activity.info().retry_policy
        if policy is None or not self.waits:
            return None
        growth = policy.backoff_coefficient ** min(self.number - 1, _MOST_COUNTED)
        seconds = policy.initial_interval.total_seconds() * growth
        longest = (
            policy.maximum_interval.total_seconds() if policy.maximum_interval else MOST_WAIT_S
        )
        return timedelta(seconds=min(seconds, longest))


def _note(details: Any) -> dict[str, int]:
    return details[0] if details and isinstance(details[0], dict) else {}
