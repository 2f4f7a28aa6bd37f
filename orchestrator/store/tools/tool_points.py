"""The tools' points with their vectors.

Each embedder has its own collection, and a tenant's manifest names one of them.
"""

import re
import time
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from orchestrator.common.digests import digest
from orchestrator.errors import InvalidConfig
from orchestrator.index.embedders.embedder import Embedder, Vectors
from orchestrator.index.embedders.embedding import embed_tools
from orchestrator.index.embedders.language_encoder import LanguageEncoder, second_encoder
from orchestrator.index.flags import cleaned, suspects
from orchestrator.records.durable_names import COLLECTION
from orchestrator.records.tool import Tool
from orchestrator.store.backend import Backend
from orchestrator.store.points import Points, Record, has_vector
from orchestrator.store.tools import drafts
from orchestrator.store.tools.manifest import Manifest
from orchestrator.store.tools.tool_records import stored_tool, tool_payload

_CHUNK = 4096
_REMOTE_CHUNK = 512
"""The number of tools to embed at a time, by this process and by an endpoint."""


SECOND = f"{COLLECTION}__{LanguageEncoder.id}"
"""The collection of the encoder for other languages."""


def collection_of(kind: str, embedder: Embedder) -> str:
    """Return the name of the collection for this embedder's vectors. A hash replaces characters that such a name may
    not have.
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", embedder.id)
    if plain != embedder.id:
        plain = f"{plain[:100]}_{digest(embedder.id, 8)}"
    return f"{kind}__{plain}"


class ToolVectors(NamedTuple):
    """The vectors of some tools.

    Attributes:
        first: The embedder's [tools, dimension].
        second: Those of the encoder for other languages [tools, dimension], or None without it.
    """

    first: Vectors
    second: Vectors | None

    def of(self, rows: slice) -> "ToolVectors":
        return ToolVectors(self.first[rows], None if self.second is None else self.second[rows])


class ToolPoints:
    """Writes the tools' points, and follows a change of the embedder.

    The encoder for other languages has a separate collection, with a point of the same id for each tool. So a process
    without that extra reads and writes only the other collections.
    """

    def __init__(
        self, backend: Backend, embedder: Embedder | Callable[[], Embedder], *, languages: bool
    ) -> None:
        self._backend = backend
        self._embedder = embedder
        self._languages = languages

    @cached_property
    def embedder(self) -> Embedder:
        embedder: Any = self._embedder  # An embedder may be callable, too.
        is_open = hasattr(embedder, "embed") and not isinstance(embedder, type)
        opened: Embedder = embedder if is_open else embedder()
        return opened

    @property
    def chunk(self) -> int:
        """The number of tools to embed at a time while other writers may use the store."""
        return _REMOTE_CHUNK if self.embedder.remote else _CHUNK

    @property
    def collection(self) -> str:
        """The collection of this embedder's vectors that is read by id."""
        return collection_of(COLLECTION, self.embedder)

    @property
    def second_encoder(self) -> LanguageEncoder | None:
        """The encoder for other languages, if its vectors are stored and it is installed."""
        return second_encoder(self.embedder) if self._languages else None

    def fits(self, collection: str) -> bool:
        """Return True if the collection has this embedder's vectors."""
        return collection == self.collection

    def embed(self, tools: Sequence[Tool]) -> ToolVectors:
        """Return the vectors of each tool. Flagged tools are embedded without the suspicious parts of their texts, as
        they are searched.
        """
        flagged = suspects(tools)
        read = [cleaned(tool) if tool.key in flagged else tool for tool in tools]
        encoder = self.second_encoder
        second = None if encoder is None else embed_tools(encoder, read)
        return ToolVectors(embed_tools(self.embedder, read), second)

    def missing(
        self,
        points: Points,
        collection: str,
        wanted: Mapping[str, Tool],
        named: Container[tuple[str, str]],
    ) -> list[str]:
        """Return the points that do not exist or are damaged.

        On a server, points that the manifest does not name may be about to be removed, so they count as missing unless
        they are young. Vectors on a server are not read, because the server keeps them intact.

        Args:
            points: The tenant's points.
            collection: The name of the collection.
            wanted: The tools by point id.
            named: The tools, by key and definition hash, that the manifest names in this collection.
        """
        local = not self._backend.remote
        young_since = 0.0 if local else time.time() - drafts.KEPT_S / 2
        ids = list(wanted)
        intact: set[str] = set()
        for start in range(0, len(ids), _CHUNK):
            page = points.get(
                collection, ids[start : start + _CHUNK], payload=["tool", "written"], vectors=local
            )
            for point, record in page.items():
                tool = wanted[point]
                is_named = (tool.key, tool.hash) in named
                stays = is_named or record.payload.get("written", 0.0) >= young_since
                if stays and _is_intact(record, tool, with_vector=local):
                    intact.add(point)
        if self.second_encoder is not None:
            encoded = points.get(SECOND, ids, payload=False)
            intact.intersection_update(encoded)
        return [point for point in ids if point not in intact]

    def add(
        self, points: Points, collection: str, tools: Mapping[str, Tool], vectors: ToolVectors
    ) -> None:
        """Write a point for each tool. The first points create the collection.

        Args:
            points: The tenant's points.
            collection: The name of the collection.
            tools: The tools by point id.
            vectors: The vectors of the tools.
        """
        dimension = vectors.first.shape[1]
        if (stored := points.size(collection)) not in (None, dimension):
            raise InvalidConfig(self._wrong_size(stored or 0, dimension))
        points.create(collection, dimension)
        payloads = {point: tool_payload(tool) for point, tool in tools.items()}
        points.put(collection, payloads, vectors.first)
        if vectors.second is not None:
            points.create(SECOND, vectors.second.shape[1])
            written = {point: {"written": payloads[point]["written"]} for point in tools}
            points.put(SECOND, written, vectors.second)

    def sweep(
        self,
        points: Points,
        collection: str,
        ids: Sequence[str],
        until: float,
        kept: Container[str],
    ) -> None:
        """Remove the tools' points that were written before a time.

        Args:
            points: The tenant's points.
            collection: The name of the collection.
            ids: The ids of the points.
            until: The time, in seconds since 1970.
            kept: The ids of the tools that stay, with another embedder's vectors.
        """
        points.sweep(collection, ids, until)
        if points.size(SECOND) is not None:
            points.sweep(SECOND, [point for point in ids if point not in kept], until)

    def second(self, points: Points, owner: Manifest) -> dict[str, Vectors]:
        """Return the stored vectors of the encoder for other languages, by the hash of the tool's definition."""
        hashes = {point: hash_ for point, hash_, _ in owner.points()}
        records = points.get(SECOND, list(hashes), vectors=True, payload=False)
        vectors: dict[str, Vectors] = {}
        for point, record in records.items():
            if record.vector is not None and has_vector(record):
                hash_ = hashes[point]
                vectors[hash_] = record.vector
        return vectors

    def left_behind(self, points: Points, owner: Manifest, collection: str) -> dict[str, Tool]:
        """Return the owner's tools in another collection. Tools with damaged records are left out.

        Args:
            points: The tenant's points.
            owner: The manifest of the owner.
            collection: The collection that is in use now.
        """
        if owner.collection in ("", collection):
            return {}
        records = points.get(owner.collection, [point for point, *_ in owner.points()])
        tools = {point: stored_tool(record.payload) for point, record in records.items()}
        return {point: tool for point, tool in tools.items() if tool is not None}

    def mismatch(self, vectors: Vectors | None) -> str:
        """Return the reason for not using stored vectors, with the remedy. Otherwise empty. None as vectors means
        another embedder's.
        """
        if vectors is None:
            return (
                f"the store's vectors are not from the embedder {self.embedder.id!r}, so this process embeds the tools "
                "again; run `toolroute tools import` or `tools sync` to store vectors of this embedder"
            )
        # The dimension of an endpoint is unknown before its first answer.
        if not self.embedder.dimension:
            self.embedder.dimension = vectors.shape[1]
        stored = vectors.shape[1]
        current = self.embedder.dimension
        return "" if stored == current else self._wrong_size(stored, current)

    def _wrong_size(self, stored: int, current: int) -> str:
        return (
            f"the store {self._backend} has vectors with {stored} dimensions, but the embedder {self.embedder.id!r} "
            f"gives {current}: use the embedder with which the store was filled, or import the tools into an empty "
            "store"
        )


def _is_intact(record: Record, tool: Tool, *, with_vector: bool) -> bool:
    stored = stored_tool(record.payload)
    return (
        stored is not None and stored.hash == tool.hash and (has_vector(record) or not with_vector)
    )
