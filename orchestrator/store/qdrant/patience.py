"""Repeating the requests of a writer while a server does not answer."""

import logging
from collections.abc import Callable
from typing import Any

_AGAIN_FOR_S, _FIRST_S, _LONGEST_S = 60.0, 0.5, 8.0

logger = logging.getLogger(__name__)


class Persistent:
    """Repeats the calls of an object for up to a minute while its server does not answer.

    Every call must be repeatable: a write replaces points by id, or checks a condition that is read back.
    """

    def __init__(self, own: Any, shown: str) -> None:
        """Wrap an object. `shown` is the address of the server for the log."""
        self._own, self._shown = own, shown

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from tenacity import RetryCallState, retry, retry_if_exception, stop_after_delay, wait_random_exponential

        def tell(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            logger.warning("the store %s does not answer (%s); retrying", self._shown, type(error).__name__)

        again = retry(
            retry=retry_if_exception(passes),
            stop=stop_after_delay(_AGAIN_FOR_S),
            wait=wait_random_exponential(_FIRST_S, _LONGEST_S, min=_FIRST_S),
            before_sleep=tell,
            reraise=True,
        )
        call: Callable[..., Any] = again(getattr(self._own, name))
        return call


def passes(error: BaseException) -> bool:
    """Return True if a failure may be temporary: no connection, no answer, or a server with an internal error."""
    status = getattr(error, "status_code", None)
    if status is not None:
        return bool(status >= 500 or status == 429)
    return isinstance(error, OSError)
