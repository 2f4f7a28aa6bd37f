"""Reading one tenant's tools and their vectors. Tools that were read before are not read again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import InvalidConfig
from orchestrator.records.tool import Tool
from orchestrator.store import listing_records
from orchestrator.store.backend import Backend
from orchestrator.store.points import Vectors, has_vector
from orchestrator.store.tools import manifest_records
from orchestrator.store.tools.manifest import Entries, Manifest
from orchestrator.store.tools.tool_points import ToolPoints
from orchestrator.store.tools.tool_records import damaged, stored_tool

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
        origins: With several sources, by key: the source with the definition that counts, then the
            sources with other definitions.
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
        entries: The entries of the configuration that sees the tools.
    """
    owners = manifest_records.visible(backend, tenant, entries)
    with_vectors = all(tool_points.fits(owner.collection) for owner in owners if owner.tools)
    definitions = _earlier_definitions(earlier, vectors=with_vectors)
    problems = [owner.problem for owner in owners]
    keys: dict[str, str] = {}
    for owner in owners:
        new: dict[str, str] = {}
        for point, hash_, key in owner.points():
            keys[hash_] = key
            if hash_ not in definitions:
                new[hash_] = point
        try:
            definitions |= _read(backend, owner, new, vectors=with_vectors)
        except InvalidConfig as error:
            if owner.tenant == tenant:
                raise
            problems.append(str(error))
    catalogue = Catalogue(definitions[hash_][0] for hash_ in keys if hash_ in definitions)
    problems.append(damaged([key for hash_, key in keys.items() if hash_ not in definitions]))
    rows = [definitions[tool.hash][1] for tool in catalogue]
    vectors = np.array(rows, np.float32) if with_vectors and rows else None
    note = tool_points.mismatch(vectors) if rows else ""
    failed = partial(listing_records.failed, tenant=tenant, entries=entries)
    return Stored(
        catalogue=catalogue,
        vectors=None if note else vectors,
        version=version,
        note=note,
        damaged="; ".join(filter(None, problems)),
        unlisted=frozenset(backend.read(tenant, failed)),
    )


def _earlier_definitions(earlier: Stored | None, *, vectors: bool) -> dict[str, _Definition]:
    """Return the earlier tools by hash, with their vectors.

    Empty if vectors are wanted and the earlier tools have none.
    """
    if earlier is None or (vectors and earlier.vectors is None):
        return {}
    if not vectors or earlier.vectors is None:
        return {tool.hash: (tool, None) for tool in earlier.tools}
    return {
        tool.hash: (tool, row) for tool, row in zip(earlier.tools, earlier.vectors, strict=True)
    }


def _read(
    backend: Backend, owner: Manifest, points_by_hash: Mapping[str, str], *, vectors: bool
) -> dict[str, _Definition]:
    """Read the owner's tools at these points, by hash. Damaged records are left out."""
    if not points_by_hash:
        return {}
    ids = list(points_by_hash.values())
    records = backend.read(
        owner.tenant, lambda points: points.get(owner.collection, ids, vectors=vectors)
    )
    definitions: dict[str, _Definition] = {}
    for hash_, point in points_by_hash.items():
        record = records.get(point)
        if record is None or (vectors and not has_vector(record)):
            continue
        tool = stored_tool(record.payload)
        if tool is not None and tool.hash == hash_:
            definitions[hash_] = tool, record.vector
    return definitions
