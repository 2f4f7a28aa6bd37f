"""The tools' points with their vectors: a collection for each embedder, of which a tenant's manifest names one."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from orchestrator.common.digests import digest
from orchestrator.errors import InvalidConfig
from orchestrator.index.embed import Embedder, Vectors, embed_tools
from orchestrator.index.safety import cleaned, suspects
from orchestrator.records.durable_names import COLLECTION, SEARCHED
from orchestrator.records.tool import Tool
from orchestrator.store import large_tenant
from orchestrator.store.client import ServerPoints
from orchestrator.store.manifest import Manifest, stored_tool, tool_payload
from orchestrator.store.points import Points, is_whole
from orchestrator.store.qdrant import Qdrant

_CHUNK, _REMOTE_CHUNK = 4096, 512


def collection_of(kind: str, embedder: Embedder) -> str:
    """Name the collection of what this embedder has embedded; a hash stands for what such a name cannot hold."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", embedder.id)
    if plain != embedder.id:
        plain = f"{plain[:100]}_{digest(embedder.id, 8)}"
    return f"{kind}__{plain}"


class ToolPoints:
    """Adds tools' points, and follows a change of the embedder."""

    def __init__(self, qdrant: Qdrant, embedder: Embedder | Callable[[], Embedder]) -> None:
        self._qdrant, self._given = qdrant, embedder

    @cached_property
    def embedder(self) -> Embedder:
        given: Any = self._given  # An embedder may be callable, too.
        opened: Embedder = given if hasattr(given, "embed") and not isinstance(given, type) else given()
        return opened

    @property
    def chunk(self) -> int:
        """Return how many tools to embed at a time while the store is free for others."""
        return _REMOTE_CHUNK if self.embedder.remote else _CHUNK

    @property
    def collection(self) -> str:
        """The collection of this embedder's vectors that is read by id."""
        return collection_of(COLLECTION, self.embedder)

    @property
    def searched(self) -> str:
        """The collection of this embedder's vectors that a server searches."""
        return collection_of(SEARCHED, self.embedder)

    def fits(self, collection: str) -> bool:
        """Tell whether the collection holds this embedder's vectors."""
        return collection in (self.collection, self.searched)

    def embed(self, tools: Sequence[Tool]) -> Vectors:
        """Return a row a tool; flagged ones by what is left of their texts, as they are searched."""
        flagged = suspects(tools)
        return embed_tools(self.embedder, [cleaned(tool) if tool.key in flagged else tool for tool in tools])

    def missing(self, points: Points, collection: str, wanted: Mapping[str, Tool]) -> list[str]:
        """Return those of these points that do not exist, or whose records or vectors are damaged.

        A server's vectors are left unread: keeping them whole is the server's.
        """
        ids, here = list(wanted), not self._qdrant.remote
        found: set[str] = set()
        for start in range(0, len(ids), _CHUNK):
            page = points.get(collection, ids[start : start + _CHUNK], payload=["tool"], vectors=here)
            for point, record in page.items():
                tool = stored_tool(record.payload)
                if tool is not None and tool.hash == wanted[point].hash and (is_whole(record) or not here):
                    found.add(point)
        return [point for point in ids if point not in found]

    def add(self, points: Points, collection: str, tools: Mapping[str, Tool], vectors: Vectors) -> None:
        """Write a point for each tool, by id; the first ones make the collection."""
        if (stored := points.size(collection)) not in (None, vectors.shape[1]):
            raise InvalidConfig(self._wrong_size(stored or 0, vectors.shape[1]))
        if isinstance(points, ServerPoints) and collection == self.searched:
            large_tenant.add(points, collection, tools, vectors)
        else:
            points.create(collection, vectors.shape[1])
            points.put(collection, {point: tool_payload(tool) for point, tool in tools.items()}, vectors)

    def left_behind(self, points: Points, owner: Manifest, collection: str) -> dict[str, Tool]:
        """Return the owner's tools that another collection has; those whose records are damaged stay there."""
        if owner.collection in ("", collection):
            return {}
        found = points.get(owner.collection, [point for point, *_ in owner.points()])
        tools = {point: stored_tool(record.payload) for point, record in found.items()}
        return {point: tool for point, tool in tools.items() if tool is not None}

    def mismatch(self, vectors: Vectors | None) -> str:
        """Say why stored vectors (None: another embedder's) are useless here, and the remedy; "" if they are not."""
        if vectors is None:
            return (
                f"the store's vectors are not embedder {self.embedder.id!r}'s, so this process embeds the tools again; "
                "the next `toolroute tools import` or `tools sync` embeds them in the store"
            )
        if not self.embedder.dimension:  # An endpoint's is known after its first answer, which is then held to this.
            self.embedder.dimension = vectors.shape[1]
        given = self.embedder.dimension
        return "" if given == vectors.shape[1] else self._wrong_size(vectors.shape[1], given)

    def _wrong_size(self, stored: int, given: int) -> str:
        return (
            f"the store {self._qdrant} holds vectors of {stored} dimensions, embedder {self.embedder.id!r} gives "
            f"{given}: choose the embedder that it was filled with, or import the tools into an empty store"
        )
