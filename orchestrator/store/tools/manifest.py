"""The manifest: the tools of each tenant's servers. One record per tenant, so that a write counts at once.

A listing has the tools of one server from one origin. `SERVER:ENTRY` is the listing by a configuration's entry with
this identity, and `SERVER` is an import. So two projects with different servers of the same name keep their own tools.

A tool's point is named by its definition. Points that no manifest names are drafts of a writer, or a
dead writer left them.

The record itself is small, so its version is read quickly. It names parts with the content. The name of a part is a
digest of its content, so a write adds the changed parts before it replaces the record.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from orchestrator.common.digests import digest, same_server
from orchestrator.common.keys import key_of
from orchestrator.store.points import next_state
from orchestrator.store.tools.tool_records import point_id, tool_id

_MOST = 16_384
"""The tools in a part. With 16 parts, a request stays below 32 MB."""
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
        return {part_id(self.tenant, text): text for text in texts}

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
    wanted_entry = entries.get(server_of(listing), "")
    if entry == wanted_entry:
        return _Rank.SAME_ENTRY
    return _Rank.SAME_SERVER if same_server(entry, wanted_entry) else _Rank.OTHER_SERVER


def _move_file(
    tools: dict[str, Definitions], files: dict[str, tuple[str, ...]], listing: str, file: str
) -> None:
    """Note that a file has the entry of this listing. A listing that no file has any more is removed."""
    server = server_of(listing)
    server_listings = [
        server_listing for server_listing in tools if server_listing.startswith(f"{server}:")
    ]
    for server_listing in server_listings:
        if file not in files.get(server_listing, ()):
            continue
        files[server_listing] = _without(files[server_listing], file)
        if not files[server_listing]:
            del tools[server_listing]
    files[listing] = (*_without(files.get(listing, ()), file), file)


def _without(files: tuple[str, ...], file: str) -> tuple[str, ...]:
    return tuple(name for name in files if name != file)


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


def part_id(tenant: str, text: str) -> str:
    """Return the id of a part, which is a digest of its content."""
    return point_id("part", tenant, digest(text, 32))
