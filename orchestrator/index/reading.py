"""The reading of a catalogue: all that indexing takes from its texts, as values that a file can keep."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.bm25 import Corpus
from orchestrator.index.documents import Document, deprecation_factor
from orchestrator.records.tool import Tool

FIELD_WEIGHTS = {"server": 1.0, "name": 2.0, "keywords": 1.0, "description": 1.0, "parameters": 0.5}


class Documents:
    """The documents of a catalogue's tools by position. Each is read once, on first use."""

    def __init__(self, tools: Sequence[Tool], earlier: "Documents | None" = None) -> None:
        """earlier: documents of tools that need not be read again."""
        self._tools = tools
        self.hashes = [tool.hash for tool in tools]
        """The hash of each tool's definition."""
        known = {} if earlier is None else earlier.with_saved()
        sizes = {} if earlier is None else earlier.sizes
        self.known: dict[str, Document] = {
            hash_: known[hash_] for hash_ in self.hashes if hash_ in known
        }
        """The documents that were already read, by their tools' hashes."""
        self.sizes: dict[str, tuple[int, int]] = {
            hash_: sizes[hash_] for hash_ in self.hashes if hash_ in sizes
        }
        """The tokens and the bytes of the definitions that were already counted, by their hashes."""
        self.saved: Callable[[], Mapping[str, Document]] | None = None
        """Reads the documents in a file. Only the next version of the catalogue needs them."""

    def with_saved(self) -> Mapping[str, Document]:
        """Return the documents that were already read, with those in a file."""
        if self.saved is not None:
            self.known = {**self.saved(), **self.known}
            self.saved = None
        return self.known

    def __getitem__(self, place: int) -> Document:
        tool = self._tools[place]
        if tool.hash not in self.known:
            self.known[tool.hash] = Document.of(tool)
        return self.known[tool.hash]

    def all(self) -> list[Document]:
        return [self[place] for place in range(len(self._tools))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The texts of a catalogue: its terms, its lower-case `words`, and the `actions` that begin its names.

    Attributes:
        suspicions: Reasons by position, for flagged tools.
        write_variants: True for each tool that may change something and has a twin that only reads [tools]. A task
            that only reads hardly means such a tool.
        deprecation_factor: The factor for each tool's odds [tools], or None if no tool is deprecated.
    """

    corpus: Corpus
    words: frozenset[str]
    actions: frozenset[str]
    suspicions: Mapping[int, tuple[str, ...]]
    write_variants: NDArray[np.bool_]
    deprecation_factor: NDArray[np.float64] | None

    @classmethod
    def of(
        cls,
        documents: Sequence[Document],
        places: Mapping[str, slice],
    ) -> "Reading":
        """Read documents.

        Args:
            documents: The documents.
            places: The positions of each server's tools.
        """
        corpus = Corpus.of(
            [document.terms for document in documents], tuple(FIELD_WEIGHTS.values())
        )
        things_read = {document.thing for document in documents if document.reads}
        is_variant = [
            not document.reads and document.thing in things_read for document in documents
        ]
        words = set[str]()
        for document in documents:
            words |= document.words
        return cls(
            corpus=corpus,
            words=frozenset(words),
            actions=frozenset(document.action for document in documents),
            suspicions={
                place: document.suspicions
                for place, document in enumerate(documents)
                if document.suspicions
            },
            write_variants=np.array(is_variant, np.bool_),
            deprecation_factor=deprecation_factor(documents, places),
        )
