"""The Index: one tenant's catalogue, ready to be searched. Built once a catalogue version, then only read."""

import logging
import threading
from collections.abc import Callable, Collection, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import export
from orchestrator.catalogue.tokens import compact, count_tokens, plain_size
from orchestrator.errors import EmbedderUnavailable
from orchestrator.index.always import AlwaysIndex, Capability
from orchestrator.index.embed import Embedder, SemanticIndex, embed_tools
from orchestrator.index.graph import Graph
from orchestrator.index.keyword import KeywordIndex
from orchestrator.index.prerequisites import Prerequisites
from orchestrator.index.reading import Documents, Reading
from orchestrator.index.servers import ServerIndex
from orchestrator.records.tool import CatalogueVersion, Tool

Built = TypeVar("Built")
logger = logging.getLogger(__name__)


class Index:
    """The searchable form of one catalogue. The keyword side is built at once, the semantic side on first use.

    `flags` has the reasons for suspicious texts by tool. `catalogue` has these tools without the texts. `note` explains
    missing stored vectors.
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
            earlier: An index whose tools need not be read again.
            absent: Servers that could not be listed.
            reading: A reading of this catalogue, from a file.
            origins: As in `Stored`.
        """
        self.documents: Documents = Documents(catalogue.tools, earlier.documents if earlier else None)
        self.reading = reading or Reading.of(self.documents.all(), catalogue.places)
        self.note, self.origins = note, origins
        flagged, tools = self.reading.suspicions, catalogue.tools
        self.flags = {tools[place].key: own for place, own in flagged.items()}
        if flagged:
            catalogue = catalogue.holding(
                self.documents[place].tool if place in flagged else tool for place, tool in enumerate(tools)
            )
        self.catalogue = catalogue
        self.flagged = np.isin(np.arange(len(tools)), list(flagged)) if flagged else None
        """A mask of the flagged tools, shape [tools]. None if there are no flagged tools."""
        self.unflagged = None if self.flagged is None else ~self.flagged
        self.keyword = KeywordIndex(self.reading, catalogue.places, self.flagged)
        absent = set(absent) - catalogue.places.keys()
        self.servers = ServerIndex(catalogue.places.keys() - {""}, self.reading.words, absent)
        self.deprecation_factor = self.reading.deprecation_factor
        self.prerequisites = Prerequisites(self.documents, catalogue.positions, catalogue.places, self.keyword.named)
        self.graph = Graph(catalogue.tools, catalogue.positions, self.prerequisites)
        if dangling := self.graph.dangling:
            shown = f"{', '.join(map(repr, dangling[:5]))}{' and more' if len(dangling) > 5 else ''}"
            logger.warning("relations to %s are ignored: this catalogue has no such tools", shown)
        self.always = AlwaysIndex(catalogue, capabilities, self.keyword.named)
        self._semantic = None if vectors is None else SemanticIndex(catalogue.tools, vectors, catalogue.places)
        self._embedding = threading.Lock()
        self._derived: dict[Hashable, Any] = {}

    def semantic(self, embedder: Embedder) -> SemanticIndex:
        """Return the semantic side. Embeds every tool once if a store had no vectors.

        Raises:
            EmbedderUnavailable: Embedding failed, or another thread is waiting for an endpoint.
        """
        if self._semantic is None:
            if not self._embedding.acquire(timeout=0 if embedder.remote else -1):
                raise EmbedderUnavailable("the tools are still being embedded")
            try:
                if self._semantic is None:
                    vectors = embed_tools(embedder, self.catalogue.tools)
                    self._semantic = SemanticIndex(self.catalogue.tools, vectors, self.catalogue.places)
            finally:
                self._embedding.release()
        return self._semantic

    @property
    def vectors(self) -> SemanticIndex | None:
        """The semantic side, once it is there."""
        return self._semantic

    def derived(self, key: Hashable, build: Callable[[], Built]) -> Built:
        """Return a pipeline's own data about this catalogue, built on first use."""
        if key not in self._derived:
            self._derived[key] = build()
        return cast(Built, self._derived[key])

    @cached_property
    def labelled(self) -> Mapping[tuple[str, str], NDArray[np.int64]]:
        """The positions of the tools with each label, kind, server and name, as filters ask for them."""
        found: dict[tuple[str, str], list[int]] = {}
        for position, tool in enumerate(self.catalogue):
            for label in tool.filtered_by.items():
                found.setdefault(label, []).append(position)
        return {label: np.array(positions, np.int64) for label, positions in found.items()}

    @cached_property
    def trusted(self) -> Mapping[tuple[str, str], int]:
        """The positions of the tools that are not flagged, by key and hash, as past tasks name them."""
        return {(tool.key, tool.hash): n for n, tool in enumerate(self.catalogue) if tool.key not in self.flags}

    def counted(self) -> Self:
        """Return the index with all definitions counted, which blocks for a second at 13,000: call it in a thread."""
        _ = self.sizes
        return self

    @property
    def version(self) -> CatalogueVersion:
        return self.catalogue.version

    @property
    def terms(self) -> Container[str]:
        """All terms, stemmed."""
        return self.keyword.terms

    @property
    def actions(self) -> frozenset[str]:
        """The words that begin an action."""
        return self.keyword.actions

    @cached_property
    def sizes(self) -> "Sizes":
        """The size of each definition [tools]."""
        return Sizes.of(self.catalogue.tools)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The tokens of each definition for a model, and its bytes as JSON with labels and keywords [tools]."""

    tokens: NDArray[np.int64]
    plain: NDArray[np.int64]

    @classmethod
    def of(cls, tools: Sequence[Tool]) -> "Sizes":
        texts = [compact(shape) for shape in export(tools, "openai")]
        plain = [plain_size(text) + extra_size(tool) for text, tool in zip(texts, tools, strict=True)]
        return cls(tokens=np.array([*map(count_tokens, texts)], np.int64), plain=np.array(plain, np.int64))

    @property
    def tokens_total(self) -> int:
        return int(self.tokens.sum())


def extra_size(tool: Tool) -> int:
    """Return the bytes of a match's tool that no model reads."""
    return plain_size(compact([tool.labels, tool.keywords])) if tool.labels or tool.keywords else 0
