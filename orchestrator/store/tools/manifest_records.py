"""The records of manifests: they are read, replaced and removed. A writer adds parts before it replaces the record."""

import json
import logging
import time
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.common.digests import digest
from orchestrator.common.tenant import SHARED
from orchestrator.errors import InvalidConfig, StoreBusy
from orchestrator.store.backend import EXPERIENCE, TOOLS, Backend, Damaged
from orchestrator.store.points import Points
from orchestrator.store.tools.drafts import Draft
from orchestrator.store.tools.manifest import Entries, Manifest, part_id
from orchestrator.store.tools.tool_records import point_id

logger = logging.getLogger(__name__)
CATALOGUES = "tool_catalogues"
"""The collection of the manifests. It has no vectors, so a change of the embedder does not affect it."""
PARTS = "tool_catalogues__parts"
"""The collection of the manifests' parts. A part never changes, because its name is a digest of its content."""
_AT_ONCE = 16
"""The parts in a request."""
_TRIES = 100
"""A try fails only if another writer was first, so this many failures have another cause."""
_READ = ["state", "past", "version", "parts", "draft", "collection", "tools"]
"""The fields of manifests and drafts. The collection also has other records."""


@dataclass(slots=True, kw_only=True)
class _Part:
    """The content of a part. It needs no check, because its digest was checked."""

    listings: list[str] = field(default_factory=list)
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    collection: str = ""
    tools: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, part: "_Part") -> None:
        self.listings += part.listings
        self.files |= {listing: tuple(files) for listing, files in part.files.items()}
        self.collection += part.collection
        for listing, definitions in part.tools.items():
            self.tools.setdefault(listing, {}).update(definitions)


def owned(points: Points, tenant: str) -> Manifest:
    """Return the tenant's own listings.

    Raises:
        InvalidConfig: The record is damaged.
    """
    return _owned(points, tenant, _record(points, tenant))


def _owned(points: Points, tenant: str, record: Mapping[str, Any] | None) -> Manifest:
    """Return the listings in a record that was just read, or in a later one."""
    while True:
        try:
            return _read(points, tenant, record)
        except (KeyError, TypeError, ValueError):
            current = _record(points, tenant)
            if current == record:
                raise Damaged(
                    f"the store's list of the tools of tenant {tenant!r} is damaged: import the tools again with "
                    "`toolroute tools import`, or give another store with --store"
                ) from None
            record = current  # A writer came between the two reads.


def _record(points: Points, tenant: str) -> Mapping[str, Any] | None:
    """Return the tenant's record, or None if nothing was written. A damaged record may be empty."""
    point = point_id("manifest", tenant)
    records = points.get(CATALOGUES, [point])
    return records[point].payload if point in records else None


def _read(points: Points, tenant: str, record: Mapping[str, Any] | None) -> Manifest:
    if record is None:
        return Manifest(tenant=tenant)
    parts = tuple(record["parts"])
    content = _Part()
    for start in range(0, len(parts), _AT_ONCE):
        page = parts[start : start + _AT_ONCE]
        records = points.get(PARTS, page)
        for part in page:
            text = records[part].payload["text"]
            if part_id(tenant, text) != part:
                raise ValueError("the content is not what was written")
            content.add(_Part(**json.loads(text)))
    return Manifest(
        tenant=tenant,
        tools={listing: content.tools.get(listing, {}) for listing in content.listings},
        files=content.files,
        collection=content.collection,
        state=record["state"],
        past=tuple(record["past"]),
        parts=parts,
    )


def to_replace(points: Points, tenant: str) -> tuple[Manifest, tuple[Draft, ...]]:
    """Return the tenant's listings for a writer, and the drafts of all writers. A damaged record counts as empty."""
    records = {record.id: record.payload for record in points.find(CATALOGUES, payload=_READ)}
    drafts = tuple(filter(None, map(Draft.read, records.keys(), records.values())))
    point = point_id("manifest", tenant)
    record = records.get(point)
    try:
        return _owned(points, tenant, record), drafts
    except Damaged as error:
        logger.warning("%s; only the tools of this write are kept", error)
        note_loss(points, tenant)
        state = (record or {}).get("state")
        if not state or not isinstance(state, str):
            points.delete(CATALOGUES, [point])
            state = ""
        return Manifest(tenant=tenant, state=state), drafts


