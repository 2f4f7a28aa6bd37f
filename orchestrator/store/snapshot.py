"""Read one tenant's tools and their vectors; those that were read before are taken over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import InvalidConfig
from orchestrator.records.tool import Tool
from orchestrator.store import manifest
from orchestrator.store.manifest import Manifest
from orchestrator.store.points import Record, Vectors, is_whole
from orchestrator.store.qdrant import Qdrant
from orchestrator.store.vectors import ToolPoints


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Stored:
    """A tenant's tools, their vectors [tools, dimension], and the set's version.

    `vectors` is None where the stored ones are another embedder's; `note` then says so, and the remedy. `damaged`
    names what is left out, as it cannot be read; `unlisted` are the servers whose last listing failed. `origins`, where
    there are several sources: by key the one whose definition counts, then those that define it otherwise.
    """

    catalogue: Catalogue
    vectors: Vectors | None
    version: str
    note: str = ""
    damaged: str = ""
    unlisted: frozenset[str] = frozenset()
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.catalogue.tools


def read_stored(
    qdrant: Qdrant,
    tool_points: ToolPoints,
    tenant: str,
    version: str,
    earlier: Stored | None = None,
    owners: Sequence[Manifest] | None = None,
) -> Stored:
    """Return the tenant's tools now, or those of these owners; only definitions that `earlier` lacks are read.

    `version` was read before. What is missing after this may be a writer's work in between: its manifest has then
    another version.
    """
    owners = manifest.visible(qdrant, tenant) if owners is None else owners
    own = all(owner.collection == tool_points.collection for owner in owners if owner.tools)
    if earlier is not None and own and earlier.vectors is None:
        earlier = None  # Its vectors are wanted, too.
    rows = {tool.hash: row for row, tool in enumerate(earlier.tools)} if earlier else {}
    problems, read = [owner.problem for owner in owners if owner.problem], dict[str, Record]()
    named = [list(owner.points()) for owner in owners]
    for owner, points in zip(owners, named, strict=True):
        try:
            read |= _absent(qdrant, owner, points, rows, vectors=own)
        except InvalidConfig as error:
            if owner.tenant == tenant:
                raise
            problems.append(str(error))
    wanted = {hash_: key for points in named for _, hash_, key in points}
    tools = {hash_: manifest.stored_tool(record.payload) for hash_, record in read.items()}
    tools |= {hash_: earlier.tools[row] for hash_, row in rows.items() if hash_ in wanted} if earlier else {}
    catalogue = Catalogue(tool for hash_, tool in tools.items() if tool and tool.hash == hash_)
    known = {tool.hash for tool in catalogue}
    problems.append(manifest.damaged([key for hash_, key in wanted.items() if hash_ not in known]))
    vectors = _vectors(catalogue, earlier, rows, read) if own and len(catalogue) else None
    note = tool_points.mismatch(vectors) if len(catalogue) else ""
    unlisted = qdrant.read(tenant, lambda points: manifest.failures(points, tenant))
    if unlisted is None:
        problems.append(manifest.damaged_failures(tenant))
    damaged = "; ".join(filter(None, problems))
    return Stored(
        catalogue=catalogue,
        vectors=None if note else vectors,
        version=version,
        note=note,
        damaged=damaged,
        unlisted=frozenset(unlisted or ()),
    )


def _absent(
    qdrant: Qdrant, owner: Manifest, named: Sequence[tuple[str, str, str]], rows: Mapping[str, int], *, vectors: bool
) -> dict[str, Record]:
    """Read the owner's definitions that are not among these, by hash."""
    points = {hash_: point for point, hash_, _ in named if hash_ not in rows}
    if not points:
        return {}
    wanted = list(points.values())
    found = qdrant.read(owner.tenant, lambda opened: opened.get(owner.collection, wanted, vectors=vectors))
    whole = {point for point, record in found.items() if not vectors or is_whole(record)}
    return {hash_: found[point] for hash_, point in points.items() if point in whole}


def _vectors(
    catalogue: Catalogue, earlier: Stored | None, rows: Mapping[str, int], read: Mapping[str, Record]
) -> Vectors:
    before = None if earlier is None else earlier.vectors
    size = next(len(r.vector) for r in read.values() if r.vector) if before is None else before.shape[1]
    found = np.empty((len(catalogue), size), np.float32)
    for row, tool in enumerate(catalogue):
        vector = read[tool.hash].vector if tool.hash in read else None if before is None else before[rows[tool.hash]]
        found[row] = vector
    return found
