"""Documents: the terms, words and flags that indexing reads from the texts of tools.

A `Document` has the indexed data of one tool, and the tool's next catalogue reuses it. A `Reading` has the data of a
whole catalogue, as values that a file can keep.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.common.arrays import Mask
from orchestrator.index.bm25 import Corpus
from orchestrator.index.flags import cleaned, suspicions
from orchestrator.index.intent import action_of, thing_of
from orchestrator.index.text import field_terms, fields
from orchestrator.records.tool import Tool

FIELD_WEIGHTS = {"server": 1.0, "name": 2.0, "keywords": 1.0, "description": 1.0, "parameters": 0.5}
OUTDATED, REPLACED = 0.2, 0.02
"""The factors on the odds of a deprecated tool, and of a tool that another tool replaces. A stated relation or the
tool's description names the other tool."""
_LOWER_WORD = re.compile(r"(?<![\w.@/-])[a-z]{3,}(?![\w@/-])")
_DEPRECATED = re.compile(
    r"(?i)\A\W{0,8}(?:deprecated|obsolete)\b(?!\s(?!by\b|since\b|in\b|as\b)[a-z])|[\[(]deprecated\b"
    r"|\bthis (?:tool|function|method|endpoint|api) (?:is|has been) (?:deprecated|obsolete)\b"
    r"|(?-i:[.!\n]\s*DEPRECATED\b)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The searched form of a tool, without suspicious texts.

    Attributes:
        tool: The tool.
        suspicions: The reasons why its texts are flagged.
        terms: The terms of each field, in the order of `fields`.
        words: The lower-case words of the description.
        action: The word that begins both name and description.
        thing: The server and the name without its action. Tools with the same thing are twins.
        reads: Whether the tool only reads.
        outdated: Whether its description calls it deprecated.
    """

    tool: Tool
    suspicions: tuple[str, ...]
    terms: tuple[tuple[str, ...], ...]
    words: frozenset[str]
    action: str
    thing: tuple[str, ...]
    reads: bool
    outdated: bool

    @classmethod
    def of(cls, tool: Tool) -> "Document":
        """Read a tool."""
        reasons = suspicions(tool)
        if reasons:
            tool = cleaned(tool)
        thing, reads = thing_of(tool)
        terms = [tuple(field_terms(field, text)) for field, text in fields(tool)]
        return cls(
            tool=tool,
            suspicions=reasons,
            terms=tuple(terms),
            words=frozenset(_LOWER_WORD.findall(tool.description)),
            action=action_of(tool),
            thing=thing,
            reads=reads,
            outdated=is_outdated(tool),
        )


def is_outdated(tool: Tool) -> bool:
    """Return True if the tool's description marks the tool itself as deprecated."""
    return _DEPRECATED.search(tool.description) is not None


def deprecation_factor(
    documents: Sequence[Document], places: Mapping[str, slice]
) -> NDArray[np.float64] | None:
    """Return the factor for each tool's odds [tools], or None if no tool is deprecated.

    Args:
        documents: The documents.
        places: The positions of each server's tools.
    """
    factor = np.ones(len(documents))
    replaced = _replaced_keys(documents)
    for position, document in enumerate(documents):
        if document.tool.key in replaced:
            factor[position] = REPLACED
        elif document.outdated:
            server_documents = documents[places[document.tool.server]]
            factor[position] = REPLACED if _names_another(document, server_documents) else OUTDATED
    return factor if factor.min(initial=1) < 1 else None


def _replaced_keys(documents: Sequence[Document]) -> set[str]:
    """Return the keys that tools state to replace."""
    keys = set()
    for document in documents:
        keys |= {relation.to for relation in document.tool.relations if relation.replaces}
    return keys


def _names_another(document: Document, others: Sequence[Document]) -> bool:
    """Return True if a tool's description names another tool of its server."""
    words = set(re.findall(r"[\w.-]*\w", document.tool.description))
    words.discard(document.tool.name)
    return any(other.tool.name in words for other in others)


class Documents:
    """The documents of a catalogue's tools by position. Each is read once, on first use.

    Attributes:
        hashes: The hash of each tool's definition.
        known: The documents that were already read, by their tools' hashes.
        sizes: The tokens and the bytes of the definitions that were already counted, by their hashes.
        saved: Reads the documents in a file. Only the next version of the catalogue needs them.
    """

    def __init__(self, tools: Sequence[Tool], earlier: "Documents | None" = None) -> None:
        """Reuse an earlier catalogue's documents of these tools."""
        self._tools = tools
        self.hashes = [tool.hash for tool in tools]
        self.known: dict[str, Document] = {}
        self.sizes: dict[str, tuple[int, int]] = {}
        self.saved: Callable[[], Mapping[str, Document]] | None = None
        if earlier is None:
            return
        # Most changes of a catalogue touch few tools, and to read a tool's texts takes longest.
        documents = earlier.with_saved()
        for tool_hash in self.hashes:
            if tool_hash in documents:
                self.known[tool_hash] = documents[tool_hash]
            if tool_hash in earlier.sizes:
                self.sizes[tool_hash] = earlier.sizes[tool_hash]

    def with_saved(self) -> Mapping[str, Document]:
        """Return the documents that were already read, with those in a file."""
        if self.saved is not None:
            self.known = {**self.saved(), **self.known}
            self.saved = None
        return self.known

    def __getitem__(self, position: int) -> Document:
        tool = self._tools[position]
        if tool.hash not in self.known:
            self.known[tool.hash] = Document.of(tool)
        return self.known[tool.hash]

    def all(self) -> list[Document]:
        return [self[position] for position in range(len(self._tools))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The texts of a catalogue.

    Attributes:
        corpus: The terms of all fields.
        words: The lower-case words of all descriptions.
        actions: The actions that begin the names.
        suspicions: Reasons by position, for flagged tools.
        write_variants: True for each tool that may change something and has a twin that only reads [tools]. A task
            that only reads rarely means such a tool.
        deprecation_factor: The factor for each tool's odds [tools], or None if no tool is deprecated.
    """

    corpus: Corpus
    words: frozenset[str]
    actions: frozenset[str]
    suspicions: Mapping[int, tuple[str, ...]]
    write_variants: Mask
    deprecation_factor: NDArray[np.float64] | None

    @classmethod
    def of(cls, documents: Sequence[Document], places: Mapping[str, slice]) -> "Reading":
        """Read documents.

        Args:
            documents: The documents.
            places: The positions of each server's tools.
        """
        things_read = {document.thing for document in documents if document.reads}
        write_variants = np.zeros(len(documents), np.bool_)
        suspicions_by_position: dict[int, tuple[str, ...]] = {}
        words = set[str]()
        for position, document in enumerate(documents):
            words |= document.words
            write_variants[position] = not document.reads and document.thing in things_read
            if document.suspicions:
                suspicions_by_position[position] = document.suspicions
        return cls(
            corpus=Corpus.of([document.terms for document in documents], [*FIELD_WEIGHTS.values()]),
            words=frozenset(words),
            actions=frozenset(document.action for document in documents),
            suspicions=suspicions_by_position,
            write_variants=write_variants,
            deprecation_factor=deprecation_factor(documents, places),
        )
