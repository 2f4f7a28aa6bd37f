"""Documents: the indexed data of one tool, which the tool's next catalogue reuses, and deprecation."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.flags import cleaned, suspicions
from orchestrator.index.intent import action_of, thing_of
from orchestrator.index.text import field_terms, fields
from orchestrator.records.tool import Tool

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
    """The searched form of a tool, without suspicious texts, which are listed in `suspicions`.

    `terms` are by field, in the order of `fields`. `words` are the lower-case words of the description. `action` is the
    word that begins both name and description. `thing` and `reads` identify twins.
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
    return "e" in tool.description and _DEPRECATED.search(tool.description) is not None


def deprecation_factor(
    documents: Sequence[Document], places: Mapping[str, slice]
) -> NDArray[np.float64] | None:
    """Return the factor for each tool's odds [tools], or None if no tool is deprecated.

    Args:
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
