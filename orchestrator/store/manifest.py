"""The manifest: the tools of each tenant's servers. One record per tenant, so that a write counts at once.

A listing has the tools of one server from one origin. `SERVER:ENTRY` is the listing by a configuration's entry with
this identity, and `SERVER` is an import. So two projects with different servers of the same name keep their own tools.

A tool's point is named by its definition. Points that no manifest names are drafts of a writer, or a dead writer left
them.

The record itself is small, so its version is read quickly. It names parts with the content. The name of a part is a
digest of its content, so a write adds the changed parts before it replaces the record.
"""

import json
import logging
import time
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from orchestrator.common.digests import digest, same_server
from orchestrator.common.keys import key_of
from orchestrator.common.tenant import SHARED
from orchestrator.errors import FAULTS, InvalidConfig, StoreBusy
from orchestrator.store.backend import EXPERIENCE, TOOLS, Backend, Damaged
from orchestrator.store.drafts import Draft
from orchestrator.store.points import Points, next_state
from orchestrator.store.tool_records import point_id, tool_id

logger = logging.getLogger(__name__)
CATALOGUES = "tool_catalogues"
"""The collection of the manifests. It has no vectors, so a change of the embedder does not affect it."""
PARTS = "tool_catalogues__parts"
"""The collection of the manifests' parts. A part never changes, because its name is a digest of its content."""
_MOST = 16_384
_AT_ONCE = 16
"""Limits for a request of 32 MB: tools in a part, and parts in a request."""
_TRIES = 100
_READ = ["state", "past", "version", "parts", "draft", "collection", "tools"]
"""The fields of manifests and drafts. The collection also has other records."""

