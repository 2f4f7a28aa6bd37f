"""Reading one tenant's tools and their vectors. Tools that were read before are not read again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import InvalidConfig
from orchestrator.records.tool import Tool
from orchestrator.store import listing_records, manifest
from orchestrator.store.backend import Backend
from orchestrator.store.manifest import Entries, Manifest
from orchestrator.store.points import Vectors, has_vector
from orchestrator.store.tool_records import damaged, stored_tool
from orchestrator.store.vectors import ToolPoints

_Definition = tuple[Tool, Vectors | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A tenant's tools with their vectors.

    Attributes:
        catalogue: The tools.
        vectors: The vectors, shape [tools, dimension]. None: the stored vectors are those of another embedder.
        version: The version of the tools.
        note: Why there are no vectors, with the remedy.
        damaged: The records that cannot be read and are left out.
        unlisted: The servers that could not be listed.
        origins: With several sources, by key: the source with the definition that counts, then the sources with other
            definitions.
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
    backend: Backend,
    tool_points: ToolPoints,
    tenant: str,
    version: str,
    earlier: Stored | None = None,
    owners: Sequence[Manifest] | None = None,
    entries: Entries | None = None,
) -> Stored:
    """Return the tenant's current tools. Only definitions that `earlier` lacks are read.

    A missing record can be the work of a writer in between. The manifest then has another version.

    Args:
        backend: The store.
        tool_points: The tools' points.
        tenant: The tenant.
        version: The version, read before this call.
        earlier: The tools that were read before.
        owners: The manifests to read. Default: those that the tenant sees.
        entries: The entries of the configuration that sees the tools.
    """
    owners = manifest.visible(backend, tenant, entries) if owners is None else owners
    own = all(tool_points.fits(owner.collection) for owner in owners if owner.tools)
    known, wanted = _known(earlier, vectors=own), dict[str, str]()
    problems = [owner.problem for owner in owners if owner.problem]
    for owner in owners:
        points = {hash_: (point, key) for point, hash_, key in owner.points()}
        wanted |= {hash_: key for hash_, (_, key) in points.items()}
        new = {hash_: point for hash_, (point, _) in points.items() if hash_ not in known}
        try:
            known |= _read(backend, owner, new, vectors=own)
        except InvalidConfig as error:
            if owner.tenant == tenant:
                raise
            problems.append(str(error))
    catalogue = Catalogue(known[hash_][0] for hash_ in wanted if hash_ in known)
    problems.append(damaged([key for hash_, key in wanted.items() if hash_ not in known]))
    rows = [known[tool.hash][1] for tool in catalogue]
    vectors = np.array(rows, np.float32) if own and rows else None
    note = tool_points.mismatch(vectors) if rows else ""
    return Stored(
        catalogue=catalogue,
        vectors=None if note else vectors,
        version=version,
        note=note,
        damaged="; ".join(filter(None, problems)),
        unlisted=frozenset(backend.read(tenant, lambda points: listing_records.failed(points, tenant, entries))),
    )


def _known(earlier: Stored | None, *, vectors: bool) -> dict[str, _Definition]:
    """Return the earlier tools by hash, with their vectors. Empty if vectors are wanted and the earlier tools have
    none.
    """
    if earlier is None or (vectors and earlier.vectors is None):
        return {}
    rows = earlier.vectors if vectors and earlier.vectors is not None else [None] * len(earlier.tools)
    return {tool.hash: (tool, row) for tool, row in zip(earlier.tools, rows, strict=True)}


def _read(backend: Backend, owner: Manifest, wanted: Mapping[str, str], *, vectors: bool) -> dict[str, _Definition]:
    """Read the owner's tools at these points, by hash. Damaged records are left out."""
    if not wanted:
        return {}
    ids = list(wanted.values())
    found = backend.read(owner.tenant, lambda points: points.get(owner.collection, ids, vectors=vectors))
    tools = {hash_: (stored_tool(found[p].payload), found[p]) for hash_, p in wanted.items() if p in found}
    return {
        hash_: (tool, record.vector)
        for hash_, (tool, record) in tools.items()
        if tool and tool.hash == hash_ and (has_vector(record) or not vectors)
    }
