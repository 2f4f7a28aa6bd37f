"""The Experience of each tenant in memory. It is read from the store once and grows with each Outcome."""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import ToolrouteError
from orchestrator.experience.memory import Experience
from orchestrator.records.outcome import Outcome
from orchestrator.store.outcomes import StoredOutcomes
from orchestrator.store.store import Store

PATIENCE_S = 1.0
"""Seconds that a route waits for the past tasks, and seconds until a failure is tried again."""
RENEWED_S = 60.0
"""Seconds after which a server is asked for Outcomes of other processes."""


@dataclass(slots=True, eq=False)
class _Row:
    """An Outcome that is not yet written, its vector, and the error of a write that included it."""

    outcome: Outcome
    vector: NDArray[np.float32]
    error: Exception | None = None


@dataclass(slots=True)
class _TenantExperience:
    """A tenant's Experience.

    Attributes:
        experience: The Experience. None: the tenant has none.
        ids: The ids of its Outcomes.
        stamp: The stamp of the store when it was read.
        read_at: The time of the last read.
        warning: Why it could not be read. Empty if it could.
    """

    experience: Experience | None = None
    ids: set[str] = field(default_factory=set)
    stamp: str = ""
    read_at: float = 0.0
    warning: str = ""

    def add(self, row: _Row) -> None:
        """Add an Outcome, unless it is known."""
        if row.outcome.id not in self.ids:
            before = self.experience or Experience(
                vectors=np.zeros((len(row.vector), 0), np.float32)
            )
            self.experience = before.plus(row.outcome, row.vector)
            self.ids.add(row.outcome.id)


class ExperienceCache:
    """Experience by tenant. Without a store it lasts as long as the process. `days` is the time for which the store
    keeps it.
    """

    def __init__(self, store: Store | None, most: int, days: int) -> None:
        self._store = store
        self._most = most
        self._days = days
        self._cached: OrderedDict[str, _TenantExperience] = OrderedDict()
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._pending: dict[str, dict[str, _Row]] = {}
        self._writing = WeakValueDictionary[str, asyncio.Lock]()
        """The locks of tenants that are being written."""

    def clear(self) -> None:
        for task in self._reading.values():
            task.cancel()
        self._cached.clear()

    def at_hand(self, tenant: str) -> Experience | None:
        """Return the tenant's Experience if it is in memory. It reads nothing."""
        cached = self._cached.get(tenant)
        return None if cached is None else cached.experience

    def give(self, tenant: str, experience: Experience) -> None:
        """Replace the tenant's cached Experience."""
        self._cached_for(tenant).experience = experience

    async def get(self, tenant: str) -> str:
        """Load the tenant's Experience, within a second. Return a warning, or "".

        If it was read before, the call returns at once, and the Experience is renewed afterwards.
        """
        if self._store is None:
            return ""
        cached = self._cached.get(tenant)
        if cached is None or not cached.read_at:
            try:
                await asyncio.wait_for(asyncio.shield(self._read(self._store, tenant)), PATIENCE_S)
            except TimeoutError:
                return "past tasks are not used yet: they are still being read from the store"
        elif not self._is_current(tenant, cached):
            self._read(self._store, tenant)
        return self._cached[tenant].warning if tenant in self._cached else ""

    async def keep(self, tenant: str, outcome: Outcome, vector: NDArray[np.float32]) -> None:
        """Add an Outcome, unless its id is known, and write it to the store.

        If the write fails, the Outcome counts in this process. It is written with the next Outcome, or when it is
        given again.

        Args:
            tenant: The tenant.
            outcome: The Outcome.
            vector: The vector of its task.
        """
        await self.get(tenant)
        cached = self._cached_for(tenant)
        if outcome.id in cached.ids and outcome.id not in self._pending.get(tenant, {}):
            return
        row = _Row(outcome, vector)
        cached.add(row)
        if self._store is not None:
            self._pending.setdefault(tenant, {})[outcome.id] = row
            await self._write(self._store, tenant, row)

    def _is_current(self, tenant: str, cached: _TenantExperience) -> bool:
        if cached.warning:
            return time.monotonic() < cached.read_at + PATIENCE_S
        stamp = self._store.outcomes.stamp(tenant) if self._store else ""
        return stamp == cached.stamp if stamp else time.monotonic() < cached.read_at + RENEWED_S

    def _read(self, store: Store, tenant: str) -> "asyncio.Task[None]":
        if (
            tenant not in self._reading
            or self._reading[tenant].get_loop() is not asyncio.get_running_loop()
        ):
            self._reading[tenant] = asyncio.create_task(self._renew(store, tenant))
            self._reading[tenant].add_done_callback(lambda _: self._reading.pop(tenant, None))
        return self._reading[tenant]

    async def _renew(self, store: Store, tenant: str) -> None:
        cached = self._cached_for(tenant)
        try:
            stamp = store.outcomes.stamp(tenant)
            stored, cached.experience = await asyncio.to_thread(_read, store, tenant)
            cached.ids = {outcome.id for outcome in stored.outcomes}
            for row in self._pending.get(tenant, {}).values():
                cached.add(row)
            cached.stamp = stamp
            cached.warning = (
                f"{stored.damaged} past tasks are not used: the store's records of them are damaged"
                if stored.damaged
                else ""
            )
        except (ToolrouteError, OSError) as error:
            cached.warning = f"past tasks are not used: {error}"
        cached.read_at = time.monotonic()

    async def _write(self, store: Store, tenant: str, row: _Row) -> None:
        """Write the row, together with the rows that arrived during another write."""
        async with self._writing.setdefault(tenant, asyncio.Lock()):
            pending = self._pending.get(tenant, {})
            if row.error is not None:
                raise row.error
            if pending.get(row.outcome.id) is not row:
                return
            rows = [*pending.values()]
            cached = self._cached_for(tenant)
            before = store.outcomes.stamp(tenant)
            outcomes = [row.outcome for row in rows]
            vectors = np.array([row.vector for row in rows])
            try:
                await asyncio.to_thread(store.outcomes.add, tenant, outcomes, vectors, self._days)
            except Exception as error:
                for failed in rows:
                    failed.error = error
                raise
            for written in rows:
                if pending.get(written.outcome.id) is written:
                    del pending[written.outcome.id]
            if not pending:
                self._pending.pop(tenant, None)
            if before == cached.stamp:  # No other process wrote in between.
                cached.stamp = store.outcomes.stamp(tenant)

    def _cached_for(self, tenant: str) -> _TenantExperience:
        cached = self._cached.setdefault(tenant, _TenantExperience())
        self._cached.move_to_end(tenant)
        while self._store is not None and len(self._cached) > self._most:
            self._cached.popitem(last=False)
        return cached


def _read(store: Store, tenant: str) -> tuple[StoredOutcomes, Experience | None]:
    stored = store.outcomes.read(tenant)
    return stored, Experience.of(stored.outcomes, stored.vectors) if stored.outcomes else None
