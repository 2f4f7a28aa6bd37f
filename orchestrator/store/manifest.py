"""The manifest: the tools of each tenant's servers. One record per tenant, so that a write counts at once.

A listing has the tools of one server from one origin. `SERVER:ENTRY` is the listing by a configuration's entry with
this identity, and `SERVER` is an import. So two projects with different servers of the same name keep their own tools.

A tool's point is named by its definition. Points that no manifest names are drafts of a writer, or a
dead writer left them.

The record itself is small, so its version is read quickly. It names parts with the content. The name of a part is a
digest of its content, so a write adds the changed parts before it replaces the record.
"""

import json
import logging
import time
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from orchestrator.common.digests import digest, same_server
from orchestrator.common.keys import key_of
from orchestrator.common.tenant import SHARED
from orchestrator.errors import InvalidConfig, StoreBusy
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
"""A try fails only if another writer was first, so this many failures have another cause."""
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
    def between(cls, before: Definitions, after: Definitions) -> "Changes":
        common = before.keys() & after.keys()
        changed = {name for name in common if before[name] != after[name]}
        return cls(
            new=tuple(name for name in after if name not in before),
            changed=tuple(name for name in after if name in changed),
            gone=tuple(name for name in before if name not in after),
            same=len(common) - len(changed),
        )


class _Rank(IntEnum):
    """How well a listing fits the entry by which a configuration sees a server."""

    OTHER_SERVER = 0
    IMPORTED = 1
    SAME_SERVER = 2
    SAME_ENTRY = 3


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
        """Return the manifest as a configuration with these entries sees it: its servers, and imported
        servers of other names.

        Until an entry's own tools are listed, it sees the tools of another entry for the same server, or the imported
        tools of its name. Without a configuration, each server is seen as it was listed last.
        """
        listings = self._seen_listings(entries)
        return replace(
            self,
            tools={server: self.tools[listing] for server, listing in listings.items()},
            entries={
                server: entry_of(listing)
                for server, listing in listings.items()
                if entry_of(listing)
            },
        )

    def _seen_listings(self, entries: Entries | None) -> dict[str, str]:
        """Return the listing of each server that fits best. Of several, the last one counts."""
        best: dict[str, str] = {}
        ranks: dict[str, _Rank] = {}
        for listing in self.tools:
            server = server_of(listing)
            rank = _rank(listing, entries)
            if rank is not _Rank.OTHER_SERVER and rank >= ranks.get(server, _Rank.OTHER_SERVER):
                best[server] = listing
                ranks[server] = rank
        return best

    def listings(
        self, servers: Mapping[str, Definitions | None], listed: Entries, entries: Entries | None
    ) -> dict[str, Definitions | None]:
        """Return the tools to store, by listing.

        Args:
            servers: The definitions by server. None removes the server.
            listed: The entries that listed them. Servers without one replace the listing that is seen.
            entries: The entries of the configuration that sees the store.
        """
        seen = self.seen(entries).entries
        listings: dict[str, Definitions | None] = {}
        for server, definitions in servers.items():
            entry = listed.get(server) or seen.get(server, "")
            if definitions is not None:
                listings[listing_of(server, entry)] = definitions
            else:
                listings |= dict.fromkeys(self._removed_listings(server, entry, entries))
        return listings

    def _removed_listings(self, server: str, entry: str, entries: Entries | None) -> list[str]:
        """Return the listings of a removed server: the one that is seen and the imported one. Without a configuration,
        all listings are seen.
        """
        if entries is None:
            return [
                listing
                for listing in self.tools
                if listing == server or server_of(listing) == server
            ]
        return [listing for listing in (server, listing_of(server, entry)) if listing in self.tools]

    def changed(
        self, listings: Mapping[str, Definitions | None], collection: str, file: str = ""
    ) -> "Manifest":
        """Return the manifest with changed listings. Other listings stay.

        A listing by an entry replaces the tools that were imported under its server's name. It also replaces the
        listing by the entry that was in the same file before, unless another file has that entry, too.

        Args:
            listings: The definitions by listing. None removes the listing.
            collection: The collection with the tools.
            file: The configuration file with the entries.
        """
        tools = dict(self.tools)
        files = dict(self.files)
        for listing, definitions in listings.items():
            tools.pop(listing, None)  # A listing that was written last is the last one.
            if definitions is None:
                continue
            if entry_of(listing):
                tools.pop(server_of(listing), None)
                if file:
                    _move_file(tools, files, listing, file)
            tools[listing] = definitions
        named = {listing: files[listing] for listing in tools if files.get(listing)}
        return Manifest(tenant=self.tenant, tools=tools, files=named, collection=collection)

    @property
    def last(self) -> dict[str, str]:
        """The listing of each server that was written last."""
        return {server_of(listing): listing for listing in self.tools}

    def points(self) -> Iterator[tuple[str, str, str]]:
        """Yield the id, the definition hash and the key of each tool's point."""
        for key, hash_ in self._keys_and_hashes():
            yield tool_id(self.tenant, key, hash_), hash_, key

    def definitions(self) -> set[tuple[str, str]]:
        """Return the key and the definition hash of each tool."""
        return set(self._keys_and_hashes())

    def _keys_and_hashes(self) -> Iterator[tuple[str, str]]:
        for listing, tools in self.tools.items():
            server = server_of(listing)
            for name, hash_ in tools.items():
                yield key_of(server, name), hash_

    def texts(self) -> dict[str, str]:
        """Return the content as texts of parts, by id."""
        if not self.tools and not self.files:
            return {}
        head = {"listings": list(self.tools), "files": self.files, "collection": self.collection}
        tails = [{"tools": tools} for tools in _cut(self.tools)]
        texts = [json.dumps(content, ensure_ascii=False) for content in (head, *tails)]
        return {_part_id(self.tenant, text): text for text in texts}

    def record(self, parts: Collection[str]) -> dict[str, Any]:
        """Return the record that names these parts. It replaces the record with the name `state`."""
        content = json.dumps([self.tools, self.last, self.collection], sort_keys=True)
        state = next_state({"state": self.state, "past": self.past})
        return {**state, "version": digest(content, 16) if self.tools else "", "parts": list(parts)}


