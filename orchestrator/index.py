"""The Index: one tenant's catalogue, ready to be searched. Built once a catalogue version, then only read."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue import Catalogue
from orchestrator.embed import Embedder
from orchestrator.exports import export
from orchestrator.stages.always import AlwaysIndex, Capability
from orchestrator.stages.explicit import ServerIndex
from orchestrator.stages.keyword import KeywordIndex
from orchestrator.stages.semantic import SemanticIndex
from orchestrator.text import card, terms
from orchestrator.tokens import compact, count_each


class Index:
    """All that routing reads of one catalogue. The keyword side is built at once, the semantic one on first use."""

    def __init__(
        self,
        catalogue: Catalogue,
        capabilities: Sequence[Capability] = (),
        vectors: NDArray[np.float32] | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.keyword = KeywordIndex(catalogue.tools)
        self.servers = ServerIndex.of(catalogue)
        self.always = AlwaysIndex(catalogue.positions, capabilities, self._names_of())
        self._semantic = SemanticIndex(catalogue.tools, vectors) if vectors is not None else None

    def semantic(self, embedder: Embedder) -> SemanticIndex:
        """The semantic side; embeds every tool where no vectors came from a store. May raise EmbedderUnavailable."""
        if self._semantic is None:
            vectors = embedder.embed([card(tool) for tool in self.catalogue])
            self._semantic = SemanticIndex(self.catalogue.tools, vectors)
        return self._semantic

    @property
    def has_vectors(self) -> bool:
        return self._semantic is not None

    @cached_property
    def tokens(self) -> NDArray[np.int64]:
        """Each tool's definition in tokens, as a model would read it; [tools]."""
        return np.asarray(count_each([compact(shape) for shape in export(self.catalogue.tools, "openai")]), np.int64)

    @cached_property
    def tokens_total(self) -> int:
        return int(self.tokens.sum())

    def _names_of(self) -> dict[str, frozenset[int]]:
        """Each term of a tool's name or server, and the tools named with it."""
        found: dict[str, set[int]] = {}
        for position, tool in enumerate(self.catalogue):
            for term in {*terms(tool.name), *terms(tool.server)}:
                found.setdefault(term, set()).add(position)
        return {term: frozenset(positions) for term, positions in found.items()}
