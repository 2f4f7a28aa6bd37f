"""The Store: Qdrant as the record of every tenant's tools and their vectors; in memory, in a folder, or at a URL.

A tool's point is named by its definition, so adding points never changes what a reader reads. A write then flips one
record, the tenant's head, which says what all the servers of the write now hold: readers see the old catalogue or the
new one, never a mixture, wherever a writer dies. The records of the single servers follow, and last the points go that
nothing names any more.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orchestrator.embed import Embedder, Vectors
from orchestrator.errors import InvalidCatalogue, InvalidConfig, StoreUnavailable, UnknownTenant
from orchestrator.models import Tool
from orchestrator.names import COLLECTION
from orchestrator.points import (
    SHARED,
    Changes,
    Definitions,
    Servers,
    changes_between,
    draft_id,
    draft_payload,
    head_id,
    head_payload,
    meta_id,
    meta_payload,
    new_stamp,
    read_servers,
    stored_tool,
    tool_id,
    tool_payload,
    version_of,
)
from orchestrator.qdrant import Busy, Points, Qdrant
from orchestrator.text import card

__all__ = ["SHARED", "Changes", "Progress", "Store", "Stored"]

CATALOGUES = "tool_catalogues"
"""The collection of the records that say which tools the tenants' servers have."""

_BATCH = 256
_CHUNK, _REMOTE_CHUNK = 4096, 512
"""Tools that are embedded at a time, while the store is free for others, and then written at a time."""
_PAUSE_S = 0.1
"""Between two chunks, so that a process that waits for the folder gets its turn."""
_ATTEMPTS = 5
_DRAFT_S = 3600
"""Points that nothing names may be another writer's, about to be named, until they are this old."""
_REMEMBERED = 10_000

