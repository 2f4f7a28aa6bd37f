"""The indexes of the tenants that a process serves. Each is loaded once, and the least recently used one is
dropped first.
"""

import asyncio
import errno
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import InvalidConfig, StoreUnavailable, Unauthorised
from orchestrator.index.always import Capability
from orchestrator.index.embedders.language_encoder import language_encoder
from orchestrator.index.index import Index
from orchestrator.records.tool import Tool, remember_suspicions
from orchestrator.runtime import index_file
from orchestrator.runtime.with_catalogue import StoreWithCatalogue
from orchestrator.store.sources import Sources
from orchestrator.store.store import Store, Stored

logger = logging.getLogger(__name__)

KEPT_FROM = 100
"""The number of tools from which an Index is stored as a file. A new process then reads the file in 10 ms. To index 258
tools takes it 100 ms, because their texts and fields are checked again."""
PATIENCE_S = 1.0
"""Seconds that a request waits for the store if an earlier Index is in memory, and seconds until a failure is
tried again.
"""
Answer = tuple[Index, str]
"""An Index and a warning. The warning is empty if there is none."""
_Key = tuple[asyncio.AbstractEventLoop, str]


@dataclass(slots=True)
class _CachedIndex:
    """An Index in memory.

    Attributes:
        index: The Index.
        stored: The tools from which it was made.
        warning: The warning after a failure of the store.
        retry_at: The time at which the store is asked again.
        on_disk: Whether the Index is stored in a file, or soon will be.
        loading: Whether a newer version is being read from the store.
    """

    index: Index
    stored: Stored | None = None
    warning: str = ""
    retry_at: float = 0.0
    on_disk: bool = False
    loading: bool = False

    @property
    def damaged(self) -> str:
        return self.stored.damaged if self.stored else ""


