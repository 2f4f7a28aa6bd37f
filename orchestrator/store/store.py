"""The Store: Qdrant as the record of every tenant's tools and their vectors; in memory, in a folder, or at a URL.

A tool's point is named by its definition, so adding points never changes what a reader reads. A write then replaces one
record, the tenant's manifest: readers see the old catalogue or the new one, never a mixture, wherever a writer dies.
Last, the points go that no manifest names any more.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from weakref import WeakValueDictionary

from orchestrator.errors import InvalidCatalogue, InvalidConfig, StoreBusy, StoreUnavailable
from orchestrator.index.embed import Embedder
from orchestrator.records.digests import same_server
from orchestrator.records.durable_names import COLLECTION
from orchestrator.records.tenant import SHARED, check_tenant
from orchestrator.records.tool import Tool
from orchestrator.store import manifest
from orchestrator.store.manifest import Changes, Definitions, Manifest, stored_tool, tool_id
from orchestrator.store.qdrant import Points, Qdrant
from orchestrator.store.snapshot import Stored, read_stored
from orchestrator.store.vectors import ToolPoints

__all__ = ["SHARED", "Changes", "Progress", "Store", "Stored"]

Progress = Callable[[int, int], None]
"""Called with the tools written so far and the tools to write."""

_ATTEMPTS = 5
_REMEMBERED = 10_000
_BATCH = 256
_PAUSE_S = 0.1
"""Between two chunks of a long write, so that a process that waits for the folder gets its turn."""
_DRAFT_S = 3600
"""Points that nothing names may be another writer's, about to be named, until they are this old."""


class _Known(NamedTuple):
    """Facts that hold while the store has this stamp: the tenants' versions, and the servers of one of them."""

    stamp: str = ""
    versions: Mapping[str, str] = {}
    tenant: str = ""
    owners: tuple[Manifest, ...] = ()