def listing_of(server: str, entry: str) -> str:
    """Return the name of a server's listing by an entry. Without an entry, it is an import."""
    return f"{server}:{entry}" if entry else server


def server_of(listing: str) -> str:
    return listing.partition(":")[0]


def entry_of(listing: str) -> str:
    """Return the identity of the entry of a listing. Empty for an import."""
    return listing.partition(":")[2]


def _rank(listing: str, entries: Entries | None) -> _Rank:
    entry = entry_of(listing)
    if not entry or entries is None:
        return _Rank.IMPORTED  # Without a configuration, each listing is as good as an import.
    wanted = entries.get(server_of(listing), "")
    if entry == wanted:
        return _Rank.SAME_ENTRY
    return _Rank.SAME_SERVER if same_server(entry, wanted) else _Rank.OTHER_SERVER


def _move_file(
    tools: dict[str, Definitions], files: dict[str, tuple[str, ...]], listing: str, file: str
) -> None:
    """Note that a file has the entry of this listing. A listing that no file has any more is removed."""
    server = server_of(listing)
    of_server = [other for other in tools if other.startswith(f"{server}:")]
    for other in of_server:
        if file not in files.get(other, ()):
            continue
        files[other] = _without(files[other], file)
        if not files[other]:
            del tools[other]
    files[listing] = (*_without(files.get(listing, ()), file), file)


def _without(files: tuple[str, ...], file: str) -> tuple[str, ...]:
    return tuple(name for name in files if name != file)


@dataclass(slots=True, kw_only=True)
class _Part:
    """The content of a part. It needs no check, because its digest was checked: it is what was written."""

    listings: list[str] = field(default_factory=list)
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    collection: str = ""
    tools: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, other: "_Part") -> None:
        self.listings += other.listings
        self.files |= {listing: tuple(files) for listing, files in other.files.items()}
        self.collection += other.collection
        for listing, definitions in other.tools.items():
            self.tools.setdefault(listing, {}).update(definitions)


def _cut(tools: Mapping[str, Definitions]) -> Iterator[dict[str, dict[str, str]]]:
    """Yield the tools in parts of about 4,096.

    Certain hashes end a part, so a changed tool leaves most parts unchanged.
    """
    part: dict[str, dict[str, str]] = {}
    size = 0
    for listing, definitions in tools.items():
        for name, hash_ in definitions.items():
            part.setdefault(listing, {})[name] = hash_
            size += 1
            if hash_.startswith("000") or size == _MOST:
                yield part
                part = {}
                size = 0
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
        except (KeyError, TypeError, ValueError):
            current = _record(points, tenant)
            if current == record:
                raise Damaged(
                    f"the store's list of the tools of tenant {tenant!r} is damaged: import the tools again with "
                    "`toolroute tools import`, or give another store with --store"
                ) from None
            record = current  # A writer came between the two reads.


def _record(points: Points, tenant: str) -> Mapping[str, Any]:
    point = point_id("manifest", tenant)
    records = points.get(CATALOGUES, [point])
    return records[point].payload if point in records else {}


def _read(points: Points, tenant: str, record: Mapping[str, Any]) -> Manifest:
    if not record:
        return Manifest(tenant=tenant)
    parts = tuple(record["parts"])
    content = _Part()
    for start in range(0, len(parts), _AT_ONCE):
        page = parts[start : start + _AT_ONCE]
        records = points.get(PARTS, page)
        for part in page:
            text = records[part].payload["text"]
            if _part_id(tenant, text) != part:
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
    record = records.get(point, {})
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
                tenant=tenant, state=str(_record(points, tenant).get("state", ""))
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


def _part_id(tenant: str, text: str) -> str:
    return point_id("part", tenant, digest(text, 32))
