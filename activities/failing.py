"""How toolroute's errors become Temporal's."""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError

from orchestrator.durable import as_failure
from orchestrator.errors import OutcomeUnknown, ToolrouteError

FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Faults of a program: the same input fails again, so they are told at once."""


@contextmanager
def told(*, replayable: bool = False) -> Iterator[None]:
    """Raises ToolrouteErrors as ApplicationErrors; a lost answer is tried again only where that does no harm."""
    try:
        yield
    except ToolrouteError as error:
        again = replayable if isinstance(error, OutcomeUnknown) else None
        raise as_failure(error, retry=again) from error
    except FAULTS as error:
        raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error
