"""A limit of concurrent calls that all tenants share. No tenant can take the slots that others, or routing, need."""

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

from orchestrator.errors import Busy


class ConcurrencyLimit:
    """Gives out at most `most` slots. A tenant gets another slot while more slots are free than it has.

    So one tenant alone gets half of the slots, and some stay free however much each tenant asks for. The rule is the
    dynamic threshold of shared packet buffers (Choudhury and Hahne, 1998). Any thread may use it.
    """

    def __init__(self, most: int, remedy: str) -> None:
        self.most, self._remedy = most, remedy
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def taken(self, tenant: str) -> int:
        return self._taken[tenant]

    def take(self, tenant: str) -> Callable[[], None]:
        """Take a slot and return a function that gives it back.

        Raises:
            Busy: No slot is left for this tenant now.
        """
        with self._lock:
            if self._taken[tenant] and self._taken[tenant] >= self.most - self._taken.total():
                raise Busy(
                    f"call not started: tenant {tenant!r} has reached its limit of concurrent calls; {self._remedy}"
                )
            self._taken[tenant] += 1
        return partial(self._give_back, tenant)

    def _give_back(self, tenant: str) -> None:
        with self._lock:
            self._taken -= Counter([tenant])  # This removes a tenant with a count of zero.
