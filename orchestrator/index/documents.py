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
        found = suspicions(tool)
        tool = cleaned(tool) if found else tool
        thing, reads = thing_of(tool)
        return cls(
            tool=tool,
            suspicions=found,
            terms=tuple(tuple(field_terms(*field)) for field in fields(tool)),
            words=frozenset(_LOWER_WORD.findall(tool.description)),
            action=action_of(tool),
            thing=thing,
            reads=reads,
            outdated=is_outdated(tool),
        )


def is_outdated(tool: Tool) -> bool:
    """Return True if the tool's description marks the tool itself as deprecated."""
    return "e" in tool.description and _DEPRECATED.search(tool.description) is not None


def deprecation_factor(documents: Sequence[Document], places: Mapping[str, slice]) -> NDArray[np.float64] | None:
    """Return the factor for each tool's odds [tools], or None if no tool is deprecated.

    Args:
        places: The positions of each server's tools.
    """
    left = np.ones(len(documents))
    renamed = {own.to for document in documents for own in document.tool.relations if own.replaces}
    for place, document in enumerate(documents):
        if document.tool.key in renamed:
            left[place] = REPLACED
        elif document.outdated:
            said = frozenset(re.findall(r"[\w.-]*\w", document.tool.description)) - {document.tool.name}
            replaced = any(other.tool.name in said for other in documents[places[document.tool.server]])
            left[place] = REPLACED if replaced else OUTDATED
    return left if left.min(initial=1) < 1 else None