Definitions = Mapping[str, str]
"""A server's tools: definition hashes by name."""
Entries = Mapping[str, str]
"""The servers of a configuration: the identity of each entry, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The effect of a write on a server's tools.

    Attributes:
        new: The names of new tools.
        changed: The names of tools with a changed definition.
        gone: The names of removed tools.
        same: The number of unchanged tools.
    """

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    same: int = 0

    @classmethod
    def between(cls, before: Definitions, now: Definitions) -> "Changes":
        return cls(
            new=tuple(name for name in now if name not in before),
            changed=tuple(name for name, digest in now.items() if before.get(name, digest) != digest),
            gone=tuple(name for name in before if name not in now),
            same=sum(1 for name, digest in now.items() if before.get(name) == digest),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The listings of one tenant.

    Attributes:
        tenant: The tenant.
        tools: The definitions by listing. In a manifest that was `seen`, by the server's name.
        files: The configuration files with the entry of each listing.
        collection: The collection with the tools, which belongs to one embedder.
        problem: Why the manifest cannot be read.
        entries: In a manifest that was `seen`: the entry that listed each server.
        state: The name of the record that was read.
        past: The names of earlier records.
        parts: The ids of the parts with the content.
    """

    tenant: str
    tools: Mapping[str, Definitions] = field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    collection: str = ""
    problem: str = ""
    entries: Entries = field(default_factory=dict, compare=False)
    state: str = field(default="", compare=False)
    past: tuple[str, ...] = field(default=(), compare=False)
    parts: tuple[str, ...] = field(default=(), compare=False)

    def seen(self, entries: Entries | None) -> "Manifest":
        """Return the manifest as a configuration with these entries sees it: its servers, and imported servers of other
        names.

        Until an entry's own tools are listed, it sees the tools of another entry for the same server, or the imported
        tools of its name. Without a configuration, each server is seen as it was listed last.
        """
        shown = {server: listing for server, (_, listing) in self._ranked(entries).items()}
        listed = {server: listing.partition(":")[2] for server, listing in shown.items() if ":" in listing}
        return replace(self, tools={server: self.tools[own] for server, own in shown.items()}, entries=listed)

    def _ranked(self, entries: Entries | None) -> dict[str, tuple[int, str]]:
        best = dict[str, tuple[int, str]]()
        for listing in self.tools:
            server, _, entry = listing.partition(":")
            wanted = entry if entries is None else entries.get(server, "")
            rank = 1 if not entry or entries is None else 2 * same_server(entry, wanted) + (entry == wanted)
            if rank and rank >= best.get(server, (0, ""))[0]:
                best[server] = rank, listing
        return best

    def listings(
        self, now: Mapping[str, Definitions | None], listed: Entries, entries: Entries | None
    ) -> dict[str, Definitions | None]:
        """Return the tools to store, by listing.

        A removed server (None) loses the listing that is seen and the imported one. Without a configuration it loses
        all listings.

        Args:
            now: The definitions by server. None removes the server.
            listed: The entries that listed them. Servers without one replace the listing that is seen.
            entries: The entries of the configuration that sees the store.
        """
        seen, found = self.seen(entries).entries, dict[str, Definitions | None]()
        for server, own in now.items():
            entry = listed.get(server) or seen.get(server, "")
            if own is not None:
                found[f"{server}:{entry}" if entry else server] = own
            else:
                gone = {server, f"{server}:{entry}"}
                whole = (one for one in self.tools if entries is None and one.partition(":")[0] == server)
                found |= dict.fromkeys([one for one in self.tools if one in {*gone, *whole}])
        return found

    def changed(self, now: Mapping[str, Definitions | None], collection: str, file: str = "") -> "Manifest":
        """Return the manifest with changed listings. Other listings stay.

        A listing by an entry replaces the tools that were imported under its server's name. It also replaces the
        listing by the entry that was in the same file before, unless another file has that entry, too.

        Args:
            now: The definitions by listing. None removes the listing.
            collection: The collection with the tools.
            file: The configuration file with the entries.
        """
        tools, files = dict(self.tools), dict(self.files)
        for listing, own in now.items():
            server, _, entry = listing.partition(":")
            tools.pop(listing, None)
            if own is None:
                continue
            if entry:
                tools.pop(server, None)
            if entry and file:
                for other in [one for one in tools if one.startswith(f"{server}:") and file in files.get(one, ())]:
                    files[other] = tuple(one for one in files[other] if one != file)
                    tools = tools if files[other] else {one: kept for one, kept in tools.items() if one != other}
                files[listing] = (*(one for one in files.get(listing, ()) if one != file), file)
            tools[listing] = own
        kept = {listing: files[listing] for listing in tools if files.get(listing)}
        return Manifest(tenant=self.tenant, tools=tools, files=kept, collection=collection)

    @property
    def last(self) -> dict[str, str]:
        """The listing of each server that was written last."""
        return {listing.partition(":")[0]: listing for listing in self.tools}

    @property
    def count(self) -> int:
        return sum(map(len, self.tools.values()))

    @property
    def fingerprint(self) -> str:
        """The fingerprint of a Catalogue of these tools."""
        hashes = (hash_ for _, own in sorted(self.tools.items()) for _, hash_ in sorted(own.items()))
        return digest("".join(hashes), 16)

    def points(self) -> Iterator[tuple[str, str, str]]:
        """Yield the id, the definition hash and the key of each tool's point."""
        for listing, tools in self.tools.items():
            for name, hash_ in tools.items():
                key = key_of(listing.partition(":")[0], name)
                yield tool_id(self.tenant, key, hash_), hash_, key

    def definitions(self) -> set[tuple[str, str]]:
        """Return the key and the definition hash of each tool."""
        owned = ((listing.partition(":")[0], tools) for listing, tools in self.tools.items())
        return {(key_of(server, name), hash_) for server, tools in owned for name, hash_ in tools.items()}

    def texts(self) -> dict[str, str]:
        """Return the content as texts of parts, by id."""
        if not self.tools and not self.files:
            return {}
        first = {"listings": [*self.tools], "files": self.files, "collection": self.collection}
        contents = [first, *({"tools": own} for own in _cut(self.tools))]
        texts = [json.dumps(content, ensure_ascii=False) for content in contents]
        return {_part_id(self.tenant, text): text for text in texts}

    def record(self, parts: Collection[str]) -> dict[str, Any]:
        """Return the record that names these parts. It replaces the record with the name `state`."""
        known = json.dumps([self.tools, self.last, self.collection], sort_keys=True)
        version = digest(known, 16) if self.tools else ""
        return {**next_state({"state": self.state, "past": self.past}), "version": version, "parts": [*parts]}


class _Part(BaseModel, extra="forbid"):
    listings: list[str] = []
    files: dict[str, tuple[str, ...]] = {}
    collection: str = ""
    tools: dict[str, dict[str, str]] = {}


def _cut(tools: Mapping[str, Definitions]) -> Iterator[dict[str, dict[str, str]]]:
    """Yield the tools in parts of about 4,096. Certain hashes end a part, so a changed tool leaves most parts
    unchanged.
    """
    part, size = dict[str, dict[str, str]](), 0
    for listing, own in tools.items():
        for name, hash_ in own.items():
            part.setdefault(listing, {})[name] = hash_
            size += 1
            if hash_.startswith("000") or size == _MOST:
                yield part
                part, size = {}, 0
    if part:
        yield part


def owned(points: Points, tenant: str, record: Mapping[str, Any] | None = None) -> Manifest:
    """Return the tenant's own listings.

    Args:
        points: The tenant's points.
        tenant: The tenant.
        record: The record, if it was just read.

    Raises:
        InvalidConfig: The record is damaged.
    """
    record = _record(points, tenant) if record is None else record
    while True:
        try:
            return _read(points, tenant, record)
        except FAULTS:
            now = _record(points, tenant)
            if now == record:
                raise Damaged(
                    f"the store's list of the tools of tenant {tenant!r} is damaged: import the tools again with "
                    "`toolroute tools import`, or give another store with --store"
                ) from None
            record = now  # A writer came between the two reads.


def _record(points: Points, tenant: str) -> Mapping[str, Any]:
    found = points.get(CATALOGUES, [point := point_id("manifest", tenant)])
    return found[point].payload if found else {}


def _read(points: Points, tenant: str, record: Mapping[str, Any]) -> Manifest:
    if not record:
        return Manifest(tenant=tenant)
    parts, whole = tuple(record["parts"]), _Part()
    for start in range(0, len(parts), _AT_ONCE):
        page = parts[start : start + _AT_ONCE]
        found = points.get(PARTS, page)
        for part in page:
            text = found[part].payload["text"]
            if _part_id(tenant, text) != part:
                raise ValueError("the content is not what was written")
            _add(whole, _Part.model_validate_json(text))
    tools = {listing: whole.tools.get(listing, {}) for listing in whole.listings}
    return Manifest(
        tenant=tenant,
        tools=tools,
        files=whole.files,
        collection=whole.collection,
        state=record["state"],
        past=tuple(record["past"]),
        parts=parts,
    )


def _add(whole: _Part, part: _Part) -> None:
    whole.listings += part.listings
    whole.files |= part.files
    whole.collection += part.collection
    for listing, own in part.tools.items():
        whole.tools[listing] = whole.tools.get(listing, {}) | own


def to_replace(points: Points, tenant: str) -> tuple[Manifest, tuple[Draft, ...]]:
    """Return the tenant's listings for a writer, and the drafts of all writers. A damaged record counts as empty."""
    records = {record.id: record.payload for record in points.find(CATALOGUES, payload=_READ)}
    drafts = tuple(draft for point, payload in records.items() if (draft := Draft.read(point, payload)))
    record = records.get(point := point_id("manifest", tenant), {})
    try:
        return owned(points, tenant, record), drafts
    except Damaged as error:
        logger.warning("%s; only the tools of this write are kept", error)
        state = record.get("state")
        if not state or not isinstance(state, str):
            points.delete(CATALOGUES, [point])
            state = ""
        return Manifest(tenant=tenant, state=state), drafts


def visible(backend: Backend, tenant: str, entries: Entries | None = None) -> tuple[Manifest, ...]:
    """Return the tenant's own servers as a configuration sees them, and the shared servers with other names.

    If the shared record cannot be read, the tenant's own servers are still returned.

    Args:
        backend: The store.
        tenant: The tenant.
        entries: The entries of the configuration. None: all servers are seen.
    """
    own = backend.read(tenant, lambda points: owned(points, tenant)).seen(entries)
    return (own,) if tenant == SHARED else (own, shared(backend, own.tools))


def shared(backend: Backend, hidden: Container[str]) -> Manifest:
    """Return the servers that all tenants share, without the servers in `hidden`."""
    try:
        found = backend.read(SHARED, lambda points: owned(points, SHARED)).seen(None)
    except InvalidConfig as error:
        return Manifest(tenant=SHARED, problem=str(error))
    return replace(found, tools={server: own for server, own in found.tools.items() if server not in hidden})


def version(backend: Backend, tenant: str, entries: Entries | None = None) -> str:
    """Return a version of the tools that the tenant sees: its own, the shared ones, and the embedder of their vectors.

    Args:
        backend: The store.
        tenant: The tenant.
        entries: The entries of the configuration. None: all servers are seen.
    """
    own = backend.peek(CATALOGUES, {name: point_id("manifest", name) for name in (tenant, SHARED)}, "version")
    seen = "" if entries is None else json.dumps(entries, sort_keys=True)
    return digest(f"{own.get(tenant, '')} {own.get(SHARED, '')} {seen}", 16)


def swap(points: Points, before: Manifest, after: Manifest) -> tuple[str, ...] | None:
    """Replace a manifest and return the parts of the new one. Return None if another writer has changed it.

    Args:
        points: The tenant's points.
        before: The manifest that was read.
        after: The new manifest.
    """
    points.create(CATALOGUES)
    points.create(PARTS)
    texts = after.texts()
    new = [part for part in texts if part not in before.parts]
    for start in range(0, len(new), _AT_ONCE):
        written = int(time.time())
        page = {part: {"text": texts[part], "written": written} for part in new[start : start + _AT_ONCE]}
        points.put(PARTS, page)
    record = replace(after, state=before.state, past=before.past).record(texts)
    swapped = points.swap(CATALOGUES, point_id("manifest", before.tenant), record, before.state)
    return tuple(texts) if swapped else None


def forget(backend: Backend, tenant: str) -> None:
    """Remove everything that a server has of the tenant.

    The manifest is emptied first, so that no reader misses tools. The empty record stays: a server inserts a record
    whose condition cannot be checked, so a writer that read the old manifest would bring the removed tools back.
    """
    point = point_id("manifest", tenant)
    for _ in range(_TRIES):
        with backend.writing(tenant) as points:
            points.create(CATALOGUES)
            first = Manifest(tenant=tenant, state=str(_record(points, tenant).get("state", ""))).record(())
            points.swap(CATALOGUES, point, first, None)
        for part in (TOOLS, EXPERIENCE):
            backend.drop(tenant, part)
        # A writer that read the first empty record may have written points that were then removed: it starts again.
        second = Manifest(tenant=tenant, state=first["state"]).record(())
        with backend.writing(tenant) as points:
            if points.swap(CATALOGUES, point, second, first["state"]):
                ids = [record.id for record in points.find(CATALOGUES, payload=False)]
                return points.delete(CATALOGUES, [record_id for record_id in ids if record_id != point])
    raise StoreBusy(f"the store {backend} is busy: other writers keep writing for tenant {tenant!r}; try again")


def _part_id(tenant: str, text: str) -> str:
    return point_id("part", tenant, digest(text, 32))
