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
from orchestrator.temporal.payload import read_input

Record = TypeVar("Record")
MOST_BUSY_S = 60.0
"""Between two attempts of a call that finds no place: eight of them then wait for two minutes."""
MAX_MESSAGE = 4_000
"""Characters of an error's message: a failure beyond the server's limit would reach nobody."""


@asynccontextmanager
async def working(given: RawValue, kind: type[Record]) -> AsyncIterator[Record]:
    """Yield the input; beat until it is done with, and raise errors as ApplicationErrors.

    An error is retried where trying again can help and, for a call that is not `replayable`, only where it says that
    nothing was done.
    """
    replayable = True
    try:
        async with beating():
            request = read_input(given, kind)
            replayable = getattr(request, "replayable", True)
            yield request
    except ToolrouteError as error:
        again = error.retry or (replayable and isinstance(error, OutcomeUnknown))
        raise _failure(error, again) from _short(error)
    except ApplicationError:
        raise
    except Exception as error:  # of an Executor of the user's own, or a fault of a program
        raise _failure(error, replayable and not isinstance(error, FAULTS)) from _short(error)


def time_limit() -> float | None:
    """Return the seconds that the work may take, to end with a message of its own ahead of Temporal's timeout."""
    whole = activity.info().start_to_close_timeout
    return None if whole is None else 0.9 * whole.total_seconds()


def _failure(error: Exception, again: bool) -> ApplicationError:
    wait_s = error.retry_after_s if isinstance(error, Unavailable) else None
    if isinstance(error, Busy) and wait_s is None:
        wait_s = min(2.0 ** (activity.info().attempt - 1), MOST_BUSY_S)
    used = error.usage if isinstance(error, ToolrouteError) else None
    text = str(error)
    if len(text) > MAX_MESSAGE:
        text = f"{text[:MAX_MESSAGE]} [cut: {len(text) - MAX_MESSAGE:,} characters left out]"
    return ApplicationError(
        text,
        *([used.total] if used else []),
        type=type(error).__name__,
        non_retryable=not again,
        next_retry_delay=None if wait_s is None else timedelta(seconds=wait_s),
    )


def _short(error: BaseException) -> BaseException | None:
    """Return the error as the cause to show, unless it, or a cause of its own, says too much for a history."""
    said: BaseException | None = error
    while said is not None:
        if len(str(said)) > MAX_MESSAGE:
            return None
        said = said.__cause__
    return error
