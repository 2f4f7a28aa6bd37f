"""The reading of a catalogue: all that indexing takes from its texts, as values that a file can keep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.bm25 import Corpus
from orchestrator.index.documents import Document, standing
from orchestrator.records.tool import Tool

FIELD_WEIGHTS = {"server": 1.0, "name": 2.0, "keywords": 1.0, "description": 1.0, "parameters": 0.5}


class Documents:
    """The documents of a catalogue's tools, by position; each is read when it is asked for, and once."""

    def __init__(self, tools: Sequence[Tool], earlier: "Documents | None" = None) -> None:
        """earlier: documents of tools that need not be read again."""
        self._tools = tools
        self.places = {tool.hash: place for place, tool in enumerate(tools)}
        known = {} if earlier is None else earlier.places
        self._read = {
            place: earlier[known[tool.hash]]
            for place, tool in enumerate(tools)
            if earlier is not None and tool.hash in known
        }

    def __getitem__(self, place: int) -> Document:
        if place not in self._read:
            self._read[place] = Document.of(self._tools[place])
        return self._read[place]

    def all(self) -> list[Document]:
        return [self[place] for place in range(len(self._tools))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a catalogue says: its terms, `words` in lower case, and the `actions` that its names begin with.

    `suspicions` by position, of the few tools that are flagged. `changing_twins`: for each tool whether it may change
    something and has a twin that only reads [tools]: where a task reads, it is hardly meant. `standing`: what to
    multiply each tool's odds with [tools]; None where no tool is deprecated.
    """

    corpus: Corpus
    words: frozenset[str]
    actions: frozenset[str]
    suspicions: Mapping[int, tuple[str, ...]]
    changing_twins: NDArray[np.bool_]
    standing: NDArray[np.float64] | None

    @classmethod
    def of(cls, documents: Sequence[Document], places: Mapping[str, slice]) -> "Reading":
        read = {document.thing for document in documents if document.reads}
        twins = [not document.reads and document.thing in read for document in documents]
        return cls(
            corpus=Corpus.of([document.terms for document in documents], tuple(FIELD_WEIGHTS.values())),
            words=frozenset[str]().union(*(document.words for document in documents)),
            actions=frozenset(document.action for document in documents),
            suspicions={place: own.suspicions for place, own in enumerate(documents) if own.suspicions},
            changing_twins=np.array(twins, np.bool_),
            standing=standing(documents, places),
        )
