"""Read one tenant's tools and their vectors; those that were read before are taken over."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.records.durable_names import COLLECTION
from orchestrator.records.tool import Tool
from orchestrator.store import manifest
from orchestrator.store.qdrant import Points, Vectors
from orchestrator.store.vectors import ToolPoints


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Stored:
    """A tenant's tools, their vectors [tools, dimension], and the set's version.

    `vectors` is None where the stored ones are another embedder's; `note` then says so, and the remedy. `damaged`
    names the tools that are left out, as their records cannot be read.
    """

    catalogue: Catalogue
    vectors: Vectors | None
    version: str
    note: str = ""
    damaged: str = ""

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.catalogue.tools


def read_stored(points: Points, tool_points: ToolPoints, tenant: str, earlier: Stored | None = None) -> Stored | None:
    """Return the tenant's tools now; only definitions that `earlier` lacks are read. None if a writer interfered."""
    version = manifest.versions(points, [tenant])[tenant]
    collection = points.target(COLLECTION)
    own = collection == tool_points.collection
    if earlier is not None and own and earlier.vectors is None:
        earlier = None  # Its vectors are wanted, too.
    rows = {tool.hash: row for row, tool in enumerate(earlier.tools)} if earlier else {}
    wanted = {hash_: (point, key) for own in manifest.visible(points, tenant) for point, hash_, key in own.points()}
    absent = {hash_: point for hash_, (point, _) in wanted.items() if hash_ not in rows}
    records = points.get(collection, list(absent.values()), vectors=own) if collection and absent else {}
    if len(records) < len(absent) or manifest.versions(points, [tenant])[tenant] != version:
        return None
    read = {hash_: records[point] for hash_, point in absent.items()}
    tools = {hash_: manifest.stored_tool(record.payload) for hash_, record in read.items()}
    tools |= {hash_: earlier.tools[row] for hash_, row in rows.items() if hash_ in wanted} if earlier else {}
    catalogue = Catalogue(tool for hash_, tool in tools.items() if tool and tool.hash == hash_)
    known = {tool.hash for tool in catalogue}
    damaged = manifest.damaged([key for hash_, (_, key) in wanted.items() if hash_ not in known])
    vectors = _vectors(catalogue, earlier, rows, read) if own and len(catalogue) else None
    note = tool_points.mismatch(vectors) if len(catalogue) else ""
    # A record written again makes no new version of the tools: whoever lacks one asks again.
    version = f"{version} damaged" if damaged else version
    return Stored(catalogue=catalogue, vectors=None if note else vectors, version=version, note=note, damaged=damaged)


def _vectors(catalogue: Catalogue, earlier: Stored | None, rows: Mapping[str, int], read: Mapping[str, Any]) -> Vectors:
    before: Any = None if earlier is None else earlier.vectors
    return np.array(
        [read[tool.hash].vector if tool.hash in read else before[rows[tool.hash]] for tool in catalogue], np.float32
    )
