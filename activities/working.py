"""The frame around an activity's work: its input, its heartbeats, and its errors in Temporal's form."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from orchestrator.activities.attempts import Attempt
from orchestrator.activities.heartbeats import beating
from orchestrator.errors import FAULTS, Busy, OutcomeUnknown, ToolrouteError, Unavailable
from orchestrator.records.call import ToolCall
from orchestrator.temporal.worker.turns import NoTurn
from orchestrator.temporal.workflow.payload import read_input

Record = TypeVar("Record")
MOST_BUSY_S = 60.0
"""The maximum number of seconds between two attempts of a call whose function is busy."""
MOST_CAUSES = 20
"""The number of causes of an error that are checked. Causes may form a circle."""
MAX_MESSAGE = 4_000
"""The maximum number of characters of an error's message. A failure above the server's limit would not be delivered."""


@asynccontextmanager
async def working(payload: RawValue, kind: type[Record]) -> AsyncIterator[Record]:
    """Yield the input, send heartbeats, and raise errors as ApplicationErrors.

    An error is retried if trying again can help. For a call that is not `replayable`, it is retried only if it states
    that nothing was done. An error of a user's own function keeps its type. If such a function lost a connection, the
    outcome of the call is unknown. A call without a turn goes back to the queue, and nothing is logged.
    """
    attempt = Attempt.current()
    call: ToolCall | None = None
    try:
        async with beating(attempt.details):
            request = read_input(payload, kind)
            call = request if isinstance(request, ToolCall) else None
            yield request
    except NoTurn as error:
        attempt.note_wait()
        raise ApplicationError(
            str(error),
            type=Busy.__name__,
            category=ApplicationErrorCategory.BENIGN,
            next_retry_delay=attempt.until_turn(),
        ) from None
    except ToolrouteError as error:
        raise _failure(
            error, attempt, again=_helps_again(error, call) and _is_left(attempt, call)
        ) from _short(error)
    except ApplicationError as error:
        may_repeat = _replayable(call) and _is_left(attempt, call)
        raise _as_given(error, may_repeat, attempt) from _short(error.__cause__)
    except Exception as error:
        is_lost = _is_lost(error)
        if is_lost and not _replayable(call):
            unknown = OutcomeUnknown(f"{type(error).__name__}: {error}")
            raise _failure(unknown, attempt, again=False) from _short(error)
        # A missing file of a store may appear later. A missing file of a tool stays missing.
        faults = (*FAULTS, OSError) if kind is ToolCall else FAULTS
        helps = _replayable(call) and (is_lost or not isinstance(error, faults))
        raise _failure(error, attempt, again=helps and _is_left(attempt, call)) from _short(error)


def _replayable(call: ToolCall | None) -> bool:
    return call is None or call.replayable


def _is_left(attempt: Attempt, call: ToolCall | None) -> bool:
    """Return True if a further attempt is left by the call's own number."""
    return call is None or not call.attempts or attempt.number < call.attempts


def _helps_again(error: ToolrouteError, call: ToolCall | None) -> bool:
    return error.retry or (
        _replayable(call) and isinstance(error, OutcomeUnknown) and not error.final
    )


def time_limit() -> float | None:
    """Return the seconds that the work may take, so that its own message comes before Temporal's timeout.

    None: no limit.
    """
    timeout = activity.info().start_to_close_timeout
    return None if timeout is None else 0.9 * timeout.total_seconds()


def _is_lost(error: BaseException | None) -> bool:
    """Return True if the error or one of its causes is a lost connection: an OSError without a file name."""
    for _ in range(MOST_CAUSES):
        if error is None or (isinstance(error, OSError) and error.filename is None):
            return error is not None
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _as_given(error: ApplicationError, may_repeat: bool, attempt: Attempt) -> ApplicationError:
    """Return the user's own error with its message cut. It is final if the call may not be repeated."""
    return ApplicationError(
        _cut(error.message),
        *error.details,
        type=error.type,
        non_retryable=error.non_retryable or not may_repeat,
        next_retry_delay=error.next_retry_delay or attempt.until_retry(),
        category=error.category,
    )


def _failure(error: Exception, attempt: Attempt, *, again: bool) -> ApplicationError:
    tokens = error.usage.total if isinstance(error, ToolrouteError) else 0
    return ApplicationError(
        _cut(str(error)),
        *([tokens] if tokens else []),
        type=type(error).__name__,
        non_retryable=not again,
        next_retry_delay=_delay(error, attempt),
    )


def _delay(error: Exception, attempt: Attempt) -> timedelta | None:
    """Return the time until the next attempt. None: the retry policy determines it."""
    if isinstance(error, Unavailable) and error.retry_after_s is not None:
        return timedelta(seconds=error.retry_after_s)
    if isinstance(error, Busy):
        return timedelta(seconds=min(2.0 ** min(attempt.number - 1, 10), MOST_BUSY_S))
    return attempt.until_retry()


def _cut(text: str) -> str:
    left_out = len(text) - MAX_MESSAGE
    return (
        text if left_out <= 0 else f"{text[:MAX_MESSAGE]} [cut: {left_out:,} characters left out]"
    )


def _short(error: BaseException | None) -> BaseException | None:
    """Return the error as the cause to show. None if it, or one of its causes, is too long for a history."""
    cause: BaseException | None = error
    while cause is not None:
        if len(str(cause)) > MAX_MESSAGE:
            return None
        cause = cause.__cause__
    return error
