"""Intent: tools that are known to only read, and the words that begin an action.

A word is an action when tools are named for it and described by it (`create_issue`: "Create a new issue"): in this
catalogue, or in public ones and labelled tasks (`orchestrator/data/actions.txt`, counted by
`python -m research.actions`). Only what reads is listed by hand, since approval rests on it.
"""

from functools import cache
from importlib.resources import files

from orchestrator.index.text import STOP_WORDS, spaced, split_words, stem, stemmed
from orchestrator.records.tool import Tool

READING_VERBS = frozenset("get list search find read show view display describe count lookup fetch retrieve".split())
"""A name that begins with one of these reads, unless its annotations say otherwise. The only list of its kind."""
QUESTIONS = frozenset("what who whose when where which why how".split())
_SECOND_ACTIONS = frozenset({"and", "or", "then"})
"""A name that holds one of these says more than its first verb: `get_or_create_user`."""
_GIVEN_BACK = ("return",)
"""What descriptions of reading tools begin with, and names of others do: "Returns the user", `return_order`."""


def reads_only(tool: Tool) -> bool:
    """Return whether the tool is known to only read: by its annotations, its `read_only` label, or its name's verb.

    A hint or a label that says otherwise always wins. The label comes from the user's own catalogue; hints of a server
    that is not trusted are dropped before a tool is stored, except where they are stricter.
    """
    hints, label = tool.annotations, tool.labels.get("read_only", "").lower()
    if hints.read_only is False or hints.destructive or label in {"false", "no"}:
        return False
    return bool(hints.read_only) or label in {"true", "yes"} or _named_for_reading(tool)


def _named_for_reading(tool: Tool) -> bool:
    """Return whether the name begins with a reading verb and holds no other action, and the description begins so, too.

    "list_delete" (Delete a list), "get_user" (Wipes the user) and, of a server `set`, "set_display" read nothing.
    Without a description the name alone decides.
    """
    words, whole = name_words(tool), spaced(tool.name).lower().split()
    if words[0] not in READING_VERBS or not _SECOND_ACTIONS.isdisjoint(words):
        return False
    others = {whole[0], *words[1:]}
    return others.isdisjoint(known_actions() - READING_VERBS) and _says_reading(
        tool.description, set(map(stem, words[1:]))
    )


def _says_reading(description: str, named: set[str]) -> bool:
    """Return whether a description is empty, or begins with reading alone and not with another word of the name."""
    said = [stemmed(word) for word in split_words(description[:60])][:3]
    if not said:
        return not description.strip()
    if said[0] in named or said[0] not in _reading_stems():
        return False
    return len(said) < 3 or said[1] not in _SECOND_ACTIONS or said[2] in _reading_stems()


@cache
def _reading_stems() -> frozenset[str]:
    return frozenset(map(stem, (*READING_VERBS, *_GIVEN_BACK)))


def name_words(tool: Tool) -> list[str]:
    """Return the words of the tool's name in lower case, without its server's name in front; at least one."""
    words, prefix = spaced(tool.name).lower().split(), spaced(tool.server).lower().split()
    if prefix and words[: len(prefix)] == prefix:
        words = words[len(prefix) :]
    return words or [""]


def action_of(tool: Tool) -> str:
    """Return the first word of a tool's name if it is an action, else "".

    It is one where the description begins with it, too, or begins with a known action and the name has several words.
    """
    words, said = name_words(tool), stem(_first_word(tool.description))
    named = said and (said == stem(words[0]) or (len(words) > 1 and said in action_stems()))
    return words[0] if named and stem(words[0]) else ""


def _first_word(text: str) -> str:
    return next(iter(text[:60].split(maxsplit=1)), "").lower().strip(".,:;")


@cache
def known_actions() -> frozenset[str]:
    """Return the words that begin an action whatever the catalogue."""
    text = (files("orchestrator") / "data" / "actions.txt").read_text(encoding="utf-8")
    return READING_VERBS | frozenset(text.split())


@cache
def action_stems() -> frozenset[str]:
    """Return the stems of the known actions."""
    return frozenset(map(stem, known_actions()))


def thing_of(tool: Tool) -> tuple[tuple[str, ...], bool]:
    """Return a tool's server and name without its action, and whether it only reads, by its verb at either end, too.

    Tools that share the first are twins (`secret_create`, `secret_get`).
    """
    words = name_words(tool)
    action = next((word for word in (words[0], words[-1]) if word in known_actions()), "")
    return (tool.server, *(word for word in words if word != action)), action in READING_VERBS or reads_only(tool)


def reads(text: str) -> bool:
    """Return whether a text begins with a reading verb or a question, after "please" and the like."""
    return begins_action(text, READING_VERBS)


def begins_action(text: str, actions: frozenset[str]) -> bool:
    """Return whether a text begins with an action or a question, after "please" and the like."""
    for word in split_words(text[:100]):
        if word in QUESTIONS or word in actions:
            return True
        if word not in STOP_WORDS:
            return False
    return False
