"""The Index: one tenant's catalogue, ready to be searched. Built once a catalogue version, then only read."""

import logging
import threading
from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import export
from orchestrator.catalogue.tokens import compact, count_tokens, plain_size
from orchestrator.common.arrays import Integers, Mask
from orchestrator.errors import EmbedderUnavailable
from orchestrator.index.always import AlwaysIndex, Capability
from orchestrator.index.documents import Documents, Reading
from orchestrator.index.embedders.embedder import Embedder
from orchestrator.index.embedders.embedding import embed_tools
from orchestrator.index.flags import mentions
from orchestrator.index.keyword import KeywordIndex
from orchestrator.index.relations.graph import Graph
from orchestrator.index.relations.requirements import Prerequisites
from orchestrator.index.semantic import Cosines, SemanticIndex
from orchestrator.index.servers import ServerIndex
from orchestrator.index.text import terms
from orchestrator.records.tool import Tool

Built = TypeVar("Built")
logger = logging.getLogger(__name__)


class Index:
    """The searchable form of one catalogue. The keyword side is built at once, the semantic side on first use.

    Attributes:
        catalogue: The tools, without suspicious texts.
        tools: The same tools by position.
        keys: The keys of the tools by position.
        flags: The reasons for suspicious texts, by key.
        flag_reasons: The reasons for suspicious texts, by position.
        flagged: A mask of the flagged tools [tools]. None if no tool is flagged.
        unflagged: A mask of the other tools [tools]. None if no tool is flagged.
        origins: The sources of each key, as in `Stored`.
        note: Explains missing stored vectors.
        keyword: The keyword side.
        servers: The names of the servers.
        deprecation_factor: The factor for each tool's odds [tools], or None if no tool is deprecated.
        prerequisites: The values that tools require of each other.
        graph: The relations between the tools.
        always: The always-available capabilities.
        read_second: Returns the stored vectors of the encoder for other languages, by the hash of the definition.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        capabilities: Sequence[Capability] = (),
        vectors: NDArray[np.float32] | None = None,
        *,
        note: str = "",
        earlier: "Index | None" = None,
        absent: Collection[str] = (),
        reading: Reading | None = None,
        origins: Mapping[str, tuple[str, ...]] = {},
    ) -> None:
        """Build an index.

        Args:
            catalogue: The tools.
            capabilities: The always-available capabilities.
            vectors: The vectors of the tools [tools, dimension].
            note: Explains missing stored vectors.
            earlier: An index whose tools need not be read again.
            absent: Servers that could not be listed.
            reading: A reading of this catalogue, from a file.
            origins: As in `Stored`.
        """
        places = catalogue.places
        self.documents: Documents = Documents(
            catalogue.tools, earlier.documents if earlier else None
        )
        self.reading = reading or Reading.of(self.documents.all(), places)
        self.note = note
        self.origins = origins
        self.flag_reasons = self.reading.suspicions
        self.catalogue = self._without_flagged_texts(catalogue)
        self.tools = self.catalogue.tools
        self.keys = list(catalogue.positions)
        self.flags = {
            self.keys[position]: reasons for position, reasons in self.flag_reasons.items()
        }
        self.flagged = self._flagged_tools()
        self.unflagged: Mask | None = None if self.flagged is None else ~self.flagged
        self.keyword = KeywordIndex(self.reading, places, self.flagged)
        self.servers = ServerIndex(
            places.keys() - {""}, self.reading.words, set(absent) - places.keys()
        )
        self.deprecation_factor = self.reading.deprecation_factor
        self.prerequisites = Prerequisites(
            self.documents, catalogue.positions, places, self.keyword.named
        )
        self.graph = Graph(self.tools, catalogue.positions, self.prerequisites)
        self.always = AlwaysIndex(self.catalogue, capabilities, self.keyword.named)
        self._semantic = None if vectors is None else SemanticIndex(self.tools, vectors, places)
        self.read_second: Callable[[], Mapping[str, NDArray[np.float32]]] = dict
        self._second: SemanticIndex | None = None
        self._embedding = threading.Lock()
        self._encoding = threading.Lock()
        self._derived: dict[Hashable, Any] = {}
        _warn_of_dangling(self.graph.dangling)

    def _flagged_tools(self) -> Mask | None:
        if not self.flag_reasons:
            return None
        flagged = np.zeros(len(self.tools), np.bool_)
        flagged[list(self.flag_reasons)] = True
        return flagged

    def _without_flagged_texts(self, catalogue: Catalogue) -> Catalogue:
        """Return the catalogue whose flagged tools have no suspicious texts."""
        if not self.flag_reasons:
            return catalogue
        tools = list(catalogue.tools)
        for position in self.flag_reasons:
            tools[position] = self.documents[position].tool
        return catalogue.holding(tools)

    def semantic(self, embedder: Embedder) -> SemanticIndex:
        """Return the semantic side. Embeds every tool once if a store had no vectors.

        Raises:
            EmbedderUnavailable: Embedding failed, or another thread is waiting for an endpoint.
        """
        if self._semantic is None:
            # A local model is done soon. An endpoint may take minutes, and the keyword leg can answer meanwhile.
            if not self._embedding.acquire(timeout=0 if embedder.remote else -1):
                raise EmbedderUnavailable("the tools are still being embedded")
            try:
                if self._semantic is None:
                    vectors = embed_tools(embedder, self.tools)
                    self._semantic = SemanticIndex(self.tools, vectors, self.catalogue.places)
            finally:
                self._embedding.release()
        return self._semantic

    def second(self, encoder: Embedder) -> SemanticIndex:
        """Return the semantic side for tasks in other languages. Encodes every tool that has no stored vector, once."""
        with self._encoding:
            if self._second is None:
                vectors = self._encoded(encoder)
                self._second = SemanticIndex(self.tools, vectors, self.catalogue.places)
            return self._second

    def second_cosines(self, queries: NDArray[np.float32]) -> Cosines | None:
        """Return the cosines of every tool by that side, or None before it is there [queries, tools]."""
        return None if self._second is None else self._second.score(queries)

    def _encoded(self, encoder: Embedder) -> NDArray[np.float32]:
        stored = self.read_second()
        vectors = np.zeros((len(self.tools), encoder.dimension), np.float32)
        unencoded: list[int] = []
        for position, tool_hash in enumerate(self.documents.hashes):
            if tool_hash in stored:
                vectors[position] = stored[tool_hash]
            else:
                unencoded.append(position)
        vectors[unencoded] = embed_tools(encoder, [self.tools[position] for position in unencoded])
        return vectors

    @property
    def vectors(self) -> SemanticIndex | None:
        """The semantic side, once it is there."""
        return self._semantic

    def derived(self, key: Hashable, build: Callable[[], Built]) -> Built:
        """Return a pipeline's data about this catalogue, built on first use."""
        if key not in self._derived:
            self._derived[key] = build()
        return cast(Built, self._derived[key])

    def mentions(self, positions: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """Return the phrases that the texts of these tools mention, found on first use. Flagged tools are left out."""
        phrases: dict[int, tuple[str, ...]] = {}
        for position in positions:
            if position not in self.flag_reasons:
                find = partial(mentions, self.tools[position])
                phrases[position] = self.derived(("mentions", position), find)
        return phrases

    @cached_property
    def flagged_by_term(self) -> Mapping[str, frozenset[int]]:
        """The positions of the flagged tools whose name has each term."""
        by_term = defaultdict[str, set[int]](set)
        for position in self.flag_reasons:
            for term in self.name_terms(position):
                by_term[term].add(position)
        return {term: frozenset(positions) for term, positions in by_term.items()}

    def name_terms(self, position: int) -> frozenset[str]:
        """Return the terms of a tool's name."""
        return frozenset(terms(self.tools[position].name))

    @cached_property
    def labelled(self) -> Mapping[tuple[str, str], Integers]:
        """The positions of the tools with each label, kind, server and name, as filters ask for them."""
        by_label = defaultdict[tuple[str, str], list[int]](list)
        for position, tool in enumerate(self.tools):
            for label in tool.filtered_by.items():
                by_label[label].append(position)
        return {label: np.array(positions, np.int64) for label, positions in by_label.items()}

    @cached_property
    def trusted(self) -> Mapping[tuple[str, str], int]:
        """The positions of the tools that are not flagged, by key and hash, as past tasks name them."""
        trusted: dict[tuple[str, str], int] = {}
        for position, (key, tool) in enumerate(zip(self.keys, self.tools, strict=True)):
            if position not in self.flag_reasons:
                trusted[key, tool.hash] = position
        return trusted

    def counted(self) -> Self:
        """Return the index with all definitions counted, which blocks for a second at 13,000: call it in a thread."""
        _ = self.sizes
        return self

    @cached_property
    def sizes(self) -> "Sizes":
        """The size of each definition [tools]. A definition of an earlier index is not counted again."""
        counted = self.documents.sizes
        hashes = self.documents.hashes
        new_tools = {
            tool_hash: tool
            for tool_hash, tool in zip(hashes, self.tools, strict=True)
            if tool_hash not in counted
        }
        new_sizes = _sizes_of([*new_tools.values()])
        counted.update(zip(new_tools, new_sizes, strict=True))
        sizes = np.array([counted[tool_hash] for tool_hash in hashes], np.int64)
        tokens, plain = sizes.reshape(-1, 2).T.copy()
        return Sizes(tokens=tokens, plain=plain)


@dataclass(frozen=True)
class Sizes:
    """The size of each definition.

    Attributes:
        tokens: The tokens for a model [tools].
        plain: The bytes as JSON with labels and keywords [tools].
    """

    tokens: Integers
    plain: Integers

    @cached_property
    def tokens_total(self) -> int:
        return int(self.tokens.sum())


def _sizes_of(tools: Sequence[Tool]) -> list[tuple[int, int]]:
    """Return the tokens of each definition for a model, and its bytes as JSON with labels and keywords."""
    sizes = []
    for tool, shape in zip(tools, export(tools, "openai"), strict=True):
        text = compact(shape)
        sizes.append((count_tokens(text), plain_size(text) + extra_size(tool)))
    return sizes


def extra_size(tool: Tool) -> int:
    """Return the bytes of a match's tool that no model reads."""
    if not tool.labels and not tool.keywords:
        return 0
    return plain_size(compact([tool.labels, tool.keywords]))


def _warn_of_dangling(keys: Sequence[str]) -> None:
    if not keys:
        return
    names = ", ".join(map(repr, keys[:5]))
    more = " and more" if len(keys) > 5 else ""
    logger.warning("relations to %s%s are ignored: this catalogue has no such tools", names, more)
