"""Repeating requests while a server does not answer: one policy, and one limit for all requests of a command."""

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tenacity import RetryCallState

LIMIT_S = 25.0
"""Seconds without any answer after which a command fails, so that it ends within 30 seconds."""
_LAST_TRY_S = 1.0
"""Seconds that the last try of a request has at least."""
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 8.0
"""The waits grow between these limits, at random, so that many processes do not come back at the same moment."""
logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class Refused(OSError):
    """The server answered with an HTTP status that is a failure.

    Attributes:
        status_code: The status.
        retry_after_s: The seconds that the server asks to wait. 0: it asks for nothing.
    """

    def __init__(self, status_code: int, text: str, retry_after_s: float = 0.0) -> None:
        super().__init__(text)
        self.status_code = status_code
        self.retry_after_s = retry_after_s


class AnswerTooLarge(Refused):
    """The answer is larger than toolroute reads. A reader of pages then asks for fewer records."""


class Retries:
    """Repeats the requests to one server.

    Every request must be repeatable: a write replaces points by id, or checks a condition that is read back.
    """

    def __init__(self, address: str) -> None:
        """Create the policy. `address` is the address of the server for the log."""
        self._address = address
        self._has_answered = False
        self._deadline = math.inf
        """The time at which the requests fail for good, counted from the first one without an answer."""
        self._failed_at = -math.inf
        """The time of the last request without an answer."""

    def run(self, request: Callable[[float], _Result], *, repeat: bool) -> _Result:
        """Make a request, and return its result.

        Args:
            request: Makes the request, and receives the seconds that it may take at most.
            repeat: Whether to repeat it. A server that never answered may not exist, so only an answer that asks for
                another try is then repeated.
        """
        from tenacity import Retrying, retry_if_exception

        policy = Retrying(
            retry=retry_if_exception(lambda error: self._may_pass(error) and repeat),
            stop=self._is_over,
            wait=_wait,
            before_sleep=self._log,
            reraise=True,
        )
        for attempt in policy:
            with attempt:
                state = attempt.retry_state
                is_first = state.attempt_number == 1
                result = self._try(request, math.inf if is_first else self._left_s(state))
        self._has_answered = True
        self._deadline = math.inf
        return result

    def _try(self, request: Callable[[float], _Result], limit_s: float) -> _Result:
        began = time.monotonic()
        try:
            return request(limit_s)
        except OSError as error:
            if may_pass(error):
                self._count_from(began)
            else:  # It is an answer.
                self._deadline = math.inf
            raise

    def _count_from(self, began: float) -> None:
        """Note a request without an answer. After a long time without a request, the time counts anew."""
        if began > self._failed_at + LIMIT_S:
            self._deadline = math.inf
        self._deadline = min(self._deadline, began + LIMIT_S)
        self._failed_at = time.monotonic()

    def _end(self, state: "RetryCallState") -> float:
        # An answer to another thread's request ends the common time, but does not help this one.
        return min(self._deadline, state.start_time + LIMIT_S)

    def _left_s(self, state: "RetryCallState") -> float:
        return max(_LAST_TRY_S, self._end(state) - time.monotonic())

    def _may_pass(self, error: BaseException) -> bool:
        return may_pass(error) and (self._has_answered or isinstance(error, Refused))

    def _is_over(self, state: "RetryCallState") -> bool:
        return time.monotonic() + state.upcoming_sleep >= self._end(state)

    def _log(self, state: "RetryCallState") -> None:
        error = state.outcome.exception() if state.outcome else None
        logger.warning(
            "the store %s does not answer (%s); retrying", self._address, type(error).__name__
        )


def _wait(state: "RetryCallState") -> float:
    """Return the seconds until the next try: the server's own number, or a random one below a doubling limit."""
    from tenacity import wait_random_exponential

    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, Refused) and error.retry_after_s:
        return error.retry_after_s
    return wait_random_exponential(FIRST_WAIT_S, LONGEST_WAIT_S, min=FIRST_WAIT_S)(state)


def may_pass(error: BaseException) -> bool:
    """Return True if a failure may be temporary: no connection, no answer, too many requests, or an internal error.

    A full disk does not become free by itself.
    """
    if isinstance(error, Refused):
        return error.status_code == 429 or (
            error.status_code >= 500 and "No space left" not in str(error)
        )
    return isinstance(error, OSError)
