"""How tools are written: their points, then the flip of the tenant's head, then what nothing names any more goes."""

import time
from collections.abc import Callable, Mapping

from orchestrator.records.durable_names import COLLECTION
from orchestrator.records.tool import Tool
from orchestrator.store import manifest as ledger
from orchestrator.store.client import Points
from orchestrator.store.news import write_after
from orchestrator.store.points import Changes, Definitions, Servers, changes_between
from orchestrator.store.qdrant import Qdrant
from orchestrator.store.shelf import Shelf

_BATCH = 256
_PAUSE_S = 0.1
"""Between two chunks of a long write, so that a process that waits for the folder gets its turn."""
_DRAFT_S = 3600
"""Points that nothing names may be another writer's, about to be named, until they are this old."""

Progress = Callable[[int, int], None]
"""Called with the tools written so far and the tools to write."""


class Writer:
    """Writes a tenant's tools through one Qdrant and its Shelf."""

    def __init__(self, qdrant: Qdrant, shelf: Shelf) -> None:
        self._qdrant, self._shelf = qdrant, shelf

    def write(
        self,
        tenant: str,
        now: Mapping[str, Definitions | None],
        wanted: Mapping[str, Tool],
        entries: Mapping[str, str],
        on_progress: Progress | None,
    ) -> dict[str, Changes]:
        """Makes these each server's definitions, None taking it away; `wanted` are the tools by their points, `entries`
        the identities of the entries that the servers were listed by."""
        with self._qdrant.opened(make=True) as points:
            if points.target(COLLECTION) in (None, self._shelf.collection):
                missing = points.missing(COLLECTION, list(wanted))
                if not missing or (len(missing) <= _BATCH and not self._shelf.embedder.remote):
                    return self._finish(points, tenant, now, wanted, entries)
        self._shelf.follow_embedder()
        self._add_missing(tenant, wanted, on_progress)
        with self._qdrant.opened(make=True) as points:
            return self._finish(points, tenant, now, wanted, entries)

    def _finish(
        self,
        points: Points,
        tenant: str,
        now: Mapping[str, Definitions | None],
        wanted: Mapping[str, Tool],
        entries: Mapping[str, str],
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
            ledger.flip(points, before, {**before.pending, **now}, entries)
            self._qdrant.wrote(write_after(points, before, version, now) if self._qdrant.folder else None)
        elif others := {name: entry for name, entry in entries.items() if before.entries.get(name) != entry}:
            ledger.note(points, before, {server: before.tools[server] for server in others}, others)
        self._sweep(points, before, scan=died)
        return {server: changes_between(before.tools.get(server, {}), tools or {}) for server, tools in now.items()}

    def _add_missing(self, tenant: str, wanted: Mapping[str, Tool], on_progress: Progress | None) -> None:
        """Writes the points that are not there, chunk by chunk, so that others get their turn in between."""
        with self._qdrant.opened(make=True) as points:
            missing = points.missing(COLLECTION, list(wanted))
            if missing:
                ledger.prepare(points)
                ledger.mark_draft(points, tenant)
        done = 0
        for first in range(0, len(missing), self._shelf.chunk):
            ids = missing[first : first + self._shelf.chunk]
            vectors = self._shelf.embed([wanted[point] for point in ids])
            with self._qdrant.opened(make=True) as points:
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
