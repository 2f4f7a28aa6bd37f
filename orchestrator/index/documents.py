"""Documents: what indexing reads of one tool, read once and kept for the tool's next catalogue."""

import re
from dataclasses import dataclass

from orchestrator.index.intent import action_of
from orchestrator.index.safety import cleaned, suspicions
from orchestrator.index.standing import is_outdated
from orchestrator.index.text import field_terms, fields
from orchestrator.records.tool import Tool

_LOWER_WORD = re.compile(r"(?<![\w.@/-])[a-z]{3,}(?![\w@/-])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A tool as it is searched.

    `tool` is without suspicious texts, `suspicions` say which and why; `terms` by field, in the order of `fields`;
    `words` in lower case, of its description; `action`: the word that its name and its description begin with.
    """

    tool: Tool
    suspicions: tuple[str, ...]
    terms: tuple[tuple[str, ...], ...]
    words: frozenset[str]
    action: str
    outdated: bool

    @classmethod
    def of(cls, tool: Tool) -> "Document":
        found = suspicions(tool)
        tool = cleaned(tool) if found else tool
        return cls(
            tool=tool,
            suspicions=found,
            terms=tuple(tuple(field_terms(*field)) for field in fields(tool)),
            words=frozenset(_LOWER_WORD.findall(tool.description)),
            action=action_of(tool),
            outdated=is_outdated(tool),
        )
