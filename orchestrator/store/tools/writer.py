"""The Writer: it replaces the tools of a tenant's servers in several short steps, between which others may write."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.errors import StoreBusy, StoreUnavailable
from orchestrator.records.tool import Tool
from orchestrator.store.backend import TOOLS, Backend, Damaged
from orchestrator.store.points import Points
from orchestrator.store.tools import drafts, manifest_records
from orchestrator.store.tools.manifest import Changes, Definitions, Entries, Manifest
from orchestrator.store.tools.tool_points import ToolPoints
from orchestrator.store.tools.tool_records import tool_id

logger = logging.getLogger(__name__)
Progress = Callable[[int, int], None]
"""Called with the number of tools written so far and the number of all tools to write."""
Definition = tuple[str, str]
"""A tool's key and the hash of its definition."""
_SWAPS = 100
"""A try fails only if another writer was first, so this many failures have another cause."""
_BATCH = 256
"""Up to this number of new tools, the whole write happens under one lock: to embed them is quick."""


class Outdated(StoreBusy):
    """A server's tools are not those any more that a write was to replace."""


class Writer:
    """Writes the tools of all tenants."""

    def __init__(self, backend: Backend, tool_points: ToolPoints) -> None:
        self._backend = backend
        self._tool_points = tool_points

    def replace(self, write: "Write", on_progress: Progress | None) -> dict[str, Changes]:
        """Write the tools of several servers, and return the changes of each server.

        A write of tools replaces damaged files.
        """
        try:
            return self._replaced(write, on_progress)
        except Damaged:
            if not write.wanted:
                raise
        # The writer has all tools of its servers, so it can begin anew. Other servers' tools are lost.
        self._backend.set_aside(write.tenant, TOOLS)
        with self._backend.writing(write.tenant) as points:
            manifest_records.note_loss(points, write.tenant)
        return self._replaced(write, on_progress)

    def _replaced(self, write: "Write", on_progress: Progress | None) -> dict[str, Changes]:
        with self._backend.writing(write.tenant) as points:
            start = self._start(points, write)
            missing = len(start.missing)
            is_quick = missing <= _BATCH and not self._tool_points.embedder.remote
            if is_quick or not missing:
                return self._finish(points, write, start, [])
        # Embedding takes long, so other writers get their turn meanwhile.
        noted = self._add_missing(write.tenant, start, on_progress)
        with self._backend.writing(write.tenant) as points:
            current = self._start(points, write)
            if current.before.state != start.before.state:
                noted = []  # Another writer may need these points, so their drafts stay.
            return self._finish(points, write, current, noted)

    def _start(self, points: Points, write: "Write") -> "_Start":
        """Return the state before a write."""
        before, noted = manifest_records.to_replace(points, write.tenant)
        collection = self._tool_points.collection
        tools = dict(write.wanted)
        named_definitions: set[Definition] = set()
        if collection == before.collection:
            named_definitions = before.definitions()
        else:  # Another embedder: the tools that stay are embedded again.
            tools = self._tool_points.left_behind(points, before, collection) | tools
        after = write.on(before, collection).definitions()
        tools = {point: tool for point, tool in tools.items() if (tool.key, tool.hash) in after}
        points_to_add = self._tool_points.missing(points, collection, tools, named_definitions)
        missing = {point: tools[point] for point in points_to_add}
        return _Start(before, noted, collection, missing)

    def _add_missing(self, tenant: str, start: "_Start", on_progress: Progress | None) -> list[str]:
        """Write the missing points in chunks, so that other writers get their turn in between. Return their drafts."""
        self._backend.check_version()
        missing_tools = start.missing
        with self._backend.writing(tenant) as points:
            noted = drafts.note(
                points, manifest_records.CATALOGUES, [(start.collection, start.added)]
            )
        ids = list(missing_tools)
        points_written = 0
        size = self._tool_points.chunk
        for chunk_start in range(0, len(ids), size):
            chunk = ids[chunk_start : chunk_start + size]
            vectors = self._tool_points.embed([missing_tools[point] for point in chunk])
            with self._backend.writing(tenant) as points:
                for first in range(0, len(chunk), _BATCH):
                    rows = slice(first, first + _BATCH)
                    batch = {point: missing_tools[point] for point in chunk[rows]}
                    self._tool_points.add(points, start.collection, batch, vectors.of(rows))
                    points_written += len(batch)
                    if on_progress is not None:
                        on_progress(points_written, len(missing_tools))
        return noted

    def _finish(
        self, points: Points, write: "Write", start: "_Start", noted: list[str]
    ) -> dict[str, Changes]:
        """Add the missing points, replace the manifest, and delete unused points.

        Args:
            points: The tenant's points.
            write: The write.
            start: The state before the write.
            noted: The drafts of the points that this write has already added.
        """
        for _ in range(_SWAPS):  # On a Qdrant server, another writer may come first.
            before = start.before
            after = write.on(before, start.collection)
            staying = after.definitions() if before.collection == after.collection else set()
            removed = before.definitions() - staying
            if start.missing:
                noted = [*noted, *self._note(points, [(start.collection, start.added)])]
                vectors = self._tool_points.embed(list(start.missing.values()))
                self._tool_points.add(points, start.collection, start.missing, vectors)
            if (after, after.last) == (before, before.last):
                self._sweep(points, start, after, before.parts, [], noted)
                return write.changes(before, after)
            going = self._note(points, [(before.collection or start.collection, removed)])
            parts = manifest_records.swap(points, before, after)
            if parts is not None:
                done = noted if self._backend.remote and before.parts else [*noted, *going]
                self._sweep(points, start, after, parts, removed, done)
                return write.changes(before, after)
            noted = []
            start = self._start(points, write)
        raise StoreBusy(
            f"the store {self._backend} is busy: other writers changed tenant {write.tenant!r} first, {_SWAPS} times; "
            "try again"
        )

    def _note(
        self, points: Points, changes: Sequence[tuple[str, Collection[Definition]]]
    ) -> list[str]:
        self._backend.check_version()
        return drafts.note(points, manifest_records.CATALOGUES, changes)

    def _sweep(
        self,
        points: Points,
        start: "_Start",
        after: Manifest,
        parts: Sequence[str],
        removed: Collection[Definition],
        done: Sequence[str],
    ) -> None:
        """Delete the points that are no longer named, the points of old drafts, and the drafts in `done`."""
        with self._warning_of_failure(after.tenant):
            before = start.before
            tenant = after.tenant
            until = time.time() - drafts.KEPT_S
            named_points = set(_ids(tenant, after.definitions()))
            if removed:
                self._tool_points.sweep(
                    points, before.collection, _ids(tenant, removed), until, named_points
                )
            gone_parts = set(before.parts).difference(parts)
            if gone_parts:
                points.sweep(manifest_records.PARTS, sorted(gone_parts), until)
            old = [draft for draft in start.noted if draft.at <= until]
            for draft in old:
                unnamed = self._unnamed(points, draft, after)
                self._tool_points.sweep(points, draft.collection, unnamed, until, named_points)
            if old:
                stored = {
                    record.id for record in points.find(manifest_records.PARTS, payload=False)
                }
                points.sweep(manifest_records.PARTS, sorted(stored.difference(parts)), until)
            points.delete(manifest_records.CATALOGUES, [*done, *(draft.id for draft in old)])

    @contextmanager
    def _warning_of_failure(self, tenant: str) -> Iterator[None]:
        """Log a failure of the work after a write. The write has succeeded, and a later one does this work."""
        try:
            yield
        except (StoreUnavailable, OSError) as error:
            if not self._backend.remote:  # In a folder, the failure undoes the write.
                raise
            logger.warning(
                "tenant %r: the tools are stored, but unused points stay until a later write: %s",
                tenant,
                error,
            )

    def _unnamed(self, points: Points, draft: drafts.Draft, after: Manifest) -> list[str]:
        """Return the points of a draft that the manifest does not name."""
        named_points: set[str] = set()
        if draft.collection == after.collection:
            named_points.update(_ids(after.tenant, after.definitions()))
        if draft.tools is None:
            drafted = [record.id for record in points.find(draft.collection, payload=False)]
        else:
            drafted = _ids(after.tenant, draft.tools)
        return [point for point in drafted if point not in named_points]


