"""A writer outlasts a server's stalls: it asks again."""

import logging
from collections.abc import Callable
from typing import Any

_AGAIN_FOR_S, _FIRST_S, _LONGEST_S = 60.0, 0.5, 8.0

logger = logging.getLogger(__name__)


class Persistent:
    """An object whose methods are called again, for a minute, while its server is out of order.

    Each call must be one that may be repeated: a write replaces points by id, or under a condition that is read back.
    """

    def __init__(self, own: Any, shown: str) -> None:
        """shown: the server, for the log."""
        self._own, self._shown = own, shown

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from tenacity import RetryCallState, retry, retry_if_exception, stop_after_delay, wait_random_exponential

        def tell(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            logger.warning("the store %s does not answer (%s): it is asked again", self._shown, type(error).__name__)

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
    """Tell whether a failure may pass by itself: no connection, no answer, or a server that is out of order."""
    status = getattr(error, "status_code", None)
    if status is not None:
        return bool(status >= 500 or status == 429)
    return isinstance(error, OSError)
