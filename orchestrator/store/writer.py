"""The Writer: it replaces the tools of a tenant's servers in several short steps, between which others may write."""

import time
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.errors import StoreBusy
from orchestrator.records.tool import Tool
from orchestrator.store import drafts, manifest
from orchestrator.store.manifest import Changes, Definitions, Entries, Manifest
from orchestrator.store.opening import Qdrant
from orchestrator.store.points import Points
from orchestrator.store.tool_records import tool_id
from orchestrator.store.vectors import ToolPoints

Progress = Callable[[int, int], None]
"""Called with the number of tools written so far and the number of all tools to write."""
_SWAPS = 100
_BATCH = 256


class Writer:
    """Writes the tools of all tenants."""

    def __init__(self, qdrant: Qdrant, tool_points: ToolPoints, damaged: Container[str]) -> None:
        self._qdrant, self._tool_points = qdrant, tool_points
        self._damaged = damaged

    def replace(self, write: "Write", on_progress: Progress | None) -> dict[str, Changes]:
        """Write the tools of several servers, and return the changes of each server."""
        mends = any(tools is not None for tools in write.now.values())
        with self._qdrant.writing(write.tenant, mends=mends) as points:
            found = self._found(points, write)
            few = len(found.missing) <= _BATCH and not self._tool_points.embedder.remote
            if not found.missing or few:
                return self._finish(points, write, found, [])
        noted = self._add_missing(write.tenant, found, on_progress)
        with self._qdrant.writing(write.tenant, mends=mends) as points:
            again = self._found(points, write)
            calm = again.before.state == found.before.state
            return self._finish(points, write, again, noted if calm else [])

    def _found(self, points: Points, write: "Write") -> "_Found":
        """Return the state before a write."""
        before, noted = manifest.to_replace(points, write.tenant)
        collection = self._tool_points.collection
        kept = write.on(before, collection).definitions() if collection != before.collection else set[tuple[str, str]]()
        left = self._tool_points.left_behind(points, before, collection)
        tools = {**{point: tool for point, tool in left.items() if (tool.key, tool.hash) in kept}, **write.wanted}
        named = before.definitions() if collection == before.collection else frozenset[tuple[str, str]]()
        missing = self._tool_points.missing(points, collection, tools, named, whole=write.tenant not in self._damaged)
        return _Found(before, noted, collection, {point: tools[point] for point in missing})

    def _add_missing(self, tenant: str, found: "_Found", on_progress: Progress | None) -> list[str]:
        """Write the missing points in chunks, so that other writers get their turn in between. Return their drafts."""
        self._qdrant.check_version()
        collection, missing = found.collection, found.missing
        with self._qdrant.writing(tenant, mends=True) as points:
            noted = drafts.note(points, manifest.CATALOGUES, [(collection, found.added)])
        done, ids = 0, list(missing)
        for first in range(0, len(ids), self._tool_points.chunk):
            chunk = ids[first : first + self._tool_points.chunk]
            vectors = self._tool_points.embed([missing[point] for point in chunk])
            with self._qdrant.writing(tenant, mends=True) as points:
                for start in range(0, len(chunk), _BATCH):
                    part = {point: missing[point] for point in chunk[start : start + _BATCH]}
                    self._tool_points.add(points, collection, part, vectors[start : start + _BATCH])
                    done += len(part)
                    if on_progress is not None:
                        on_progress(done, len(missing))
        return noted

    def _finish(self, points: Points, write: "Write", found: "_Found", noted: list[str]) -> dict[str, Changes]:
        """Add the missing points, replace the manifest, and delete unused points.

        Args:
            points: The tenant's points.
            write: The write.
            found: The state before the write.
            noted: The drafts of the points that this write has already added.
        """
        for _ in range(_SWAPS):  # On a Qdrant server, another writer may come first.
            before, after = found.before, write.on(found.before, found.collection)
            removed = before.definitions() - (after.definitions() if before.collection == after.collection else set())
            if found.missing:
                noted = [*noted, *self._note(points, [(found.collection, found.added)])]
                vectors = self._tool_points.embed(list(found.missing.values()))
                self._tool_points.add(points, found.collection, found.missing, vectors)
            if (after, after.last) == (before, before.last):
                self._sweep(points, found, after, before.parts, [], noted)
                return write.changes(before, after)
            going = self._note(points, [(before.collection or found.collection, removed)])
            parts = manifest.swap(points, before, after)
            if parts is not None:
                done = noted if self._qdrant.remote and before.parts else [*noted, *going]
                self._sweep(points, found, after, parts, removed, done)
                return write.changes(before, after)
            noted, found = [], self._found(points, write)
        raise StoreBusy(
            f"the store {self._qdrant} is busy: other writers changed tenant {write.tenant!r} first, {_SWAPS} times; "
            "try again"
        )

    def _note(self, points: Points, changes: Sequence[tuple[str, Collection[tuple[str, str]]]]) -> list[str]:
        self._qdrant.check_version()
        return drafts.note(points, manifest.CATALOGUES, changes)

    def _sweep(
        self,
        points: Points,
        found: "_Found",
        after: Manifest,
        parts: Sequence[str],
        removed: Collection[tuple[str, str]],
        done: Sequence[str],
    ) -> None:
        """Delete the points that are no longer named, the points of old drafts, and the drafts in `done`."""
        before, tenant, until = found.before, after.tenant, time.time() - drafts.KEPT_S
        if removed:
            points.sweep(before.collection, [tool_id(tenant, *tool) for tool in removed], until)
        if gone := set(before.parts).difference(parts):
            points.sweep(manifest.PARTS, sorted(gone), until)
        old = [draft for draft in found.noted if draft.at <= until]
        for draft in old:
            points.sweep(draft.collection, self._unnamed(points, draft, after), until)
        if old:
            kept = {record.id for record in points.find(manifest.PARTS, payload=False)}
            points.sweep(manifest.PARTS, sorted(kept.difference(parts)), until)
        points.delete(manifest.CATALOGUES, [*done, *(draft.id for draft in old)])

    def _unnamed(self, points: Points, draft: drafts.Draft, after: Manifest) -> list[str]:
        """Return the points of a draft that the manifest does not name."""
        named = after.definitions() if draft.collection == after.collection else set[tuple[str, str]]()
        if draft.tools is not None:
            return [tool_id(after.tenant, *tool) for tool in draft.tools if tool not in named]
        ids = {tool_id(after.tenant, *tool) for tool in named}
        return [record.id for record in points.find(draft.collection, payload=False) if record.id not in ids]


class _Found(NamedTuple):
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
    def added(self) -> list[tuple[str, str]]:
        return [(tool.key, tool.hash) for tool in self.missing.values()]


@dataclass(frozen=True, slots=True)
class Write:
    """A write of several servers.

    Attributes:
        tenant: The tenant.
        now: The definitions by server. None removes the server.
        wanted: The written tools, by point.
        listed: The entries that listed them.
        entries: The entries of the configuration that sees the store.
        file: The file with the entries in `listed`.
    """

    tenant: str
    now: Mapping[str, Definitions | None]
    wanted: Mapping[str, Tool]
    listed: Entries
    entries: Entries | None
    file: str

    def on(self, before: Manifest, collection: str) -> Manifest:
        return before.changed(before.listings(self.now, self.listed, self.entries), collection, self.file)

    def changes(self, before: Manifest, after: Manifest) -> dict[str, Changes]:
        """Return the changes as a reader with the written entries sees them."""
        whole = None if self.entries is None and not self.listed else {**(self.entries or {}), **self.listed}
        was, now = before.seen(whole).tools, after.seen(whole).tools
        return {one: Changes.between(was.get(one, before.tools.get(one, {})), now.get(one, {})) for one in self.now}