def _ids(tenant: str, definitions: Iterable[Definition]) -> list[str]:
    """Return the ids of the points of these definitions."""
    return [tool_id(tenant, key, hash_) for key, hash_ in definitions]


class _Start(NamedTuple):
    """The state before a write.

    Attributes:
        before: The manifest.
        noted: The drafts of all writers.
        collection: The collection for the tenant's tools.
        missing: The tools, by point, that the collection lacks: written tools, and kept tools from another collection.
    """

    before: Manifest
    noted: tuple[drafts.Draft, ...]
    collection: str
    missing: dict[str, Tool]

    @property
    def added(self) -> list[Definition]:
        return [(tool.key, tool.hash) for tool in self.missing.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write of several servers.

    Attributes:
        tenant: The tenant.
        servers: The names of the servers.
        definitions: Returns their definitions after the write, from the manifest before it. None removes a server.
        wanted: The written tools, by point.
        listed: The entries that listed them.
        entries: The entries of the configuration that sees the store.
        file: The file with the entries in `listed`.
        replaced: The definitions that the write replaces, by server. Of servers without them, any are replaced.
    """

    tenant: str
    servers: Collection[str]
    definitions: Callable[[Manifest], Mapping[str, Definitions | None]]
    wanted: Mapping[str, Tool]
    listed: Entries
    entries: Entries | None
    file: str
    replaced: Mapping[str, Definitions] = field(default_factory=dict)

    def on(self, before: Manifest, collection: str) -> Manifest:
        """Return the manifest after the write.

        Args:
            before: The manifest before it.
            collection: The collection for the tenant's tools.

        Raises:
            Outdated: A server has other tools than those that this write replaces.
        """
        for server, definitions in self.replaced.items():
            if before.seen(self.entries).tools.get(server, {}) != definitions:
                raise Outdated(
                    f"another writer has changed the tools of server {server!r}; try again"
                )
        listings = before.listings(self.definitions(before), self.listed, self.entries)
        return before.changed(listings, collection, self.file)

    def changes(self, before: Manifest, after: Manifest) -> dict[str, Changes]:
        """Return the changes as a reader with the written entries sees them."""
        entries = self.entries
        if self.listed:
            entries = {**(entries or {}), **self.listed}
        tools_before = before.seen(entries).tools
        tools_after = after.seen(entries).tools
        changes: dict[str, Changes] = {}
        for server in self.servers:
            earlier = tools_before.get(server, before.tools.get(server, {}))
            changes[server] = Changes.between(earlier, tools_after.get(server, {}))
        return changes
