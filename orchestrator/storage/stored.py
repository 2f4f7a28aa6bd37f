"""What is read of one tenant: its tools and their vectors. Those that were read before are taken over."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.models import Tool
from orchestrator.names import COLLECTION
from orchestrator.storage import ledger
from orchestrator.storage.client import Points
from orchestrator.storage.points import stored_tool, tool_id, version_of
from orchestrator.storage.shelf import Shelf


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A tenant's tools ordered by server and name, their vectors [tools, dimension], and the set's version.

    `vectors` is None where the stored ones are another embedder's; `note` then says so, and the remedy.
    """

    tools: tuple[Tool, ...]
    vectors: NDArray[np.float32] | None
    version: str
    note: str = ""


_NOTHING = Stored(tools=(), vectors=None, version="")


def read_stored(points: Points, shelf: Shelf, tenant: str, earlier: Stored | None = None) -> Stored | None:
    """The tenant's tools now; only definitions that `earlier` lacks are asked for. None where a writer came between."""
    owners = ledger.visible(points, tenant)
    definitions = sorted(
        (server, name, digest, owner.tenant)
        for owner in owners
        for server, tools in owner.tools.items()
        for name, digest in tools.items()
    )
    collection = points.target(COLLECTION)
    own = collection == shelf.collection
    if earlier is None or (own and earlier.vectors is None):
        earlier = _NOTHING  # The vectors are wanted, too, and it has none.
    rows = {(tool.server, tool.name, tool.hash): row for row, tool in enumerate(earlier.tools)}
    row_of = np.array([rows.get(definition[:3], -1) for definition in definitions], np.int64)
    ids = [_id(*definitions[place]) for place in (row_of < 0).nonzero()[0].tolist()]
    records = points.get(collection, ids, vectors=own) if collection and ids else {}
    if len(records) < len(ids) or points.target(COLLECTION) != collection:
        return None
    read = iter([stored_tool(records[point].payload) for point in ids])
    vectors = None
    if own and definitions:
        vectors = _vectors(row_of, earlier.vectors, np.array([records[point].vector for point in ids], np.float32))
    note = shelf.mismatch(vectors) if definitions else ""
    return Stored(
        tools=tuple(next(read) if row < 0 else earlier.tools[row] for row in row_of.tolist()),
        vectors=None if note else vectors,
        version=version_of(*owners),
        note=note,
    )


def _id(server: str, name: str, digest: str, tenant: str) -> str:
    return tool_id(tenant, f"{server}:{name}", digest)


def _vectors(
    row_of: NDArray[np.int64], earlier: NDArray[np.float32] | None, read: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The earlier vectors at their rows, and those just read in between."""
    if earlier is None or not len(read):
        return read if earlier is None else earlier[row_of]
    vectors = np.empty((len(row_of), read.shape[1]), np.float32)
    known = row_of >= 0
    vectors[known], vectors[~known] = earlier[row_of[known]], read
    return vectors
