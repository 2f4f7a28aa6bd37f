"""How toolroute's errors become Temporal's."""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError

from orchestrator.errors import FAULTS, OutcomeUnknown, ToolrouteError
from orchestrator.temporal.call import MAX_MESSAGE, as_failure, brief


@contextmanager
def as_temporal_errors(*, replayable: bool = True) -> Iterator[None]:
    """Raises ToolrouteErrors as ApplicationErrors, which no retry policy tries again where that may do harm."""
    try:
        yield
    except ToolrouteError as error:
        again = error.retry or isinstance(error, OutcomeUnknown)
        raise as_failure(error, retry=again and replayable) from _if_brief(error)
    except FAULTS as error:
        raise ApplicationError(brief(str(error)), type=type(error).__name__, non_retryable=True) from _if_brief(error)
    except Exception as error:  # of an Executor of the user's own
        if _if_brief(error) and replayable:
            raise
        message, kind = brief(str(error)), type(error).__name__
        raise ApplicationError(message, type=kind, non_retryable=not replayable) from _if_brief(error)


def _if_brief(error: BaseException) -> BaseException | None:
    """The error, as the cause that is told with its own causes, unless one of them says too much for a history."""
    cause: BaseException | None = error
    while cause is not None:
        if len(str(cause)) > MAX_MESSAGE:
            return None
        cause = cause.__cause__
    return error
