"""Turns: how the calls of several tenants share the activity slots of one worker.

Temporal queues the calls, and a server with fairness serves the tenants in turns. Another server hands out a backlog in
its order, so a tenant with 1,000 calls would keep all slots for a long time. Therefore some slots stay free:

    8 slots   A A A A A A A .     tenant A has a backlog and gets seven slots
              A A A A A A A B     a call of A that comes now goes back to the queue, so the queue moves on to tenant B
"""

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

from orchestrator.errors import Busy

FREE_SHARE = 8
"""One slot in eight stays free, and at least one of several. A single slot cannot stay free."""


class NoTurn(Busy):
    """No slot is left for a further call of this tenant. The call goes back to the queue and keeps its attempts."""


class Turns:
    """Gives out slots by tenant. Any thread may use it.

    Args:
        slots: The number of slots. None: not known, so no call is refused.
        free: The number of slots that tenants with a running call leave to other tenants. Default: one in eight.
    """

    def __init__(self, slots: int | None, free: int | None = None) -> None:
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._shared = (
            None if slots is None else slots - (free_slots(slots) if free is None else free)
        )

    def running(self, tenant: str) -> int:
        """Return the number of the tenant's running calls."""
        return self._running[tenant]

    def take(self, tenant: str, *, must_run: bool = False) -> Callable[[], None]:
        """Take a slot and return a function that gives it back.

        Args:
            tenant: The tenant.
            must_run: Take a slot in any case, for a call that cannot go back to the queue.

        Raises:
            NoTurn: No slot is left for this tenant now.
        """
        with self._lock:
            is_full = self._shared is not None and self._running.total() >= self._shared
            if is_full and self._running[tenant] and not must_run:
                raise NoTurn(f"the call of tenant {tenant!r} waits until another call ends")
            self._running[tenant] += 1
        return partial(self._give_back, tenant)

    def _give_back(self, tenant: str) -> None:
        with self._lock:
            self._running -= Counter([tenant])  # This removes a tenant with a count of zero.


def free_slots(slots: int) -> int:
    """Return the number of slots that stay free by default."""
    return 0 if slots < 2 else max(1, slots // FREE_SHARE)
