"""Around an activity's work: its input, heartbeats while it waits for others, and errors as Temporal carries them."""

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
from orchestrator.temporal.payload import read_input

Record = TypeVar("Record")
MOST_BUSY_S = 60.0
"""Between two attempts of a call that finds no place: eight of them then wait for two minutes."""
MOST_CAUSES = 20
"""Looked at behind an error; they may go round in a circle."""
MAX_MESSAGE = 4_000
"""Characters of an error's message: a failure beyond the server's limit would reach nobody."""


@asynccontextmanager
async def working(given: RawValue, kind: type[Record]) -> AsyncIterator[Record]:
    """Yield the input, send heartbeats meanwhile, and raise errors as ApplicationErrors.

    An error is retried if a retry can help. For a call that is not `replayable` it is retried only if nothing was done.
    Errors of the user's own function keep their type. A lost connection in it leaves the outcome of such a call
    unknown.
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
        # A file that a store lacks may come; a tool's own stays missing.
        faults = (*FAULTS, OSError) if kind is ToolCall else FAULTS
        raise _failure(error, replayable and (lost or not isinstance(error, faults))) from _short(error)


def time_limit() -> float | None:
    """Return the seconds for the work, so that it ends with its own message before Temporal's timeout."""
    whole = activity.info().start_to_close_timeout
    return None if whole is None else 0.9 * whole.total_seconds()


def _is_lost(error: BaseException | None) -> bool:
    """Return True if an error comes from a connection: an OSError without a file name, itself or as a cause."""
    for _ in range(MOST_CAUSES):
        if error is None or (isinstance(error, OSError) and error.filename is None):
            return error is not None
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _as_given(error: ApplicationError, replayable: bool) -> ApplicationError:
    """Return the user's own error, for good where the call may not be repeated, and its message cut."""
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
    """Return the error as the cause to show, unless it or one of its causes is too long for a history."""
    said: BaseException | None = error
    while said is not None:
        if len(str(said)) > MAX_MESSAGE:
            return None
        said = said.__cause__
    return error
