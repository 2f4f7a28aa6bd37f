"""ConcurrencyLimit for calls at the same time: shared so that no tenant can take what the others, or routing, need."""

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

from orchestrator.errors import Busy


class ConcurrencyLimit:
    """Hands out at most `most` places. A tenant gets another one while more are free than it holds already.

    So one tenant alone takes half, and however much any of them asks for, some stay free. The rule is the dynamic
    threshold of shared packet buffers (Choudhury and Hahne, 1998). Usable from any thread.
    """

    def __init__(self, most: int, remedy: str) -> None:
        self.most, self._remedy = most, remedy
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def taken(self, tenant: str) -> int:
        return self._taken[tenant]

    def take(self, tenant: str) -> Callable[[], None]:
        """Return what gives the place back. Raises Busy where no place is left for this tenant now."""
        with self._lock:
            if self._taken[tenant] and self._taken[tenant] >= self.most - self._taken.total():
                raise Busy(
                    f"call not started: tenant {tenant!r} has reached its limit of concurrent calls; {self._remedy}"
                )
            self._taken[tenant] += 1
        return partial(self._give_back, tenant)

    def _give_back(self, tenant: str) -> None:
        with self._lock:
            self._taken -= Counter([tenant])  # forgets a tenant at zero