def loss_id(tenant: str) -> str:
    """Return the id of the record that says that the tenant's list of tools was lost."""
    return point_id("loss", tenant)


def note_loss(points: Points, tenant: str) -> None:
    """Note that the tenant's list of tools was lost. So a tool that is listed again is not taken for a new one."""
    points.create(CATALOGUES)
    points.put(CATALOGUES, {loss_id(tenant): {"content": ""}})


def visible(backend: Backend, tenant: str, entries: Entries | None = None) -> tuple[Manifest, ...]:
    """Return the tenant's own servers as a configuration sees them, and the shared servers with other names.

    If the shared record cannot be read, the tenant's own servers are still returned.

    Args:
        backend: The store.
        tenant: The tenant.
        entries: The entries of the configuration. None: all servers are seen.
    """
    manifest = backend.read(tenant, lambda points: owned(points, tenant)).seen(entries)
    return (manifest,) if tenant == SHARED else (manifest, shared(backend, manifest.tools))


def shared(backend: Backend, hidden: Container[str]) -> Manifest:
    """Return the servers that all tenants share, without the servers in `hidden`."""
    try:
        manifest = backend.read(SHARED, lambda points: owned(points, SHARED)).seen(None)
    except InvalidConfig as error:
        return Manifest(tenant=SHARED, problem=str(error))
    visible_tools = {
        server: tools for server, tools in manifest.tools.items() if server not in hidden
    }
    return replace(manifest, tools=visible_tools)


def version(backend: Backend, tenant: str, entries: Entries | None = None) -> str:
    """Return a version of the tools that the tenant sees: its own, the shared ones, and the embedder of their vectors.

    Args:
        backend: The store.
        tenant: The tenant.
        entries: The entries of the configuration. None: all servers are seen.
    """
    records = {owner: point_id("manifest", owner) for owner in (tenant, SHARED)}
    versions = backend.peek(CATALOGUES, records, "version")
    seen = "" if entries is None else json.dumps(entries, sort_keys=True)
    return digest(f"{versions.get(tenant, '')} {versions.get(SHARED, '')} {seen}", 16)


def swap(points: Points, before: Manifest, after: Manifest) -> tuple[str, ...] | None:
    """Replace a manifest and return the parts of the new one. Return None if another writer has changed it.

    Args:
        points: The tenant's points.
        before: The manifest that was read.
        after: The new manifest.
    """
    points.create(CATALOGUES)
    texts = after.texts()
    _add_parts(points, texts, before.parts)
    successor = replace(after, state=before.state, past=before.past)
    point = point_id("manifest", before.tenant)
    if not points.swap(CATALOGUES, point, successor.record(texts), before.state):
        return None
    return tuple(texts)


def _add_parts(points: Points, texts: Mapping[str, str], stored: Collection[str]) -> None:
    points.create(PARTS)
    written = int(time.time())
    parts = [part for part in texts if part not in stored]
    for start in range(0, len(parts), _AT_ONCE):
        page = parts[start : start + _AT_ONCE]
        points.put(PARTS, {part: {"text": texts[part], "written": written} for part in page})


def forget(backend: Backend, tenant: str) -> None:
    """Remove everything that a server has of the tenant.

    The manifest is emptied first, so that no reader misses tools. The empty record stays: a server inserts a record
    whose condition cannot be checked, so a writer that read the old manifest would bring the removed tools back.
    """
    point = point_id("manifest", tenant)
    for _ in range(_TRIES):
        with backend.writing(tenant) as points:
            points.create(CATALOGUES)
            first = Manifest(
                tenant=tenant, state=str((_record(points, tenant) or {}).get("state", ""))
            ).record(())
            points.swap(CATALOGUES, point, first, None)
        for part in (TOOLS, EXPERIENCE):
            backend.drop(tenant, part)
        # A writer that read the first empty record may have written points that were then removed: it starts again.
        second = Manifest(tenant=tenant, state=first["state"]).record(())
        with backend.writing(tenant) as points:
            if points.swap(CATALOGUES, point, second, first["state"]):
                ids = [record.id for record in points.find(CATALOGUES, payload=False)]
                return points.delete(
                    CATALOGUES, [record_id for record_id in ids if record_id != point]
                )
    raise StoreBusy(
        f"the store {backend} is busy: other writers keep writing for tenant {tenant!r}; try again"
    )