class IndexCache:
    """Indexes by tenant. A catalogue has one Index for all tenants. A store has one per tenant, renewed after
    each change.
    """

    def __init__(
        self,
        catalogue: Catalogue | str | Path | None,
        store: Store | Sources | StoreWithCatalogue | None,
        capabilities: Sequence[Capability],
        most: int,
        checked: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Make an empty cache.

        Args:
            catalogue: The tools of all tenants, without a store.
            store: The store with each tenant's tools.
            capabilities: The always-available capabilities.
            most: The number of tenants.
            checked: The suspicions of tools that this process has just checked, by hash.
        """
        self._catalogue = catalogue
        self._store = store
        self._capabilities = capabilities
        self._most = most
        self._checked = checked or {}
        self._cached: OrderedDict[str, _CachedIndex] = OrderedDict()
        # A task, with its start time, belongs to its event loop. Threads with their own loops load separately.
        self._loads: dict[_Key, tuple[asyncio.Task[Answer], float]] = {}

    def over(self, catalogue: Catalogue) -> "IndexCache":
        """Return a cache for only this catalogue, with the same capabilities."""
        return IndexCache(catalogue, None, self._capabilities, self._most)

    def clear(self) -> None:
        """Drop all indexes, and cancel the loads that run."""
        for task, _ in self._loads.values():
            task.cancel()
        self._cached.clear()

    def at_hand(self, tenant: str) -> Index | None:
        """Return the tenant's Index if it is in memory. It loads nothing."""
        cached = self._cached.get(tenant if self._store is not None else "")
        return None if cached is None else cached.index

    async def get(self, tenant: str) -> Answer:
        """Return the tenant's current Index and a warning. Concurrent callers share one load.

        If the store fails or takes longer than a second, an earlier Index in memory is returned, with a warning. If
        that Index has no tools, the call waits for the store.
        """
        tenant = tenant if self._store is not None else ""
        cached = self._cached.get(tenant)
        if cached is None:
            # Shielded: one caller's cancellation must not take the load from the others.
            return await asyncio.shield(self._load(tenant)[0])
        self._remember(tenant, cached)
        if (
            self._store is None
            or cached.stored is None
            or self._store.is_current(tenant, cached.stored.version)
        ):
            return cached.index, cached.damaged
        if cached.warning and time.monotonic() < cached.retry_at:
            return cached.index, cached.warning
        task, since = self._load(tenant)
        try:
            patience = (
                max(0.0, since + PATIENCE_S - time.monotonic())
                if cached.index.catalogue.version.tools
                else None
            )
            return await asyncio.wait_for(asyncio.shield(task), patience)
        except TimeoutError:
            late = f"the store {self._store} did not answer within {PATIENCE_S:g} seconds"
            why = "the new version is still being loaded" if cached.loading else late
            return cached.index, f"the catalogue may be out of date: {why}"

    def _load(self, tenant: str) -> tuple["asyncio.Task[Answer]", float]:
        key = asyncio.get_running_loop(), tenant
        if key not in self._loads:
            task = asyncio.create_task(self._current(tenant))
            self._loads[key] = task, time.monotonic()
            task.add_done_callback(partial(self._load_ended, key))
        return self._loads[key]

    def _load_ended(self, key: _Key, task: "asyncio.Task[Answer]") -> None:
        self._loads.pop(key, None)
        if not task.cancelled():
            # Callers that wait get it. Without this, asyncio would log it if no caller waits.
            task.exception()

    async def _current(self, tenant: str) -> Answer:
        cached = self._cached.get(tenant)
        if cached:
            cached.loading = not isinstance(self._store, Store)
        try:
            current = await asyncio.to_thread(self._read, tenant, cached)
        except (StoreUnavailable, Unauthorised, InvalidConfig) as error:
            if cached is None:
                raise
            cached.warning = f"the catalogue may be out of date: {error}"
            cached.retry_at = time.monotonic() + PATIENCE_S
            return cached.index, cached.warning
        self._remember(tenant, current)
        large = current.stored and not current.on_disk and len(current.stored.tools) >= KEPT_FROM
        if large and isinstance(self._store, Store) and current.stored:
            current.on_disk = True
            asyncio.get_running_loop().run_in_executor(
                None, _save, self._store, tenant, current.stored, current.index
            )
        return current.index, current.damaged

    def _remember(self, tenant: str, current: _CachedIndex) -> None:
        if self._store is not None:
            current.index.read_second = partial(self._store.second_vectors, tenant)
        self._cached[tenant] = current
        self._cached.move_to_end(tenant)
        while len(self._cached) > self._most:
            self._cached.popitem(last=False)

    def _read(self, tenant: str, cached: _CachedIndex | None) -> _CachedIndex:
        """Read the current tools. Unchanged parts of a cached index are used again."""
        if self._store is None:
            catalogue = self._catalogue
            if not isinstance(catalogue, Catalogue):
                catalogue = Catalogue.read(catalogue or "")
            return _CachedIndex(Index(catalogue, self._capabilities).counted())
        if not isinstance(self._store, Store):
            earlier = cached.stored if cached else None
            stored = self._store.renewed(tenant, earlier) if earlier else self._store.load(tenant)
            return self._renewed(stored, cached)
        version = self._store.version(tenant)
        if cached is None:
            cached = self._resumed(self._store, tenant)
        else:
            cached.loading = True
        if cached is None or cached.stored is None:
            return self._renewed(self._store.load(tenant, version), None)
        if cached.stored.version == version:
            return _CachedIndex(cached.index, cached.stored, on_disk=cached.on_disk)
        return self._renewed(self._store.renewed(tenant, cached.stored, version), cached)

    def read(self, tenant: str) -> _CachedIndex:
        """Read the current tools from the store, or from the saved index. The call blocks."""
        return self._read(tenant, None)

    def _renewed(self, stored: Stored, cached: _CachedIndex | None) -> _CachedIndex:
        """Return an Index of the current tools. The cached one is used again if no tool has changed."""
        if cached and cached.stored and stored.catalogue is cached.stored.catalogue:
            return _CachedIndex(cached.index, stored)
        return _CachedIndex(self._built(stored, cached.index if cached else None).counted(), stored)

    def _built(self, stored: Stored, before: Index | None = None) -> Index:
        for tool in stored.tools if self._checked else ():
            if tool.hash in self._checked:
                remember_suspicions(tool, self._checked[tool.hash])
        return Index(
            stored.catalogue,
            self._capabilities,
            stored.vectors,
            note=stored.note,
            earlier=before,
            absent=stored.unlisted,
            origins=stored.origins,
        )

    def _resumed(self, store: Store, tenant: str) -> _CachedIndex | None:
        """Return the Index in a tenant's file. It may be of an earlier version of the tools."""
        file = store.index_file(tenant)
        if file is None or not file.exists():
            return None
        unlisted = frozenset(store.failures(tenant))
        resumed = index_file.load(file, store.embedder.id, self._capabilities, unlisted)
        if resumed is None:
            return None
        stored, index = resumed
        return _CachedIndex(index, stored, on_disk=True)


def save_index(store: Store, tenant: str, written: Iterable[Tool] = ()) -> None:
    """Store the Index of a tenant with many tools after a write, so that no later process has to build it.

    A tenant with few tools has no file, so that none keeps a removed tool.

    Args:
        store: The store.
        tenant: The tenant.
        written: The tools that were just written, whose texts need not be checked again.
    """
    tools = sum(store.servers(tenant).values())
    if tools < KEPT_FROM:
        store.forget_index(tenant)
        return
    language_encoder().release()  # The command has embedded its tools, and the Index needs memory.
    checked = {tool.hash: tool.suspicions for tool in written if tool.suspicions is not None}
    cached = IndexCache(None, store, (), 1, checked).read(tenant)
    _remember_flags(cached.index, written)
    if cached.stored is not None and not cached.on_disk:
        _save(store, tenant, cached.stored, cached.index)


def _remember_flags(index: Index, tools: Iterable[Tool]) -> None:
    """Give the tools the reasons that the Index has for the same definitions, so that their texts are read once."""
    for tool in tools:
        position = index.catalogue.positions.get(tool.key)
        if position is None or index.documents.hashes[position] != tool.hash:
            continue
        if tool.suspicions is None:
            remember_suspicions(tool, tuple(index.flag_reasons.get(position, ())))


def _save(store: Store, tenant: str, stored: Stored, index: Index) -> None:
    """Store the Index for the next process, if the folder can be written."""
    file = store.index_file(tenant)
    if file is not None and not stored.note and not stored.damaged:
        try:
            if store.remote:
                index_file.make_room(file)
            index_file.save(file, stored, store.embedder.id, index)
        except OSError as error:
            # A store that nobody may write, as in an image, is no fault.
            level = logging.INFO if error.errno in (errno.EACCES, errno.EROFS) else logging.WARNING
            message = "the index of tenant %r could not be saved for the next process: %s"
            logger.log(level, message, tenant, error)
