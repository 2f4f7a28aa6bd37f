"""The indexes of the tenants that a process serves: least recently used first out, each loaded once."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import StoreUnavailable, Unauthorised
from orchestrator.index.always import Capability
from orchestrator.index.index import Index
from orchestrator.store.store import Store, Stored

PATIENCE_S = 1.0
"""How long a request waits for the store where an earlier Index is at hand, and for how long a failure is believed."""


@dataclass(slots=True)
class _Kept:
    """An Index and what it was made of. After a failure `warning` stands until `retry_at`, when the store is asked."""

    index: Index
    stored: Stored | None = None
    warning: str = ""
    retry_at: float = 0.0


@dataclass(frozen=True, slots=True)
class _Asking:
    """A question to the store that is under way, since when."""

    task: "asyncio.Task[tuple[Index, str]]"
    since: float


class Indexes:
    """Tenant to Index. With a catalogue, one Index for all; with a store, one a tenant, renewed when it changes."""

    def __init__(
        self,
        catalogue: Catalogue | str | Path | None,
        store: Store | None,
        capabilities: Sequence[Capability],
        most: int,
    ) -> None:
        self._catalogue, self._store, self._capabilities, self._most = catalogue, store, capabilities, most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        # A task belongs to the event loop that made it: threads with loops of their own ask each for themselves.
        self._asking: dict[tuple[asyncio.AbstractEventLoop, str], _Asking] = {}

    def clear(self) -> None:
        """Forgets all, and gives up what is being loaded."""
        for asking in self._asking.values():
            asking.task.cancel()
        self._kept.clear()

    def at_hand(self, tenant: str) -> Index | None:
        """The tenant's Index as it was last asked for; loads none."""
        kept = self._kept.get(tenant if self._store is not None else "")
        return None if kept is None else kept.index

    async def get(self, tenant: str) -> tuple[Index, str]:
        """The tenant's current Index, and a warning ("" if none). Concurrent callers share one load.

        When the store fails, or takes longer than a second, an earlier Index that is at hand answers, with a warning;
        one without a tool is no answer, and the store is waited for.
        """
        tenant = tenant if self._store is not None else ""
        known = self._kept.get(tenant)
        if known is None:
            # Shielded: one caller's cancellation must not take the load from the others.
            return await asyncio.shield(self._ask(tenant).task)
        self._kept.move_to_end(tenant)
        if self._store is None or known.stored is None or self._store.is_current(tenant, known.stored.version):
            return known.index, ""
        if known.warning and time.monotonic() < known.retry_at:
            return known.index, known.warning
        asking = self._ask(tenant)
        patience = asking.since + PATIENCE_S - time.monotonic() if len(known.index.catalogue) else None
        try:
            async with asyncio.timeout(patience if patience is None else max(0.0, patience)):
                return await asyncio.shield(asking.task)
        except TimeoutError:
            return known.index, "the catalogue may be out of date: its new version is still being loaded"

    def _ask(self, tenant: str) -> _Asking:
        key = asyncio.get_running_loop(), tenant
        asking = self._asking.get(key)
        if asking is None:
            task = asyncio.create_task(self._current(tenant))
            asking = self._asking[key] = _Asking(task, time.monotonic())
            task.add_done_callback(partial(self._answered, key))
        return asking

    def _answered(self, key: tuple[asyncio.AbstractEventLoop, str], task: "asyncio.Task[tuple[Index, str]]") -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # Whoever still waits gets it; it is no news to asyncio if nobody does.

    async def _current(self, tenant: str) -> tuple[Index, str]:
        if self._store is None:
            return self._keep(tenant, _Kept(await asyncio.to_thread(self._from_catalogue))), ""
        known = self._kept.get(tenant)
        try:
            now = await asyncio.to_thread(self._from_store, self._store, tenant, known)
        except (StoreUnavailable, Unauthorised) as error:
            if known is None:
                raise
            known.warning = f"the catalogue may be out of date: {error}"
            known.retry_at = time.monotonic() + PATIENCE_S
            return known.index, known.warning
        return self._keep(tenant, now), ""

    def _keep(self, tenant: str, now: _Kept) -> Index:
        self._kept[tenant] = now
        self._kept.move_to_end(tenant)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return now.index

    def _from_catalogue(self) -> Index:
        catalogue = self._catalogue
        if not isinstance(catalogue, Catalogue):
            catalogue = Catalogue.read(catalogue or "")
        return Index(catalogue, self._capabilities)

    def _from_store(self, store: Store, tenant: str, known: _Kept | None) -> _Kept:
        """What the store holds now; of an index that is known, all that has not changed is taken over."""
        if known is None or known.stored is None:
            stored = store.load(tenant)
        else:
            stored = store.renewed(tenant, known.stored)
            if stored is known.stored:
                return _Kept(known.index, stored)
        earlier = known.index if known else None
        index = Index(stored.catalogue, self._capabilities, stored.vectors, note=stored.note, earlier=earlier)
        return _Kept(index, stored)
