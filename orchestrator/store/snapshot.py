"""What is read of one tenant: its tools and their vectors. Those that were read before are taken over."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.records.durable_names import COLLECTION
from orchestrator.records.tenant import SHARED
from orchestrator.records.tool import Tool
from orchestrator.store import manifest as ledger
from orchestrator.store.client import Points
from orchestrator.store.news import Write
from orchestrator.store.points import Definitions, Point, stored_tool, tool_id, version_of
from orchestrator.store.shelf import Shelf


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A tenant's tools, their vectors [tools, dimension], and the set's version.

    `vectors` is None where the stored ones are another embedder's; `note` then says so, and the remedy. `collection` is
    where they were read.
    """

    catalogue: Catalogue
    vectors: NDArray[np.float32] | None
    version: str
    note: str = ""
    collection: str | None = None

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.catalogue.tools


_NOTHING = Stored(catalogue=Catalogue(), vectors=None, version="")


def read_stored(points: Points, shelf: Shelf, tenant: str, earlier: Stored | None = None) -> Stored | None:
    """The tenant's tools now; only definitions that `earlier` lacks are asked for. None where a writer came between."""
    owners = ledger.visible(points, tenant)
    tenant_of = {server: owner.tenant for owner in owners for server in owner.tools}
    now = {server: tools for owner in owners for server, tools in owner.tools.items()}
    collection = points.target(COLLECTION)
    own = collection == shelf.collection
    if earlier is None or (own and earlier.vectors is None):
        earlier = _NOTHING  # The vectors are wanted, too, and it has none.
    changed = {server: now.get(server, {}) for server in _differing(earlier.catalogue, now)}
    wanted = {
        digest: tool_id(tenant_of[server], f"{server}:{name}", digest)
        for server, name, digest in _lacking(earlier.catalogue, changed)
    }
    records = points.get(collection, list(wanted.values()), vectors=own) if collection and wanted else {}
    if len(records) < len(wanted) or points.target(COLLECTION) != collection:
        return None
    found = {digest: records[point] for digest, point in wanted.items()}
    read = {digest: Point(payload=record.payload, vector=record.vector) for digest, record in found.items()}
    stored = _following(earlier, changed, read, version_of(*owners), shelf, with_vectors=own)
    return replace(stored, collection=collection)


def following_news(writes: Sequence[Write], shelf: Shelf, tenant: str, earlier: Stored) -> Stored | None:
    """The tenant's tools after these writes; None where these do not tell all."""
    for write in writes:
        if write.tenant == tenant:
            told = write.before == earlier.version and write.collection == shelf.collection
            kept = {server: tools for server, tools in write.servers.items() if tools is not None}
            # Where a server goes, a shared one of its name may come.
            if not told or earlier.vectors is None or len(kept) < len(write.servers):
                return None
            earlier = _following(earlier, kept, write.points, write.after, shelf, with_vectors=True)
        elif write.tenant == SHARED:
            return None
    return earlier


def _differing(catalogue: Catalogue, now: Mapping[str, Definitions]) -> list[str]:
    """The servers whose tools are not those of the catalogue."""

    def before(server: str) -> Definitions:
        return {tool.name: tool.hash for tool in catalogue.of_server(server)}

    return [server for server in now.keys() | catalogue.places.keys() if before(server) != now.get(server, {})]


def _lacking(catalogue: Catalogue, servers: Mapping[str, Definitions]) -> list[tuple[str, str, str]]:
    """Server, name and hash of the definitions that the catalogue lacks."""
    return [
        (server, name, digest)
        for server, tools in servers.items()
        for known in [{tool.hash for tool in catalogue.of_server(server)}]
        for name, digest in tools.items()
        if digest not in known
    ]


def _following(
    earlier: Stored,
    changed: Mapping[str, Definitions],
    read: Mapping[str, Point],
    version: str,
    shelf: Shelf,
    *,
    with_vectors: bool,
) -> Stored:
    """The earlier one with these as the definitions of these servers. read: by hash, what it lacks of them."""
    known = {tool.hash: tool for server in changed for tool in earlier.catalogue.of_server(server)}
    known |= {digest: stored_tool(point.payload) for digest, point in read.items()}
    catalogue = earlier.catalogue.changed(
        {server: [known[digest] for digest in tools.values()] for server, tools in changed.items()}
    )
    vectors = _vectors(earlier, catalogue, changed, read) if with_vectors and len(catalogue) else None
    note = shelf.mismatch(vectors) if len(catalogue) else ""
    return replace(earlier, catalogue=catalogue, vectors=None if note else vectors, version=version, note=note)


def _vectors(
    earlier: Stored, now: Catalogue, changed: Collection[str], read: Mapping[str, Point]
) -> NDArray[np.float32]:
    """The vectors between changed servers in one piece, and those of the changed ones tool by tool."""
    before: Any = [] if earlier.vectors is None else earlier.vectors
    blocks, past = list[Any](), 0
    for server in sorted(changed):
        place = earlier.catalogue.place_of(server)
        blocks += [before[past : place.start], [_vector(tool, earlier, read) for tool in now.of_server(server)]]
        past = place.stop
    return np.concatenate([block for block in [*blocks, before[past:]] if len(block)], dtype=np.float32)


def _vector(tool: Tool, earlier: Stored, read: Mapping[str, Point]) -> ArrayLike | None:
    if tool.hash in read or earlier.vectors is None:
        return read[tool.hash].vector
    row: NDArray[np.float32] = earlier.vectors[earlier.catalogue.positions[tool.key]]
    return row