Progress = Callable[[int, int], None]
"""Called with the tools written so far and the tools to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A tenant's tools ordered by server and name, their vectors [tools, dimension], and the set's version.

    `vectors` is None where the stored ones are another embedder's; `note` then says so, and the remedy.
    """

    tools: tuple[Tool, ...]
    vectors: NDArray[np.float32] | None
    version: str
    note: str = ""


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
        self._embedder = embedder
        self._qdrant = Qdrant(self.location, timeout_s)
        self._versions: dict[str, tuple[str, str]] = {}

    @property
    def embedder(self) -> Embedder:
        """The embedder, opened on first use."""
        if callable(self._embedder):
            self._embedder = self._embedder()
        return self._embedder

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
                asked = [tenant] if self.remote else [*self._versions, tenant]
                versions = _versions(points, asked)
        except Busy:
            if known is None:
                raise
            return known[1]
        if len(self._versions) > _REMEMBERED:
            self._versions.clear()
        self._versions.update((name, (stamp, version)) for name, version in versions.items())
        return versions[tenant]

    def is_current(self, tenant: str, version: str) -> bool:
        """Whether this is surely still the tenant's version. Never waits; False where only asking can tell."""
        known = self._versions.get(tenant)
        return known is not None and known[1] == version and bool(known[0]) and known[0] == self._qdrant.stamp()

    def load(self, tenant: str) -> Stored:
        """The tenant's tools and those shared by all; raises StoreUnavailable when they cannot be read whole."""
        _check_tenant(tenant)
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(0.05 * 2**attempt)  # A writer flipped a server between our two reads: read again.
            with self._qdrant.opened() as points:
                owners = _visible(points, tenant)
                ids = [point for owner in owners for point in owner.ids]
                name = points.target(COLLECTION)
                own = name == self._collection()
                records = points.get(name, ids, vectors=own) if name and ids else {}
                if len(records) < len(ids) or points.target(COLLECTION) != name:
                    continue
            tools = {point: stored_tool(record.payload) for point, record in records.items()}
            order = sorted(tools, key=lambda point: (tools[point].server, tools[point].name))
            vectors = np.array([records[point].vector for point in order], np.float32) if own and order else None
            note = self._mismatch(vectors) if order else ""
            return Stored(
                tools=tuple(tools[point] for point in order),
                vectors=None if note else vectors,
                version=version_of(*owners),
                note=note,
            )
        raise StoreUnavailable(
            f"the store {self._qdrant} cannot be read whole: it kept changing, or lacks tools; try again, or import "
            "the tools again"
        )

    def servers(self, tenant: str) -> dict[str, int]:
        """The tenant's servers (and those shared by all) with their number of tools."""
        _check_tenant(tenant)
        with self._qdrant.opened() as points:
            counts = {server: len(own) for owner in _visible(points, tenant) for server, own in owner.tools.items()}
        return dict(sorted(counts.items()))

    def search(self, tenant: str, vector: NDArray[np.float32], limit: int) -> list[tuple[str, float]]:
        """The nearest of the tenant's tools by Qdrant itself: keys and cosines, best first."""
        _check_tenant(tenant)
        with self._qdrant.opened() as points:
            ids = {point: name for owner in _visible(points, tenant) for point, name in owner.ids.items()}
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
            if points.target(COLLECTION) in (None, self._collection()):
                missing = points.missing(COLLECTION, list(wanted))
                if not missing or (len(missing) <= _BATCH and not self.embedder.remote):
                    return self._finish(points, tenant, now, wanted)
        self._follow_embedder()
        self._add_missing(tenant, wanted, on_progress)
        with self._qdrant.opened() as points:
            return self._finish(points, tenant, now, wanted)

    def _finish(
        self, points: Points, tenant: str, now: Mapping[str, Definitions | None], wanted: Mapping[str, Tool]
    ) -> dict[str, Changes]:
        """Adds the few points that are not there, flips, and sweeps."""
        if not points.has(CATALOGUES):
            points.create(CATALOGUES, other_fields=("type", "server"))
        before = _owned(points, [tenant])[tenant]
        draft = draft_id(tenant)
        died = not points.missing(CATALOGUES, [draft])
        if missing := points.missing(COLLECTION, list(wanted)):
            points.put(CATALOGUES, {draft: draft_payload(tenant)})
            self._add(points, tenant, {point: wanted[point] for point in missing})
        if before.pending or any(before.tools.get(server) != tools for server, tools in now.items()):
            self._flip(points, before, {**before.pending, **now})
            self._qdrant.wrote()
        self._sweep(points, before, scan=died)
        return {server: changes_between(before.tools.get(server, {}), tools or {}) for server, tools in now.items()}

    def _add_missing(self, tenant: str, wanted: Mapping[str, Tool], on_progress: Progress | None) -> None:
        """Writes the points that are not there, chunk by chunk, so that others get their turn in between."""
        with self._qdrant.opened() as points:
            missing = points.missing(COLLECTION, list(wanted))
            if missing and not points.has(CATALOGUES):
                points.create(CATALOGUES, other_fields=("type", "server"))
            if missing:
                points.put(CATALOGUES, {draft_id(tenant): draft_payload(tenant)})
        done = 0
        for ids in _chunks(missing, _REMOTE_CHUNK if self.embedder.remote else _CHUNK):
            vectors = self._embed([wanted[point] for point in ids])
            with self._qdrant.opened() as points:
                for start in range(0, len(ids), _BATCH):
                    part = {point: wanted[point] for point in ids[start : start + _BATCH]}
                    self._add(points, tenant, part, vectors[start : start + _BATCH])
                    done += len(part)
                    if on_progress is not None:
                        on_progress(done, len(missing))
            if done < len(missing) and self._qdrant.folder:
                time.sleep(_PAUSE_S)

    def _add(self, points: Points, tenant: str, tools: Mapping[str, Tool], vectors: Vectors | None = None) -> None:
        if not tools:
            return
        vectors = self._embed(list(tools.values())) if vectors is None else vectors
        name = self._collection()
        if points.target(COLLECTION) is None:
            if not points.has(name):
                points.create(name, vectors.shape[1])
            points.point(COLLECTION, name)
        self._check_size(points.size(COLLECTION), vectors.shape[1])
        points.put(COLLECTION, {point: tool_payload(tenant, tool) for point, tool in tools.items()}, vectors)

    def _embed(self, tools: Sequence[Tool]) -> Vectors:
        return self.embedder.embed([card(tool) for tool in tools])

    def _flip(self, points: Points, before: Servers, now: Mapping[str, Definitions | None]) -> None:
        """From the first line on the new catalogue is in force; the rest is bookkeeping that any writer can finish."""
        tenant, stamp = before.tenant, new_stamp()
        head = head_id(tenant)
        points.put(CATALOGUES, {head: head_payload(tenant, stamp, now)})
        points.put(
            CATALOGUES,
            {
                meta_id(tenant, server): meta_payload(tenant, server, tools)
                for server, tools in now.items()
                if tools is not None
            },
        )
        points.delete(CATALOGUES, [meta_id(tenant, server) for server, tools in now.items() if tools is None])
        # The same stamp: what is in force did not change. Unless another writer came in between, on a Qdrant server.
        ours = points.get(CATALOGUES, [head])[head].payload["stamp"] == stamp
        points.put(CATALOGUES, {head: head_payload(tenant, stamp if ours else new_stamp(), {})})

    def _sweep(self, points: Points, before: Servers, *, scan: bool) -> None:
        """Removes the points that were named and are no more; after a writer's death also those that never were."""
        named = _owned(points, [before.tenant])[before.tenant].ids
        points.delete(COLLECTION, [point for point in before.ids if point not in named])
        if scan and points.has(COLLECTION):
            found = points.find(COLLECTION, {"tenant": before.tenant})
            unnamed = [record for record in found if str(record.id) not in named]
            old = [str(r.id) for r in unnamed if r.payload["written"] <= time.time() - _DRAFT_S]
            points.delete(COLLECTION, old)
            if len(old) < len(unnamed):
                return
        points.delete(CATALOGUES, list(points.get(CATALOGUES, [draft_id(before.tenant)], payload=False)))

    def _follow_embedder(self) -> None:
        """Where the alias leads to another embedder's vectors: all tools embedded anew, and the alias led to them.

        Searches go on with the old vectors until then. What an earlier, broken attempt has embedded is kept.
        """
        name = self._collection()
        while True:
            with self._qdrant.opened() as points:
                current = points.target(COLLECTION)
                if current is None or current == name:
                    return
                ids = points.missing(name, [str(record.id) for record in points.find(current, {}, payload=False)])
                if not ids and points.has(name):
                    points.point(COLLECTION, name)
                    points.drop(current)
                    self._qdrant.wrote()
                    return
                chunk = ids[: _REMOTE_CHUNK if self.embedder.remote else _CHUNK]
                payloads = {point: record.payload for point, record in points.get(current, chunk).items()}
            vectors = self._embed([stored_tool(payload) for payload in payloads.values()])
            with self._qdrant.opened() as points:
                if not points.has(name):
                    points.create(name, vectors.shape[1] or self.embedder.dimension)
                self._check_size(points.size(name), vectors.shape[1])
                points.put(name, payloads, vectors)

    def _collection(self) -> str:
        """The embedder's collection; a hash stands for what a collection's name cannot hold."""
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", self.embedder.id)
        if plain != self.embedder.id:
            plain = f"{plain[:100]}_{sha256(self.embedder.id.encode()).hexdigest()[:8]}"
        return f"{COLLECTION}__{plain}"

    def _check_size(self, stored: int, given: int) -> None:
        if stored != given:
            raise InvalidConfig(self._wrong_size(stored, given))

    def _wrong_size(self, stored: int, given: int) -> str:
        return (
            f"the store {self._qdrant} holds vectors of {stored} dimensions, embedder {self.embedder.id!r} gives "
            f"{given}: choose the embedder that it was filled with, or import the tools into an empty store"
        )

    def _mismatch(self, vectors: NDArray[np.float32] | None) -> str:
        """Why the stored vectors are of no use to this embedder, and the remedy; "" if they are."""
        if vectors is None:
            return (
                f"the store's vectors are not embedder {self.embedder.id!r}'s, so this process embeds the tools anew; "
                "the next `toolroute tools import` or `tools sync` embeds them in the store"
            )
        if not self.embedder.dimension:  # An endpoint's is known after its first answer, which is then held to this.
            self.embedder.dimension = vectors.shape[1]
        return (
            ""
            if self.embedder.dimension == vectors.shape[1]
            else self._wrong_size(vectors.shape[1], self.embedder.dimension)
        )


