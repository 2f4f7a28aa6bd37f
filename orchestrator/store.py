"""The Store: Qdrant as the record of every tenant's tools and their vectors; in memory, in a folder, or at a URL.

A tool's point is named by its definition, so adding points never changes what a reader reads. A write then flips one
record, the tenant's head, which says what all the servers of the write now hold: readers see the old catalogue or the
new one, never a mixture, wherever a writer dies. Last, the points go that nothing names any more.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orchestrator.embed import Embedder
from orchestrator.errors import InvalidCatalogue, StoreUnavailable, UnknownTenant
from orchestrator.models import Tool
from orchestrator.names import COLLECTION
from orchestrator.storage import ledger
from orchestrator.storage.client import Points
from orchestrator.storage.news import write_after
from orchestrator.storage.points import (
    SHARED,
    Changes,
    Definitions,
    Servers,
    changes_between,
    stored_tool,
    tool_id,
)
from orchestrator.storage.qdrant import Busy, Qdrant
from orchestrator.storage.shelf import Shelf
from orchestrator.storage.stored import Stored, following_news, read_stored

__all__ = ["SHARED", "Changes", "Progress", "Store", "Stored"]

_BATCH = 256
_PAUSE_S = 0.1
"""Between two chunks of a long write, so that a process that waits for the folder gets its turn."""
_ATTEMPTS = 5
_DRAFT_S = 3600
"""Points that nothing names may be another writer's, about to be named, until they are this old."""
_REMEMBERED = 10_000

