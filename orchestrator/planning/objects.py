"""Objects: the things that one clause asks to read, each with a tool of its own.

    Get the channel clips and the channel details
    -> "Get the channel clips" for `get_channel_clips`, "get the channel details" for `get_channel_details`

A comma or "and" parts them. A tool has an object if all words of its name, without the action, are in that object.
Only tools that read have objects. Of lists for other tools, most name parts of one thing ("a card with a title and a
label"), so more than half of the further steps would be wrong.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.index.intent import action_of, begins_action, known_actions, reads_only, thing_of
from orchestrator.index.text import sentences, stem, terms
from orchestrator.pipeline.clauses import affirmed, masked
from orchestrator.records.tool import Match, Tool

LEAST = 0.1
"""The least probability of a tool with an object of its own. Of 10,390 development tasks 18 have such tools, and 22 of
the 24 further tools are right. With 0, 21 of 28 are."""
_BETWEEN = re.compile(r"(?i)\s*[,，]\s*(?:and\s+)?|\s+and\s+")


@dataclass(frozen=True, slots=True)
class Object:
    """A thing that a clause asks for.

    Attributes:
        text: The clause with this object only.
        match: The tool that is named for it.
    """

    text: str
    match: Match


def objects_of(clause: str, bound: Match, matches: Sequence[Match]) -> list[Object]:
    """Return the objects of the first sentence that names this match and others of its server that only read.

    Args:
        clause: The text of the clause.
        bound: The match that the clause is bound to.
        matches: The matches to choose from.
    """
    if not reads_only(bound.tool):
        return []
    sisters = [match for match in matches if _is_sister(match.tool, bound.tool)]
    sisters = [match for match in sisters if match.probability >= LEAST]
    for sentence in sentences(clause):
        objects = list(_named_in(clause, sentence, sisters))
        keys = {item.match.tool.key for item in objects}
        if bound.tool.key in keys and len(keys) > 1:
            return objects
    return []


def _is_sister(tool: Tool, bound: Tool) -> bool:
    return tool.server == bound.server and reads_only(tool)


def _named_in(clause: str, sentence: str, sisters: Sequence[Match]) -> Iterator[Object]:
    """Yield each object of a sentence that names a tool, with the tool that has most words of it."""
    start = 0
    unquoted = masked(sentence)
    for end, next_start in _gaps(unquoted):
        named = _named(unquoted[start:end], sisters)
        if named is not None:
            text = _with_action(sentence[start:end], named.tool)
            yield Object(clause.replace(sentence, text, 1), named)
        start = next_start


def _gaps(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of what stands between the objects, and the end of the text."""
    for between in _BETWEEN.finditer(text):
        yield between.start(), between.end()
    yield len(text), len(text)


def _named(text: str, sisters: Sequence[Match]) -> Match | None:
    words = frozenset(terms(affirmed(text)))
    named = [match for match in sisters if words.issuperset(_thing(match.tool))]
    return max(named, key=_words_and_probability, default=None)


def _words_and_probability(match: Match) -> tuple[int, float]:
    return len(_thing(match.tool)), match.probability


def _thing(tool: Tool) -> frozenset[str]:
    """Return the stems of a tool's name without its action. A name that is only an action is its own thing."""
    (_, *words), _ = thing_of(tool)
    return frozenset(filter(None, map(stem, words))) or frozenset((tool.name,))


def _with_action(text: str, tool: Tool) -> str:
    """Return an object's text behind the tool's action, if it begins with none."""
    action = action_of(tool)
    if begins_action(text, known_actions() | {action}):
        return text
    return f"{action} {text}".strip()
