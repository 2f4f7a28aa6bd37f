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

from orchestrator.errors import InvalidCatalogue, StoreUnavailable
from orchestrator.index.embed import Embedder
from orchestrator.records.digests import same_server
from orchestrator.records.durable_names import COLLECTION
from orchestrator.records.tenant import SHARED, check_tenant
from orchestrator.records.tool import Tool
from orchestrator.store import manifest as ledger
from orchestrator.store.client import Points
from orchestrator.store.points import Changes, stored_tool, tool_id
from orchestrator.store.qdrant import Busy, Qdrant
from orchestrator.store.shelf import Shelf
from orchestrator.store.snapshot import Stored, following_news, read_stored
from orchestrator.store.writing import Progress, Writer

__all__ = ["SHARED", "Changes", "Progress", "Store", "Stored"]

_ATTEMPTS = 5
_SPARE = 256
"""Points that a search finds in vain: another writer's drafts, and shared tools behind the tenant's own."""
_REMEMBERED = 10_000


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
        self._writer = Writer(self._qdrant, self._shelf)
        self._versions: dict[str, tuple[str, str]] = {}

    def __str__(self) -> str:
        """The location without credentials."""
        return str(self._qdrant)

    @property
    def embedder(self) -> Embedder:
        """The embedder, opened on first use."""
        return self._shelf.embedder

    @property
    def remote(self) -> bool:
        return self._qdrant.remote

    @property
    def exists(self) -> bool:
        """Whether it may hold anything: a folder is made by the first write."""
        return self._qdrant.exists

    # --- reading

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
        known = self._versions.copy()  # In one step: other threads add to it.
        return [tenant for tenant, (before, _) in known.items() if before != stamp] if stamp else []

    def is_current(self, tenant: str, version: str) -> bool:
        """Whether this is surely still the tenant's version. Never waits; False where only asking can tell."""
        known = self._versions.get(tenant)
        return known is not None and known[1] == version and bool(known[0]) and known[0] == self._qdrant.stamp()

    def load(self, tenant: str) -> Stored:
        """The tenant's tools and those shared by all; raises StoreUnavailable when they cannot be read whole."""
        return self._load(tenant, None)

    def renewed(self, tenant: str, earlier: Stored) -> Stored:
        """The same now: `earlier` itself where nothing has changed, else read anew, but for the tools that it has.

        While another process writes, the earlier one stands, unless it has no tool: then the writer is waited for.
        """
        check_tenant(tenant, shared=True)
        if (told := self._told(tenant, earlier)) is not None:
            return told
        stamp = self._qdrant.stamp()
        try:
            with self._qdrant.opened(None if self.remote or not earlier.tools else 0.0) as points:
                # What was another embedder's may be this one's by now, though no tool has changed.
                same = earlier.vectors is not None or points.target(COLLECTION) == earlier.collection
                if self._version(points, tenant, stamp) == earlier.version and same:
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
        check_tenant(tenant, shared=True)
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
        check_tenant(tenant, shared=True)
        with self._qdrant.opened() as points:
            owners = [owner for owner in ledger.visible(points, tenant) if owner.tenant == tenant or not own]
        return dict(sorted((server, len(tools)) for owner in owners for server, tools in owner.tools.items()))

    def entries(self, tenant: str) -> dict[str, str]:
        """What the tenant's own servers were listed by (`ServerSpec.identity`), where a listing told that."""
        check_tenant(tenant, shared=True)
        with self._qdrant.opened() as points:
            return dict(ledger.owned(points, [tenant])[tenant].entries)

    def tool(self, tenant: str, key: str, entry: str = "") -> Tool | None:
        """One tool's definition, read without the rest; None where the tenant has no such tool, or what is stored
        of its server is not of the one that this entry means."""
        check_tenant(tenant, shared=True)
        server = key.partition(":")[0]
        with self._qdrant.opened() as points:
            owners = ledger.visible(points, tenant)
            if entry and not all(same_server(owner.entries.get(server, entry), entry) for owner in owners):
                return None
            ids = {":".join(name): point for owner in owners for point, name in owner.ids.items()}
            name = points.target(COLLECTION)
            found = points.get(name, [ids[key]]) if name and key in ids else {}
        return next((stored_tool(record.payload) for record in found.values()), None)

    def search(self, tenant: str, vector: NDArray[np.float32], limit: int) -> list[tuple[str, float]]:
        """The nearest of the tenant's tools by Qdrant itself: keys and cosines, best first. Routing takes the exact
        product of all vectors in its own process instead (docs/decisions-system.md); tests hold it against this."""
        check_tenant(tenant, shared=True)
        with self._qdrant.opened() as points:
            ids = {point: name for owner in ledger.visible(points, tenant) for point, name in owner.ids.items()}
            if not ids:
                return []
            found = points.nearest(COLLECTION, vector, {"tenant": [tenant, SHARED]}, limit + _SPARE)
        named = [(":".join(ids[point]), score) for point, score in found if point in ids]
        return named[:limit]

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
        """Makes these the server's tools. Only definitions that are new or changed are embedded.

        `entry` is what listed them, as `entries` tells it; without one, what is known of that stays.
        """
        return self.replace_servers(tenant, {server: tools}, on_progress, {server: entry} if entry else {})[server]

    def replace_servers(
        self,
        tenant: str,
        servers: Mapping[str, Sequence[Tool]],
        on_progress: Progress | None = None,
        entries: Mapping[str, str] | None = None,
    ) -> dict[str, Changes]:
        """The same for several servers, which all flip at once. Raises StoreUnavailable and EmbedderUnavailable."""
        check_tenant(tenant, shared=True)
        now = {server: _definitions(server, tools) for server, tools in servers.items()}
        wanted = {
            tool_id(tenant, tool.key, tool.hash): tool
            for server, tools in servers.items()
            for tool in tools
            if now[server][tool.name] == tool.hash
        }
        return self._writer.write(tenant, now, wanted, entries or {}, on_progress)

    def remove_server(self, tenant: str, server: str) -> Changes:
        """Takes a server and all its tools away."""
        check_tenant(tenant, shared=True)
        return self._writer.write(tenant, {server: None}, {}, {}, None)[server]

    def close(self) -> None:
        """Closes the client; a later call opens it again (and an in-memory store is then empty)."""
        self._qdrant.close()


def _definitions(server: str, tools: Sequence[Tool]) -> dict[str, str]:
    if wrong := next((tool for tool in tools if tool.server != server), None):
        raise InvalidCatalogue(f"tool {wrong.key!r} is not of server {server!r}: give each server its own tools")
    return {tool.name: tool.hash for tool in tools}
