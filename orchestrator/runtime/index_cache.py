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
class _Kept:
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
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        # A task, with its start time, belongs to its event loop. Threads with their own loops load separately.
        self._asking: dict[_Key, tuple[asyncio.Task[Answer], float]] = {}

    def over(self, catalogue: Catalogue) -> "IndexCache":
        """Return a cache for only this catalogue, with the same capabilities."""
        return IndexCache(catalogue, None, self._capabilities, self._most)

    def clear(self) -> None:
        """Drop all indexes, and cancel the loads that run."""
        for task, _ in self._asking.values():
            task.cancel()
        self._kept.clear()

    def at_hand(self, tenant: str) -> Index | None:
        """Return the tenant's Index if it is in memory. It loads nothing."""
        kept = self._kept.get(tenant if self._store is not None else "")
        return None if kept is None else kept.index

    async def get(self, tenant: str) -> Answer:
        """Return the tenant's current Index and a warning. Concurrent callers share one load.

        If the store fails or takes longer than a second, an earlier Index in memory is returned, with a warning. If
        that Index has no tools, the call waits for the store.
        """
        tenant = tenant if self._store is not None else ""
        known = self._kept.get(tenant)
        if known is None:
            # Shielded: one caller's cancellation must not take the load from the others.
            return await asyncio.shield(self._ask(tenant)[0])
        self._keep(tenant, known)
        if (
            self._store is None
            or known.stored is None
            or self._store.is_current(tenant, known.stored.version)
        ):
            return known.index, known.damaged
        if known.warning and time.monotonic() < known.retry_at:
            return known.index, known.warning
        task, since = self._ask(tenant)
        try:
            patience = (
                max(0.0, since + PATIENCE_S - time.monotonic())
                if known.index.catalogue.version.tools
                else None
            )
            return await asyncio.wait_for(asyncio.shield(task), patience)
        except TimeoutError:
            late = f"the store {self._store} did not answer within {PATIENCE_S:g} seconds"
            why = "the new version is still being loaded" if known.loading else late
            return known.index, f"the catalogue may be out of date: {why}"

    def _ask(self, tenant: str) -> tuple["asyncio.Task[Answer]", float]:
        key = asyncio.get_running_loop(), tenant
        if key not in self._asking:
            task = asyncio.create_task(self._current(tenant))
            self._asking[key] = task, time.monotonic()
            task.add_done_callback(partial(self._answered, key))
        return self._asking[key]

    def _answered(self, key: _Key, task: "asyncio.Task[Answer]") -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            # Callers that wait get it. Without this, asyncio would log it if no caller waits.
            task.exception()

    async def _current(self, tenant: str) -> Answer:
        known = self._kept.get(tenant)
        if known:
            known.loading = not isinstance(self._store, Store)
        try:
            now = await asyncio.to_thread(self._read, tenant, known)
        except (StoreUnavailable, Unauthorised, InvalidConfig) as error:
            if known is None:
                raise
            known.warning = f"the catalogue may be out of date: {error}"
            known.retry_at = time.monotonic() + PATIENCE_S
            return known.index, known.warning
        self._keep(tenant, now)
        large = now.stored and not now.on_disk and len(now.stored.tools) >= KEPT_FROM
        if large and isinstance(self._store, Store) and now.stored:
            now.on_disk = True
            asyncio.get_running_loop().run_in_executor(
                None, _save, self._store, tenant, now.stored, now.index
            )
        return now.index, now.damaged

    def _keep(self, tenant: str, now: _Kept) -> None:
        if self._store is not None:
            now.index.read_second = partial(self._store.second_vectors, tenant)
        self._kept[tenant] = now
        self._kept.move_to_end(tenant)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def _read(self, tenant: str, known: _Kept | None) -> _Kept:
        """Read the current tools. Unchanged parts of a known index are used again."""
        if self._store is None:
            given = self._catalogue
            catalogue = given if isinstance(given, Catalogue) else Catalogue.read(given or "")
            return _Kept(Index(catalogue, self._capabilities).counted())
        if not isinstance(self._store, Store):
            earlier = known.stored if known else None
            stored = self._store.renewed(tenant, earlier) if earlier else self._store.load(tenant)
            return self._renewed(stored, known)
        version = self._store.version(tenant)
        if known is None:
            known = self._resumed(self._store, tenant)
        else:
            known.loading = True
        if known is None or known.stored is None:
            return self._renewed(self._store.load(tenant, version), None)
        if known.stored.version == version:
            return _Kept(known.index, known.stored, on_disk=known.on_disk)
        return self._renewed(self._store.renewed(tenant, known.stored, version), known)

    def read(self, tenant: str) -> _Kept:
        """Read the current tools from the store, or from the saved index. The call blocks."""
        return self._read(tenant, None)

    def _renewed(self, stored: Stored, known: _Kept | None) -> _Kept:
        """Return an Index of the current tools. The known one is used again if no tool has changed."""
        if known and known.stored and stored.catalogue is known.stored.catalogue:
            return _Kept(known.index, stored)
        return _Kept(self._built(stored, known.index if known else None).counted(), stored)

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

    def _resumed(self, store: Store, tenant: str) -> _Kept | None:
        """Return the Index in a tenant's file. It may be of an earlier version of the tools."""
        file = store.index_file(tenant)
        if file is None or not file.exists():
            return None
        unlisted = frozenset(store.failures(tenant))
        resumed = index_file.load(file, store.embedder.id, self._capabilities, unlisted)
        if resumed is None:
            return None
        stored, index = resumed
        return _Kept(index, stored, on_disk=True)


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
    kept = IndexCache(None, store, (), 1, checked).read(tenant)
    _remember_flags(kept.index, written)
    if kept.stored is not None and not kept.on_disk:
        _save(store, tenant, kept.stored, kept.index)


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
