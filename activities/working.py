"""The frame around an activity's work: its input, its heartbeats, and its errors in Temporal's form."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from orchestrator.activities.heartbeats import beating
from orchestrator.errors import FAULTS, Busy, OutcomeUnknown, ToolrouteError, Unavailable
from orchestrator.records.call import ToolCall
from orchestrator.temporal.workflow.payload import read_input

Record = TypeVar("Record")
MOST_BUSY_S = 60.0
"""The maximum number of seconds between two attempts of a call without a slot. Eight attempts wait for two minutes."""
MOST_CAUSES = 20
"""The number of causes of an error that are checked. Causes may form a circle."""
MAX_MESSAGE = 4_000
"""The maximum number of characters of an error's message. A failure above the server's limit would not be delivered."""


@asynccontextmanager
async def working(given: RawValue, kind: type[Record]) -> AsyncIterator[Record]:
    """Yield the input, send heartbeats, and raise errors as ApplicationErrors.

    An error is retried if trying again can help. For a call that is not `replayable`, it is retried only if it states
    that nothing was done. An error of a user's own function keeps its type. If such a function lost a connection, the
    outcome of the call is unknown.
    """
    replayable = True
    try:
        async with beating():
            request = read_input(given, kind)
            replayable = getattr(request, "replayable", True)
            yield request
    except ToolrouteError as error:
        again = error.retry or (replayable and isinstance(error, OutcomeUnknown) and not error.final)
        raise _failure(error, again) from _short(error)
    except ApplicationError as error:
        raise _as_given(error, replayable) from _short(error.__cause__)
    except Exception as error:
        lost = _is_lost(error)
        if lost and not replayable:
            unknown = OutcomeUnknown(f"{type(error).__name__}: {error}")
            raise _failure(unknown, False) from _short(error)
        # A missing file of a store may appear later. A missing file of a tool stays missing.
        faults = (*FAULTS, OSError) if kind is ToolCall else FAULTS
        raise _failure(error, replayable and (lost or not isinstance(error, faults))) from _short(error)


def time_limit() -> float | None:
    """Return the seconds that the work may take, so that its own message comes before Temporal's timeout. None: no
    limit.
    """
    whole = activity.info().start_to_close_timeout
    return None if whole is None else 0.9 * whole.total_seconds()


def _is_lost(error: BaseException | None) -> bool:
    """Return True if the error or one of its causes is a lost connection: an OSError without a file name."""
    for _ in range(MOST_CAUSES):
        if error is None or (isinstance(error, OSError) and error.filename is None):
            return error is not None
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _as_given(error: ApplicationError, replayable: bool) -> ApplicationError:
    """Return the user's own error with its message cut. It is final if the call may not be repeated."""
    return ApplicationError(
        _cut(error.message),
        *error.details,
        type=error.type,
        non_retryable=error.non_retryable or not replayable,
        next_retry_delay=error.next_retry_delay,
        category=error.category,
    )


def _failure(error: Exception, again: bool) -> ApplicationError:
    wait_s = error.retry_after_s if isinstance(error, Unavailable) else None
    if isinstance(error, Busy) and wait_s is None:
        wait_s = min(2.0 ** (activity.info().attempt - 1), MOST_BUSY_S)
    used = error.usage.total if isinstance(error, ToolrouteError) else 0
    return ApplicationError(
        _cut(str(error)),
        *([used] if used else []),
        type=type(error).__name__,
        non_retryable=not again,
        next_retry_delay=None if wait_s is None else timedelta(seconds=wait_s),
    )


def _cut(text: str) -> str:
    left_out = len(text) - MAX_MESSAGE
    return text if left_out <= 0 else f"{text[:MAX_MESSAGE]} [cut: {left_out:,} characters left out]"


def _short(error: BaseException | None) -> BaseException | None:
    """Return the error as the cause to show. None if it, or one of its causes, is too long for a history."""
    said: BaseException | None = error
    while said is not None:
        if len(str(said)) > MAX_MESSAGE:
            return None
        said = said.__cause__
    return error
