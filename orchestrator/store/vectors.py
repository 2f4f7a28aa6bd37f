"""The tools' points with their vectors, in one collection for each embedder, all behind one alias."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from orchestrator.errors import InvalidConfig
from orchestrator.index.embed import Embedder, Vectors, embed_tools
from orchestrator.index.safety import cleaned, suspects
from orchestrator.records.digests import digest
from orchestrator.records.durable_names import COLLECTION
from orchestrator.records.tool import Tool
from orchestrator.store.manifest import stored_tool, tool_payload
from orchestrator.store.qdrant import Points, Qdrant

_CHUNK, _REMOTE_CHUNK = 4096, 512


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
        """Name the embedder's collection; a hash stands for what a collection's name cannot hold."""
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", self.embedder.id)
        if plain != self.embedder.id:
            plain = f"{plain[:100]}_{digest(self.embedder.id, 8)}"
        return f"{COLLECTION}__{plain}"

    def embed(self, tools: Sequence[Tool]) -> Vectors:
        """Return a row a tool; flagged ones by what is left of their texts, as they are searched."""
        flagged = suspects(tools)
        return embed_tools(self.embedder, [cleaned(tool) if tool.key in flagged else tool for tool in tools])

    def missing(self, points: Points, wanted: Mapping[str, Tool]) -> list[str]:
        """Return those of these points that do not exist, or whose records are damaged."""
        found = points.get(self.collection, list(wanted), payload=["tool"])
        stored = {point: stored_tool(record.payload) for point, record in found.items()}
        return [point for point, tool in wanted.items() if getattr(stored.get(point), "hash", "") != tool.hash]

    def add(self, points: Points, tenant: str, tools: Mapping[str, Tool], vectors: Vectors) -> None:
        """Write a point for each tool, by id; the first ones make the collection."""
        self._put(points, {point: tool_payload(tenant, tool) for point, tool in tools.items()}, vectors)
        if points.target(COLLECTION) is None:
            points.point(COLLECTION, self.collection)

    def follow_embedder(self) -> None:
        """Embed all tools again where the alias leads to another embedder's vectors, and lead it to the new ones.

        Searches use the old vectors until then. What an earlier, broken attempt has embedded is kept.
        """
        while True:
            with self._qdrant.opened(make=True) as points:
                payloads = self._left_behind(points)
            if payloads is None:
                return
            # A damaged record goes along as it is: whoever reads it names it.
            tools = [stored_tool(payload) or Tool(server="", name="damaged") for payload in payloads.values()]
            vectors = self.embed(tools)
            with self._qdrant.opened(make=True) as points:
                self._put(points, payloads, vectors)

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

    def _left_behind(self, points: Points) -> dict[str, Any] | None:
        """Return the next chunk of points that only another embedder's collection has; None once the alias is right."""
        current = points.target(COLLECTION)
        if current in (None, self.collection):
            return None
        ids = points.missing(self.collection, [str(record.id) for record in points.find(current, payload=False)])
        if ids:
            return {point: record.payload for point, record in points.get(current, ids[: self.chunk]).items()}
        if points.has(self.collection):
            points.point(COLLECTION, self.collection)
        points.drop(current)
        self._qdrant.wrote()
        return None

    def _put(self, points: Points, payloads: Mapping[str, Any], vectors: Vectors) -> None:
        if not points.has(self.collection):
            points.create(self.collection, vectors.shape[1])
        if (stored := points.size(self.collection)) != vectors.shape[1]:
            raise InvalidConfig(self._wrong_size(stored, vectors.shape[1]))
        points.put(self.collection, payloads, vectors)
        self._qdrant.wrote()

    def _wrong_size(self, stored: int, given: int) -> str:
        return (
            f"the store {self._qdrant} holds vectors of {stored} dimensions, embedder {self.embedder.id!r} gives "
            f"{given}: choose the embedder that it was filled with, or import the tools into an empty store"
        )
