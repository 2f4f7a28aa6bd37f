"""Values that were read from a store, until the next write."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from orchestrator.common.recent import Recent

_KEPT_IN_MEMORY = 256
"""The number of tenants whose values stay in memory until a write."""
_Value = TypeVar("_Value")


class ReadCache(Generic[_Value]):
    """Keeps the data of the tenants that were used last, each with the stamp of the store at that time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values = Recent[str, tuple[str, _Value]](_KEPT_IN_MEMORY)

    def get(self, tenant: str, stamp: str, read: Callable[[], _Value]) -> _Value:
        """Return the data of this stamp. Without a stamp, it is read each time.

        Args:
            tenant: The tenant.
            stamp: The stamp, from before the call.
            read: Reads the value.
        """
        with self._lock:
            remembered = self._values.get(tenant)
        if remembered is not None and stamp and remembered[0] == stamp:
            return remembered[1]
        value = read()
        with self._lock:
            self._values[tenant] = stamp, value
        return value

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