class Store:
    """Tools by tenant. All methods block (call them in a thread from async code) and may be called from any thread."""

    def __init__(
        self,
        location: str | Path | None = None,
        *,
        embedder: Embedder | Callable[[], Embedder],
        timeout_s: float = 10.0,
    ) -> None:
        self.location = "" if location is None else str(location)
        self._qdrant = Qdrant(self.location, timeout_s)
        self._tool_points = ToolPoints(self._qdrant, embedder)
        self._known = _Known()
        self._loaded: WeakValueDictionary[str, Stored] = WeakValueDictionary()
        self._rewritten: dict[str, Stored] = {}
        """Tenants' tools after a write of this object: its readers need not open the folder."""

    def __str__(self) -> str:
        """Return the location without credentials."""
        return str(self._qdrant)

    @property
    def embedder(self) -> Embedder:
        """Return the embedder, opened on first use."""
        return self._tool_points.embedder

    @property
    def remote(self) -> bool:
        return self._qdrant.remote

    @property
    def exists(self) -> bool:
        """Tell whether it may hold anything: a folder is made by the first write."""
        return self._qdrant.exists

    def close(self) -> None:
        """Close the client; a later call opens it again (and an in-memory store is then empty)."""
        self._qdrant.close()

    # --- reading

    def load(self, tenant: str) -> Stored:
        """Return the tenant's tools and those shared by all; StoreUnavailable when they cannot be read whole."""
        check_tenant(tenant, shared=True)
        return self._load(tenant, None)

    def renewed(self, tenant: str, earlier: Stored) -> Stored:
        """Return the same now: `earlier` itself where nothing has changed, else only what it lacks is read.

        While another process writes, the earlier one stands, unless it has no tool: then the writer is waited for.
        """
        check_tenant(tenant, shared=True)
        written = self._rewritten.pop(tenant, None)
        if written is not None and self.is_current(tenant, written.version):
            return written
        try:
            with self._opened(tenant, None if self.remote or not earlier.tools else 0.0) as points:
                if manifest.versions(points, [tenant])[tenant] == earlier.version:
                    return earlier
                stored = read_stored(points, self._tool_points, tenant, earlier)
        except StoreBusy:
            return earlier
        if stored and (stored.version, stored.damaged) == (earlier.version, earlier.damaged):
            return earlier  # What is damaged is still so.
        return self._kept(tenant, stored) if stored else self._load(tenant, earlier)

    def is_current(self, tenant: str, version: str) -> bool:
        """Tell whether this is surely still the tenant's version. Never waits; False where only asking can tell."""
        known = self._known
        return known.versions.get(tenant) == version and self._holds(known)

    def _holds(self, known: "_Known") -> bool:
        return bool(known.stamp) and known.stamp == self._qdrant.stamp()

    def servers(self, tenant: str, *, own: bool = False) -> dict[str, int]:
        """Return the tenant's servers (with those shared by all, unless only its `own`) and their number of tools."""
        owners = [owner for owner in self._visible(tenant) if owner.tenant == tenant or not own]
        return dict(sorted((server, len(tools)) for owner in owners for server, tools in owner.tools.items()))

    def entries(self, tenant: str) -> dict[str, str]:
        """Return what the tenant's own servers were listed by (`ServerSpec.identity`), where a listing said so."""
        return dict(self._visible(tenant)[0].entries)

    def failures(self, tenant: str) -> dict[str, str]:
        """Return why the last listing of each of the tenant's servers failed, where one did."""
        check_tenant(tenant, shared=True)
        with self._qdrant.opened() as points:
            return manifest.failures(points, tenant)

    def tool(self, tenant: str, key: str, entry: str = "") -> Tool | None:
        """Return one tool's definition, read without the rest; None where the tenant has no such tool, or what is
        stored of its server is not of the one that this entry means."""
        check_tenant(tenant, shared=True)
        server, _, name = key.partition(":")
        with self._qdrant.opened() as points:
            owners = manifest.visible(points, tenant)
            if entry and not all(same_server(owner.entries.get(server, entry), entry) for owner in owners):
                return None
            ids = [tool_id(o.tenant, key, o.tools[server][name]) for o in owners if name in o.tools.get(server, {})]
            found = points.get(points.target(COLLECTION) or "", ids) if ids else {}
        tool = next((stored_tool(record.payload) for record in found.values()), None)
        if found and tool is None:
            raise InvalidConfig(manifest.damaged([key]))
        return tool

    def _visible(self, tenant: str) -> tuple[Manifest, ...]:
        check_tenant(tenant, shared=True)
        known = self._known
        if known.tenant == tenant and self._holds(known):
            return known.owners
        with self._opened(tenant) as points:
            return manifest.visible(points, tenant)

    def _load(self, tenant: str, earlier: Stored | None) -> Stored:
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(0.05 * 2**attempt)  # A writer came between our reads: read again.
            with self._opened(tenant) as points:
                stored = read_stored(points, self._tool_points, tenant, earlier)
            if stored is not None:
                return self._kept(tenant, stored)
        raise StoreUnavailable(
            f"the store {self._qdrant} cannot be read whole: it kept changing, or lacks tools; try again, or import "
            "the tools again"
        )

    def _kept(self, tenant: str, stored: Stored) -> Stored:
        self._loaded[tenant] = stored
        self._rewritten.pop(tenant, None)
        return stored

    @contextmanager
    def _opened(self, tenant: str, wait_s: float | None = None, *, make: bool = False) -> Iterator[Points]:
        """Give the open points, and remember what is cheap to read then: opening a folder is what takes time."""
        with self._qdrant.opened(wait_s, make=make) as points:
            yield points
            if self.remote:
                return
            known = self._known.versions if len(self._known.versions) < _REMEMBERED else {}
            versions = manifest.versions(points, {tenant, *known})
            owners = manifest.visible(points, tenant)
        self._known = _Known(points.stamp, versions, tenant, owners)

    # --- writing

    def replace_server(
        self,
        tenant: str,
        server: str,
        tools: Sequence[Tool],
        on_progress: Progress | None = None,
        *,
        entry: str = "",
    ) -> Changes:
        """Make these the server's tools. Only definitions that are new or changed are embedded.

        `entry` is what listed them, as `entries` returns it; without one, what is known of that stays.
        """
        return self.replace_servers(tenant, {server: tools}, on_progress, {server: entry} if entry else {})[server]

    def replace_servers(
        self,
        tenant: str,
        servers: Mapping[str, Sequence[Tool] | None],
        on_progress: Progress | None = None,
        entries: Mapping[str, str] | None = None,
    ) -> dict[str, Changes]:
        """Do the same for several servers, all at once; None takes one away.

        Raises StoreUnavailable and EmbedderUnavailable.
        """
        check_tenant(tenant, shared=True)
        now = {server: None if tools is None else _definitions(server, tools) for server, tools in servers.items()}
        given = {tool.key: tool for own in servers.values() for tool in own or ()}
        wanted = {tool_id(tenant, key, tool.hash): tool for key, tool in given.items()}
        with self._opened(tenant, make=True) as points:
            if points.target(COLLECTION) in (None, self._tool_points.collection):
                missing = self._tool_points.missing(points, wanted)
                if not missing or (len(missing) <= _BATCH and not self.embedder.remote):
                    return self._finish(points, tenant, now, wanted, entries or {})
        self._tool_points.follow_embedder()
        self._add_missing(tenant, wanted, on_progress)
        with self._opened(tenant, make=True) as points:
            return self._finish(points, tenant, now, wanted, entries or {})

    def note_failures(self, tenant: str, errors: Mapping[str, str]) -> None:
        """Keep why these servers could not be listed, "" for those that could; what is known of others stays."""
        before = self.failures(tenant)
        after = {server: error for server, error in {**before, **errors}.items() if error}
        if after != before:
            with self._qdrant.opened(make=True) as points:
                manifest.prepare(points)
                manifest.note_failures(points, tenant, after)

    def remove_server(self, tenant: str, server: str) -> Changes:
        """Take a server and all its tools away."""
        return self.replace_servers(tenant, {server: None})[server]

    def _add_missing(self, tenant: str, wanted: Mapping[str, Tool], on_progress: Progress | None) -> None:
        """Write the points that do not exist, chunk by chunk, so that others get their turn in between."""
        with self._qdrant.opened(make=True) as points:
            if missing := self._tool_points.missing(points, wanted):
                manifest.prepare(points)
                manifest.mark_draft(points, tenant)
        done = 0
        for first in range(0, len(missing), self._tool_points.chunk):
            ids = missing[first : first + self._tool_points.chunk]
            vectors = self._tool_points.embed([wanted[point] for point in ids])
            with self._qdrant.opened(make=True) as points:
                for start in range(0, len(ids), _BATCH):
                    part = {point: wanted[point] for point in ids[start : start + _BATCH]}
                    self._tool_points.add(points, tenant, part, vectors[start : start + _BATCH])
                    done += len(part)
                    if on_progress is not None:
                        on_progress(done, len(missing))
            if done < len(missing) and self._qdrant.folder:
                time.sleep(_PAUSE_S)

    def _finish(
        self,
        points: Points,
        tenant: str,
        now: Mapping[str, Definitions | None],
        wanted: Mapping[str, Tool],
        entries: Mapping[str, str],
    ) -> dict[str, Changes]:
        """Add the few points that do not exist, replace the manifest, and sweep."""
        manifest.prepare(points)
        died = manifest.has_draft(points, tenant)
        if missing := self._tool_points.missing(points, wanted):
            manifest.mark_draft(points, tenant)
            tools = {point: wanted[point] for point in missing}
            self._tool_points.add(points, tenant, tools, self._tool_points.embed(list(tools.values())))
        while True:  # Until no other writer, on a Qdrant server, comes between.
            before = manifest.owned(points, tenant)
            after = before.changed(now, entries)
            if after == before:
                break
            if manifest.swap(points, before, after):
                self._qdrant.wrote()
                break
        self._sweep(points, before, after, scan=died)
        self._hand_over(points, tenant)
        return {server: Changes.between(before.tools.get(server, {}), after.tools.get(server, {})) for server in now}

    def _hand_over(self, points: Points, tenant: str) -> None:
        """Renew what this object's readers have of the tenant, as the folder is open."""
        earlier = self._loaded.get(tenant)
        if self._qdrant.folder and earlier and (stored := read_stored(points, self._tool_points, tenant, earlier)):
            self._kept(tenant, stored)
            self._rewritten[tenant] = stored

    def _sweep(self, points: Points, before: Manifest, after: Manifest, *, scan: bool) -> None:
        """Remove the points that were named and are no more; after a writer's death also those that never were."""
        collection, tenant = points.target(COLLECTION), after.tenant
        named = {point for point, *_ in after.points()}
        gone = [point for point, *_ in before.points() if point not in named]
        if collection:
            points.delete(collection, gone)
        if collection and scan:
            unnamed = [record for record in points.find(collection, tenant) if str(record.id) not in named]
            old = [str(r.id) for r in unnamed if r.payload["written"] <= time.time() - _DRAFT_S]
            points.delete(collection, old)
            if len(old) < len(unnamed):
                return
        manifest.clear_draft(points, tenant)


def _definitions(server: str, tools: Sequence[Tool]) -> dict[str, str]:
    if wrong := next((tool for tool in tools if tool.server != server), None):
        raise InvalidCatalogue(f"tool {wrong.key!r} is not of server {server!r}: give each server its own tools")
    return {tool.name: tool.hash for tool in tools}
