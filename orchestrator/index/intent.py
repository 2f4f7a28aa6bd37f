"""Intent: whether a tool is known to only read, and which words begin an action.

A word is an action when tools are named for it and described by it (`create_issue`: "Create a new issue"): in this
catalogue, or in public ones and labelled tasks (`orchestrator/data/actions.txt`, counted by
`python -m research.actions`). Only what reads is listed by hand, since approval rests on it.
"""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from orchestrator.index.text import STOP_WORDS, spaced, split_words, stem
from orchestrator.records.tool import Tool

READING_VERBS = frozenset("get list search find read show view display describe count lookup fetch retrieve".split())
"""A name that begins with one of these reads, unless its annotations say otherwise. The only list of its kind."""
QUESTIONS = frozenset("what who whose when where which why how".split())
_SECOND_ACTIONS = frozenset({"and", "or"})
"""A name that holds one of these says more than its first verb: `get_or_create_user`."""


def reads_only(tool: Tool) -> bool:
    """Return whether the tool is known to only read: by its annotations, its `read_only` label, or its name's verb.

    A hint or a label that says otherwise always wins. The label comes from the user's own catalogue; hints of a server
    that is not trusted are dropped before a tool is stored, except where they are stricter.
    """
    hints, label = tool.annotations, tool.labels.get("read_only", "").lower()
    if hints.read_only is False or hints.destructive or label in {"false", "no"}:
        return False
    words = name_words(tool)
    return (
        bool(hints.read_only)
        or label in {"true", "yes"}
        or (words[0] in READING_VERBS and _SECOND_ACTIONS.isdisjoint(words))
    )


def name_words(tool: Tool) -> list[str]:
    """Return the words of the tool's name in lower case, without its server's name in front; at least one."""
    words, prefix = spaced(tool.name).lower().split(), spaced(tool.server).lower().split()
    if prefix and words[: len(prefix)] == prefix:
        words = words[len(prefix) :]
    return words or [""]


def action_of(tool: Tool) -> str:
    """Return the first word of a tool's name where it is an action; "" where it is none.

    It is one where the description begins with it, too, or begins with a known action and the name has several words.
    """
    words, said = name_words(tool), stem(_first_word(tool.description))
    named = said and (said == stem(words[0]) or (len(words) > 1 and said in _known_stems()))
    return words[0] if named and stem(words[0]) else ""


def _first_word(text: str) -> str:
    return next(iter(text[:60].split(maxsplit=1)), "").lower().strip(".,:;")


@cache
def known_actions() -> frozenset[str]:
    """Return the words that begin an action whatever the catalogue."""
    text = (files("orchestrator") / "data" / "actions.txt").read_text(encoding="utf-8")
    return READING_VERBS | frozenset(text.split())


@cache
def _known_stems() -> frozenset[str]:
    return frozenset(map(stem, known_actions()))


READS, WRITES = 1, -1


def intents_of(tools: Iterable[Tool]) -> list[int]:
    """Return READS or WRITES for each tool that has a twin of the other kind, 0 for all others; [tools].

    Twins are tools of one server with names alike but for the action (`secret_get`, `secret_create`): only between them
    does the verb of a task decide.
    """
    groups: dict[tuple[str, tuple[str, ...]], set[int]] = {}
    own: list[tuple[tuple[str, tuple[str, ...]], int]] = []
    for tool in tools:
        words = name_words(tool)
        place = next((p for p in (0, -1) if words[p] in known_actions()), None)
        kind = READS if reads_only(tool) or (place is not None and words[place] in READING_VERBS) else WRITES
        rest = tuple(words if place is None else words[1:] if place == 0 else words[:-1])
        key = tool.server, rest
        own.append((key, kind))
        groups.setdefault(key, set()).add(kind)
    return [kind if len(groups[key]) > 1 else 0 for key, kind in own]


def intent_of_text(text: str, actions: frozenset[str]) -> int:
    """Return READS or WRITES by the first word of a text that is an action or a question; 0 for neither."""
    for word in split_words(text[:100]):
        if word in QUESTIONS or word in READING_VERBS:
            return READS
        if word not in STOP_WORDS:
            return WRITES if word in actions else 0
    return 0


def begins_action(text: str, actions: frozenset[str]) -> bool:
    """Return whether a text begins with an action or a question, after "please" and the like."""
    for word in split_words(text[:100]):
        if word in QUESTIONS or word in actions:
            return True
        if word not in STOP_WORDS:
            return False
    return False
