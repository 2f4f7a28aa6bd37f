"""The unread parts of a step's text: the values and words that no argument of its call has.

"list the invoices of more than 60 days"  aged_receivables {}    60, days
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from orchestrator.catalogue.export import parameters
from orchestrator.index.intent import action_stems
from orchestrator.index.text import terms
from orchestrator.pipeline.clauses import MAX_CUT
from orchestrator.planning.arguments import Parameter, blanked, pieces_of
from orchestrator.records.tool import Tool

_BETWEEN_CLAUSES = frozenset(". , ; : and then or".split())
"""Behind these, a word may begin an action."""


def unread(
    text: str, tool: Tool, arguments: Mapping[str, Any], replaced_names: Collection[str] = ()
) -> list[str]:
    """Return the values and the words of a text that no argument has, such as "60", "half" and "cancelled".

    Words that the tool's own definition has, and words that begin an action, are not about a single call.

    Args:
        text: The text.
        tool: The tool of the call.
        arguments: The call's arguments.
        replaced_names: The names of arguments that the caller gave in place of values in the text.
    """
    properties = parameters(tool)["properties"]
    replaced = [
        Parameter.of(name, properties[name]) for name in replaced_names if name in properties
    ]
    used = json.dumps(arguments, ensure_ascii=False, default=str)
    about_tool = f"{tool.key} {tool.title} {tool.description}".lower()
    words = text[:MAX_CUT]
    unused: dict[int, str] = {}
    for piece in pieces_of(words):
        words = blanked(words, piece.start, piece.end)
        is_used = piece.value in used or piece.value.lower() in about_tool
        if not is_used and not any(parameter.takes(piece) for parameter in replaced):
            unused[piece.start] = piece.value
    # An argument of the caller may stand for words that are no value.
    if not replaced_names:
        unused |= _unread_words(words, tool, used)
    in_order = [unused[start] for start in sorted(unused)]
    return list(dict.fromkeys(in_order))


def _unread_words(text: str, tool: Tool, used: str) -> dict[int, str]:
    """Return the words, by their position, that neither the tool's definition nor its arguments have."""
    words_of_tool = [
        *(tool.key, tool.title, tool.description, *tool.keywords),
        *parameters(tool)["properties"],
    ]
    read = {*terms(" ".join(words_of_tool)), *terms(used)}
    unused = {}
    begins_clause = True
    for match in re.finditer(r"[^\W\d_][\w'’-]*|[.,;:]", text):
        word = match.group().lower()
        if word in _BETWEEN_CLAUSES:
            begins_clause = True
        elif terms(word):
            is_action = begins_clause and action_stems().issuperset(terms(word))
            begins_clause = False
            if not is_action and not read.issuperset(terms(word)):
                unused[match.start()] = match.group()
    return unused