Progress = Callable[[int, int], None]
"""Called with the tools written so far and the tools to write."""


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
        self._shelf = Shelf(self._qdrant, embedder)
        self._versions: dict[str, tuple[str, str]] = {}

    @property
    def embedder(self) -> Embedder:
        """The embedder, opened on first use."""
        return self._shelf.embedder

    @property
    def remote(self) -> bool:
        return self._qdrant.remote

    # --- reading

    def version(self, tenant: str) -> str:
        """What changes whenever the tenant's catalogue does. While another process writes, the last one known."""
        _check_tenant(tenant)
        stamp = self._qdrant.stamp()
        known = self._versions.get(tenant)
        if known is not None and stamp and known[0] == stamp:
            return known[1]
        try:
            with self._qdrant.opened(None if known is None or self.remote else 0.0) as points:
                return self._version(points, tenant, stamp)
        except Busy:
            if known is None:
                raise
            return known[1]

    def _version(self, points: Points, tenant: str, stamp: str) -> str:
        """The version, read and remembered. stamp: that of the store before it was opened."""
        versions = ledger.versions(points, [tenant, *self._outdated(stamp)])
        self._remember(versions, stamp)
        return versions[tenant]

    def _remember(self, versions: Mapping[str, str], stamp: str) -> None:
        if len(self._versions) > _REMEMBERED:
            self._versions.clear()
        self._versions.update((name, (stamp, version)) for name, version in versions.items())

    def _outdated(self, stamp: str) -> list[str]:
        """The tenants whose versions are asked for along with another's, since opening a folder is what takes time."""
        return [tenant for tenant, (known, _) in self._versions.items() if known != stamp] if stamp else []

    def is_current(self, tenant: str, version: str) -> bool:
        """Whether this is surely still the tenant's version. Never waits; False where only asking can tell."""
        known = self._versions.get(tenant)
        return known is not None and known[1] == version and bool(known[0]) and known[0] == self._qdrant.stamp()

    def load(self, tenant: str) -> Stored:
        """The tenant's tools and those shared by all; raises StoreUnavailable when they cannot be read whole."""
        return self._load(tenant, None)

    def renewed(self, tenant: str, earlier: Stored) -> Stored:
        """The same now: `earlier` itself where nothing has changed, else read anew, but for the tools that it has.

        While another process writes, the earlier one stands.
        """
        _check_tenant(tenant)
        if (told := self._told(tenant, earlier)) is not None:
            return told
        stamp = self._qdrant.stamp()
        try:
            with self._qdrant.opened(None if self.remote else 0.0) as points:
                if self._version(points, tenant, stamp) == earlier.version:
                    return earlier
                stored = read_stored(points, self._shelf, tenant, earlier)
        except Busy:
            return earlier
        return stored or self._load(tenant, earlier)

    def _told(self, tenant: str, earlier: Stored) -> Stored | None:
        """The tenant's tools now, from the news of a folder; None where it has to be opened."""
        stamp, version = self._versions.get(tenant, ("", ""))
        news = self._qdrant.news(stamp) if stamp and version == earlier.version else None
        stored = following_news(news[1], self._shelf, tenant, earlier) if news else None
        if news and stored:
            self._versions[tenant] = news[0], stored.version
        return stored

    def _load(self, tenant: str, earlier: Stored | None) -> Stored:
        _check_tenant(tenant)
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(0.05 * 2**attempt)  # A writer flipped a server between our two reads: read again.
            stamp = self._qdrant.stamp()
            with self._qdrant.opened() as points:
                stored = read_stored(points, self._shelf, tenant, earlier)
            if stored is not None:
                self._remember({tenant: stored.version}, stamp)
                return stored
        raise StoreUnavailable(
            f"the store {self._qdrant} cannot be read whole: it kept changing, or lacks tools; try again, or import "
            "the tools again"
        )

    def servers(self, tenant: str, *, own: bool = False) -> dict[str, int]:
        """The tenant's servers (with those shared by all, unless only its `own`) and their number of tools."""
        _check_tenant(tenant)
        with self._qdrant.opened() as points:
            owners = [owner for owner in ledger.visible(points, tenant) if owner.tenant == tenant or not own]
        return dict(sorted((server, len(tools)) for owner in owners for server, tools in owner.tools.items()))

    def tool(self, tenant: str, key: str) -> Tool | None:
        """One tool's definition, read without the rest; None where the tenant has no such tool."""
        _check_tenant(tenant)
        with self._qdrant.opened() as points:
            ids = {
                ":".join(name): point for owner in ledger.visible(points, tenant) for point, name in owner.ids.items()
            }
            name = points.target(COLLECTION)
            found = points.get(name, [ids[key]]) if name and key in ids else {}
        return next((stored_tool(record.payload) for record in found.values()), None)

    def search(self, tenant: str, vector: NDArray[np.float32], limit: int) -> list[tuple[str, float]]:
        """The nearest of the tenant's tools by Qdrant itself: keys and cosines, best first."""
        _check_tenant(tenant)
        with self._qdrant.opened() as points:
            ids = {point: name for owner in ledger.visible(points, tenant) for point, name in owner.ids.items()}
            if not ids:
                return []
            # A few points may be no tool of the catalogue: a writer's drafts, shared tools behind the tenant's own.
            found = points.nearest(COLLECTION, vector, {"tenant": [tenant, SHARED]}, limit + _BATCH)
        named = [(":".join(ids[point]), score) for point, score in found if point in ids]
        return named[:limit]

    # --- writing

    def replace_server(
        self, tenant: str, server: str, tools: Sequence[Tool], on_progress: Progress | None = None
    ) -> Changes:
        """Makes these the server's tools. Only definitions that are new or changed are embedded."""
        return self.replace_servers(tenant, {server: tools}, on_progress)[server]

    def replace_servers(
        self, tenant: str, servers: Mapping[str, Sequence[Tool]], on_progress: Progress | None = None
    ) -> dict[str, Changes]:
        """The same for several servers, which all flip at once. Raises StoreUnavailable and EmbedderUnavailable."""
        _check_tenant(tenant)
        now = {server: _definitions(server, tools) for server, tools in servers.items()}
        wanted = {
            tool_id(tenant, tool.key, tool.hash): tool
            for server, tools in servers.items()
            for tool in tools
            if now[server][tool.name] == tool.hash
        }
        return self._write(tenant, now, wanted, on_progress)

    def remove_server(self, tenant: str, server: str) -> Changes:
        """Takes a server and all its tools away."""
        _check_tenant(tenant)
        return self._write(tenant, {server: None}, {}, None)[server]

    def close(self) -> None:
        """Closes the client; a later call opens it again (and an in-memory store is then empty)."""
        self._qdrant.close()

    # --- inside

    def _write(
        self,
        tenant: str,
        now: Mapping[str, Definitions | None],
        wanted: Mapping[str, Tool],
        on_progress: Progress | None,
    ) -> dict[str, Changes]:
        with self._qdrant.opened() as points:
            if points.target(COLLECTION) in (None, self._shelf.collection):
                missing = points.missing(COLLECTION, list(wanted))
                if not missing or (len(missing) <= _BATCH and not self.embedder.remote):
                    return self._finish(points, tenant, now, wanted)
        self._shelf.follow_embedder()
        self._add_missing(tenant, wanted, on_progress)
        with self._qdrant.opened() as points:
            return self._finish(points, tenant, now, wanted)

    def _finish(
        self, points: Points, tenant: str, now: Mapping[str, Definitions | None], wanted: Mapping[str, Tool]
    ) -> dict[str, Changes]:
        """Adds the few points that are not there, flips, and sweeps."""
        ledger.prepare(points)
        before = ledger.owned(points, [tenant])[tenant]
        died = ledger.has_draft(points, tenant)
        if missing := points.missing(COLLECTION, list(wanted)):
            ledger.mark_draft(points, tenant)
            tools = {point: wanted[point] for point in missing}
            self._shelf.add(points, tenant, tools, self._shelf.embed(list(tools.values())))
        if before.pending or any(before.tools.get(server) != tools for server, tools in now.items()):
            version = ledger.versions(points, [tenant])[tenant]
            ledger.flip(points, before, {**before.pending, **now})
            self._qdrant.wrote(write_after(points, before, version, now) if self._qdrant.folder else None)
        self._sweep(points, before, scan=died)
        return {server: changes_between(before.tools.get(server, {}), tools or {}) for server, tools in now.items()}

    def _add_missing(self, tenant: str, wanted: Mapping[str, Tool], on_progress: Progress | None) -> None:
        """Writes the points that are not there, chunk by chunk, so that others get their turn in between."""
        with self._qdrant.opened() as points:
            missing = points.missing(COLLECTION, list(wanted))
            if missing:
                ledger.prepare(points)
                ledger.mark_draft(points, tenant)
        done = 0
        for first in range(0, len(missing), self._shelf.chunk):
            ids = missing[first : first + self._shelf.chunk]
            vectors = self._shelf.embed([wanted[point] for point in ids])
            with self._qdrant.opened() as points:
                for start in range(0, len(ids), _BATCH):
                    part = {point: wanted[point] for point in ids[start : start + _BATCH]}
                    self._shelf.add(points, tenant, part, vectors[start : start + _BATCH])
                    done += len(part)
                    if on_progress is not None:
                        on_progress(done, len(missing))
            if done < len(missing) and self._qdrant.folder:
                time.sleep(_PAUSE_S)

    def _sweep(self, points: Points, before: Servers, *, scan: bool) -> None:
        """Removes the points that were named and are no more; after a writer's death also those that never were."""
        named = ledger.owned(points, [before.tenant])[before.tenant].ids
        points.delete(COLLECTION, [point for point in before.ids if point not in named])
        if scan and points.has(COLLECTION):
            found = points.find(COLLECTION, {"tenant": before.tenant})
            unnamed = [record for record in found if str(record.id) not in named]
            old = [str(r.id) for r in unnamed if r.payload["written"] <= time.time() - _DRAFT_S]
            points.delete(COLLECTION, old)
            if len(old) < len(unnamed):
                return
        ledger.clear_draft(points, before.tenant)


def _definitions(server: str, tools: Sequence[Tool]) -> dict[str, str]:
    if wrong := next((tool for tool in tools if tool.server != server), None):
        raise InvalidCatalogue(f"tool {wrong.key!r} is not of server {server!r}: give each server its own tools")
    return {tool.name: tool.hash for tool in tools}


def _check_tenant(tenant: str) -> None:
    if not tenant:
        raise UnknownTenant("no tenant: give an organization (org:ID) or a user (user:ID)")
