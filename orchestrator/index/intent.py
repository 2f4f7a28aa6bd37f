"""Intent: tools that are known to be read-only, and the words that begin an action.

A word is an action if tools of this catalogue are named and described by it (`create_issue`: "Create a new issue"). So
is a word of `data/actions.txt`, from public catalogues and labelled tasks (`python -m research.actions`). Only the
reading verbs are a hand-written list, because approval depends on them.
"""

from functools import cache
from importlib.resources import files

from orchestrator.index.text import STOP_WORDS, described, spaced, split_words, stem, stemmed
from orchestrator.records.tool import Tool

READING_VERBS = frozenset(
    "get list search find read show view display describe count lookup fetch retrieve".split()
)
"""A tool whose name begins with one of these verbs only reads, unless its annotations say the opposite. This is the
only such list."""
QUESTIONS = frozenset("what who whose when where which why how".split())
_SECOND_ACTIONS = frozenset({"and", "or", "then"})
"""A name with one of these words has a second action after its first verb: `get_or_create_user`."""
_GIVEN_BACK = ("return",)
"""Words at the start of descriptions of reading tools that have another meaning in names: "Returns the user", but
`return_order`."""


def reads_only(tool: Tool) -> bool:
    """Return True if the tool is known to be read-only, by its annotations, its `read_only` label, or its name's verb.

    A hint or label to the contrary takes precedence. The label comes from the user's own catalogue. Hints of an
    untrusted server are dropped before a tool is stored, unless they are stricter.
    """
    hints = tool.annotations
    label = tool.labels.get("read_only", "").lower()
    if hints.read_only is False or hints.destructive or label in {"false", "no"}:
        return False
    return bool(hints.read_only) or label in {"true", "yes"} or _named_for_reading(tool)


def _named_for_reading(tool: Tool) -> bool:
    """Return True if the name begins with a reading verb and contains no other action, and the description agrees.

    "list_delete" (Delete a list), "get_user" (Wipes the user) and "set_display" of the server `set` are not read-only.
    Without a description the name alone decides.
    """
    verb, *further_words = name_words(tool)
    if verb not in READING_VERBS or not _SECOND_ACTIONS.isdisjoint(further_words):
        return False
    first_word = spaced(tool.name).lower().split()[0]
    changing_actions = known_actions() - READING_VERBS
    if not changing_actions.isdisjoint([first_word, *further_words]):
        return False
    return _describes_reading(tool.description, {stem(word) for word in further_words})


def _describes_reading(description: str, name_stems: set[str]) -> bool:
    """Return True if a description is empty, or begins with a reading verb and no other word of the name."""
    stems = stemmed(split_words(description[:60]))
    if not stems:
        return not description.strip()
    if stems[0] in name_stems or stems[0] not in _reading_stems():
        return False
    has_second_action = len(stems) >= 3 and stems[1] in _SECOND_ACTIONS
    return not has_second_action or stems[2] in _reading_stems()


@cache
def _reading_stems() -> frozenset[str]:
    return frozenset(map(stem, (*READING_VERBS, *_GIVEN_BACK)))


def name_words(tool: Tool) -> list[str]:
    """Return the words of the tool's name in lower case, without its server's name at the start. At least one."""
    words = spaced(tool.name).lower().split()
    server_words = spaced(tool.server).lower().split()
    if server_words and words[: len(server_words)] == server_words:
        words = words[len(server_words) :]
    return words or [""]


def action_of(tool: Tool) -> str:
    """Return the first word of a tool's name if it is an action, otherwise "".

    It is an action if the description begins with it, too, or if the description begins with a known action and the
    name has several words.
    """
    verb, *others = name_words(tool)
    first_word = stem(_first_word(described(tool)))
    if not first_word or not stem(verb):
        return ""
    is_action = first_word == stem(verb) or (others and first_word in action_stems())
    return verb if is_action else ""


def _first_word(text: str) -> str:
    words = text[:60].split(maxsplit=1)
    return words[0].lower().strip(".,:;") if words else ""


@cache
def known_actions() -> frozenset[str]:
    """Return the words that begin an action in any catalogue."""
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
    actions = [word for word in (words[0], words[-1]) if word in known_actions()]
    action = actions[0] if actions else ""
    things = (word for word in words if word != action)
    return (tool.server, *things), action in READING_VERBS or reads_only(tool)


def reads(text: str) -> bool:
    """Return True if a text begins with a reading verb or a question, after "please" and similar words."""
    return begins_action(text, READING_VERBS)


def begins_action(text: str, actions: frozenset[str]) -> bool:
    """Return True if a text begins with an action or a question, after "please" and similar words."""
    for word in split_words(text[:100]):
        if word in QUESTIONS or word in actions:
            return True
        if word not in STOP_WORDS:
            return False
    return False