def _owned(points: Points, tenants: Sequence[str]) -> dict[str, Servers]:
    """Each tenant's own servers."""
    if not points.has(CATALOGUES):
        return {tenant: Servers(tenant=tenant, tools={}, pending={}) for tenant in tenants}
    heads = points.get(CATALOGUES, [head_id(tenant) for tenant in tenants])
    metas = [record.payload for record in points.find(CATALOGUES, {"tenant": tenants, "type": "meta"})]
    return {
        tenant: read_servers(tenant, heads[head].payload if (head := head_id(tenant)) in heads else None, metas)
        for tenant in tenants
    }


def _visible(points: Points, tenant: str) -> tuple[Servers, ...]:
    """The tenant's own servers, and the shared ones that none of its own hides by its name."""
    owned = _owned(points, list(dict.fromkeys([tenant, SHARED])))
    own, shared = owned[tenant], owned[SHARED]
    if tenant == SHARED:
        return (own,)
    seen = {server: tools for server, tools in shared.tools.items() if server not in own.tools}
    return own, Servers(tenant=SHARED, stamp=shared.stamp, tools=seen, pending={})


def _versions(points: Points, tenants: Sequence[str]) -> dict[str, str]:
    """Each tenant's version, as `version_of` what it sees."""
    names = list(dict.fromkeys([*tenants, SHARED]))
    heads = points.get(CATALOGUES, [head_id(name) for name in names]) if points.has(CATALOGUES) else {}

    def own(tenant: str) -> Servers:
        record = heads.get(head_id(tenant))
        return Servers(tenant=tenant, stamp=record.payload["stamp"] if record else "", tools={}, pending={})

    return {name: version_of(own(name), *([own(SHARED)] if name != SHARED else [])) for name in names}


def _definitions(server: str, tools: Sequence[Tool]) -> dict[str, str]:
    if wrong := next((tool for tool in tools if tool.server != server), None):
        raise InvalidCatalogue(f"tool {wrong.key!r} is not of server {server!r}: give each server its own tools")
    return {tool.name: tool.hash for tool in tools}


def _chunks(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


def _check_tenant(tenant: str) -> None:
    if not tenant:
        raise UnknownTenant("no tenant: give an organization (org:ID) or a user (user:ID)")
