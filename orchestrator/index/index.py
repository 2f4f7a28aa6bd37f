"""The Index: one tenant's catalogue, ready to be searched. Built once a catalogue version, then only read."""

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import export
from orchestrator.catalogue.tokens import compact, count_each, plain_size
from orchestrator.errors import EmbedderUnavailable
from orchestrator.index.always import AlwaysIndex, Capability
from orchestrator.index.difference import Difference, difference_between, difference_over
from orchestrator.index.embed import Embedder, embed_tools
from orchestrator.index.keyword import KeywordIndex
from orchestrator.index.prerequisites import Prerequisites
from orchestrator.index.servers import ServerIndex
from orchestrator.index.standing import standing
from orchestrator.index.suspicion import cleaned, suspects
from orchestrator.index.vectors import SemanticIndex
from orchestrator.language.slips import vocabulary
from orchestrator.records.tool import Tool


class Index:
    """All that routing reads of one catalogue. The keyword side is built at once, the semantic one on first use.

    `catalogue` holds the tools that are searched, `flags` why others are not and `flagged` those without their
    suspicious texts: so nothing that they say moves any other tool. `whole` is the catalogue that was given. `note`
    says why there are no stored vectors, where there should be some.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        capabilities: Sequence[Capability] = (),
        vectors: NDArray[np.float32] | None = None,
        *,
        note: str = "",
        earlier: "Index | None" = None,
    ) -> None:
        """earlier: an Index that this one follows, from which what stands about unchanged servers is taken over."""
        self.whole, self.note = catalogue, note
        difference = None if earlier is None else difference_between(earlier.whole, catalogue)
        if earlier is None or difference is None:
            self.flags = suspects(catalogue.tools)
        else:
            self._take_flags(earlier, difference)
            self._take_measures(earlier, difference)
        known: dict[str, Tool] = {} if earlier is None else {tool.hash: tool for tool in earlier.flagged}
        self.flagged: tuple[Tool, ...] = tuple(
            known.get(catalogue[key].hash) or cleaned(catalogue[key]) for key in self.flags
        )
        self.catalogue = catalogue = self._searched(earlier, difference)
        if earlier is not None and difference is not None and (self.flagged or earlier.flagged):
            difference = difference_over(earlier.catalogue, catalogue, difference.changed)
        if earlier is None or difference is None:
            self.keyword = KeywordIndex(catalogue.tools, catalogue.places)
            self.servers = ServerIndex.of(catalogue)
        else:
            self.keyword = earlier.keyword.changed(catalogue, difference)
            self.servers = earlier.servers.changed(difference.gone, difference.come)
        self.standing = standing(catalogue.tools, catalogue.places)
        self.prerequisites = Prerequisites(catalogue.tools, catalogue.positions, self.keyword.named)
        self.always = AlwaysIndex(catalogue.positions, capabilities, self.keyword.named)
        self._semantic: SemanticIndex | None = None
        self._flagged_vectors: NDArray[np.float32] | None = None
        if vectors is not None:
            apart = [self.whole.positions[key] for key in self.flags]
            self._semantic = self._take(np.delete(vectors, apart, axis=0) if apart else vectors, vectors[apart])
        self._embedding = threading.Lock()
        vocabulary()  # Read now, and not in the first query that says a word which no tool does.

    def _searched(self, earlier: "Index | None", difference: Difference | None) -> Catalogue:
        """The catalogue of the tools that are not flagged; unchanged servers' are taken over."""
        if earlier is None or difference is None or not self.flags:
            return self.whole.without(self.flags)
        left = Catalogue(tool for tool in difference.come if tool.key not in self.flags)
        return earlier.catalogue.changed({server: left.of_server(server) for server in difference.changed})

    def _take_flags(self, earlier: "Index", difference: Difference) -> None:
        """The flags of unchanged tools, beside those of the new ones; in the catalogue's order."""
        gone = {tool.key for tool in difference.gone}
        flags = {key: why for key, why in earlier.flags.items() if key not in gone} | suspects(difference.come)
        self.flags = {key: flags[key] for key in sorted(flags, key=self.whole.positions.__getitem__)}

    def _take_measures(self, earlier: "Index", difference: Difference) -> None:
        """The measures of unchanged tools, where the earlier Index has come to take them."""
        before = earlier.__dict__.get("_measured")
        if before is not None:
            kept = difference.tools.to >= 0
            measured = np.zeros((2, len(self.whole)), np.int64)
            measured[:, difference.tools.to[kept]] = before[:, kept]
            measured[:, difference.tools.new] = _measure(difference.come)
            self.__dict__["_measured"] = measured

    def semantic(self, embedder: Embedder) -> SemanticIndex:
        """The semantic side; embeds every tool, once, where no vectors came from a store.

        May raise EmbedderUnavailable; so it does while another thread waits for an endpoint to embed the tools.
        """
        if self._semantic is None:
            if not self._embedding.acquire(timeout=0 if embedder.remote else -1):
                raise EmbedderUnavailable("the tools are still being embedded")
            try:
                if self._semantic is None:
                    vectors = embed_tools(embedder, [*self.catalogue.tools, *self.flagged])
                    own = len(self.catalogue)
                    self._semantic = self._take(vectors[:own], vectors[own:])
            finally:
                self._embedding.release()
        return self._semantic

    def _take(self, vectors: NDArray[np.float32], flagged: NDArray[np.float32]) -> SemanticIndex:
        self._flagged_vectors = flagged
        return SemanticIndex(self.catalogue.tools, vectors, self.catalogue.places)

    def flagged_cosines(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The cosine of each flagged tool with a query's vector."""
        if self._flagged_vectors is None or not len(self.flagged):
            return np.zeros(len(self.flagged), np.float32)
        return np.asarray(self._flagged_vectors @ query, np.float32)

    @property
    def has_vectors(self) -> bool:
        return self._semantic is not None

    @cached_property
    def labelled(self) -> Mapping[tuple[str, str], list[int]]:
        """The positions of the tools with each label, kind, server and name: what filters ask for."""
        found: dict[tuple[str, str], list[int]] = {}
        for position, tool in enumerate(self.catalogue):
            for label in tool.filtered_by.items():
                found.setdefault(label, []).append(position)
        return found

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The definition of each tool of `whole` in tokens, as a model would read it; [tools]."""
        return np.asarray(self._measured[0])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The same in bytes of plain JSON, with labels and keywords; [tools]."""
        return np.asarray(self._measured[1])

    @cached_property
    def _measured(self) -> NDArray[np.int64]:
        return _measure(self.whole.tools)

    @cached_property
    def tokens_total(self) -> int:
        return int(self.tokens.sum())


def _measure(tools: Sequence[Tool]) -> NDArray[np.int64]:
    """Each definition's tokens and bytes, [2, tools]."""
    texts = [compact(shape) for shape in export(tools, "openai")]
    sizes = [plain_size(text) + size_beside(tool) for text, tool in zip(texts, tools, strict=True)]
    return np.array([count_each(texts), sizes], np.int64)


def size_beside(tool: Tool) -> int:
    """Bytes of what a match holds of its tool and no model reads."""
    return plain_size(compact([tool.labels, tool.keywords])) if tool.labels or tool.keywords else 0
