"""The indexes of the tenants that a process serves: least recently used first out, each loaded once."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from orchestrator.catalogue import Catalogue
from orchestrator.errors import StoreUnavailable
from orchestrator.index import Index
from orchestrator.stages.always import Capability
from orchestrator.store import Store


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
        self._kept: OrderedDict[str, tuple[str, Index]] = OrderedDict()
        self._loading: dict[str, asyncio.Task[tuple[Index, str]]] = {}

    def clear(self) -> None:
        self._kept.clear()

    async def get(self, tenant: str) -> tuple[Index, str]:
        """The tenant's current Index, and a warning ("" if none). Concurrent callers share one load.

        When the store fails and an earlier Index is at hand, that one answers, with the warning.
        """
        if self._store is None:
            tenant = ""
            if tenant in self._kept:
                return self._kept[tenant][1], ""
        task = self._loading.get(tenant)
        if task is None:
            task = asyncio.create_task(self._current(tenant))
            self._loading[tenant] = task
            task.add_done_callback(lambda _: self._loading.pop(tenant, None))
        # Shielded: one caller's cancellation must not take the load from the others.
        return await asyncio.shield(task)

    async def _current(self, tenant: str) -> tuple[Index, str]:
        if self._store is None:
            return self._keep(tenant, "", await asyncio.to_thread(self._from_catalogue)), ""
        known = self._kept.get(tenant)
        try:
            version = await asyncio.to_thread(self._store.version, tenant)
            if known is not None and known[0] == version:
                self._kept.move_to_end(tenant)
                return known[1], ""
            return self._keep(tenant, version, await asyncio.to_thread(self._from_store, tenant)), ""
        except StoreUnavailable as error:
            if known is None:
                raise
            return known[1], f"the catalogue may be out of date: {error}"

    def _keep(self, tenant: str, version: str, index: Index) -> Index:
        self._kept[tenant] = (version, index)
        self._kept.move_to_end(tenant)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return index

    def _from_catalogue(self) -> Index:
        catalogue = self._catalogue
        if not isinstance(catalogue, Catalogue):
            catalogue = Catalogue.read(catalogue or "")
        return Index(catalogue, self._capabilities)

    def _from_store(self, tenant: str) -> Index:
        if self._store is None:
            raise StoreUnavailable("there is no store to load from")
        stored = self._store.load(tenant)
        return Index(Catalogue(stored.tools), self._capabilities, stored.vectors)
