"""Clauses: the parts of a task that each ask for something, its quotations, and its exclusions.

    Find flights to Rome. Book "a hotel" there, but don't call me.
    -> "Find flights to Rome", "Book "a hotel" there", and the exclusion "but don't call me"

Each sentence is a part, and so is a part behind an arrow. So is a part that begins with an action or a question after
"and", "&", "but" or "then". Quoted text is data. It is never split, and contains no instructions.

An exclusion begins with "without", or with "don't", "never" or "not" at the start of a part. It ends at the next pause,
or before "but" or "then". "Without X use Y" ends before "use". A task that is only "Don't hesitate to create a ticket"
excludes nothing: the action is behind "to".
"""

import re
import unicodedata
from collections.abc import Iterator

from orchestrator.index.intent import begins_action, known_actions
from orchestrator.index.text import terms

MAX_CUT = 4_000
"""The maximum number of characters of a task that is split into clauses. A longer text is a document."""
MAX_CLAUSES = 8
MIN_TERMS = 2
"""A task has at most MAX_CLAUSES parts: each is searched, and longer lists are data. A part with fewer terms than
MIN_TERMS says too little to be searched alone, so it stays with its neighbour."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]+")
_BLANKS = re.compile(r"[^\S\n]{2,}")
_GATEWAY_PREFIX = re.compile(
    r"(?i)\bmcp__\w*?toolroute\w*?__(?:(?:search|call_tool|read_result)\b)?"
)
"""The name by which clients call the gateway. It says nothing about the task."""

QUOTE = re.compile(
    r"```(?s:.*?)```|\"[^\"\n]+\"|“[^”]+”|„[^„“”]+[“”]|«[^»]+»|`[^`\n]+`|(?<!\w)'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w))+'(?!\w)"
)
_CUT = re.compile(
    r"(?i)(?P<end>[.!?;][\"'”’)]?\s+|\s*\n+\s*|[。！？；]\s*|\s*(?:->|=>|→)\s*)|[,，]?\s+(?:and\s+then|and|but|then|&)\s+|，"
)
"""Of 11,392 development tasks 25 are cut at "but". Their recall@5 rises from .749 to .782."""
_EXCLUSION_MARK = (
    r"(?:(?P<thing>\bwithout\b)"
    r"|(?:(?:\A|(?<=[,.;:!?(\n]))\W{0,3}|\b(?:and|but|then|please)\s+)"
    r"(?:please\s+)?(?:do\s+not|don['’]?t|never)\b(?!-|\s+forget\b)"
    r"|(?P<other>(?:\A|(?<=[,;:(])\s?)not\b(?!-|\s+only\b|\s*[,.;:!?\n])))"
)
"""Of 11,447 development tasks 45 have "without", and 15 have "don't" or "do not" at the start of a part."""
_EXCLUSION = re.compile(
    rf"(?i)(?P<mark>{_EXCLUSION_MARK})(?:(?!\s(?:but|then)\s)(?(thing)(?!\suse\s))(?:[^,.;:!?)\n]|[,.;:!?](?=[^\s\"'”’)])))*"
)
_FIRST_WORD = re.compile(r"\s*([a-z]+)", re.IGNORECASE)
_BEHIND_TO = re.compile(r"\bto\s+([a-z]+)", re.IGNORECASE)

_NEGATION = re.compile(
    r"(?i)(?<![\w-])(?:not(?!\s+only\b)|never|n(?:o|one|or|either|othing|obody)(?!\.?\s*[#\d])|don['’]?t|\w+n['’]t|avoid|without"
    r"|anything\s+but)(?![\w-])"
)
"""Words after which a plan takes nothing over, and after which a server is not wanted."""


def clean(query: str) -> str:
    """Return printable text: control characters and lone surrogates become spaces, runs of blanks one blank. NFC.

    Line ends stay, each as one line feed. The gateway's name before a tool's name is removed.
    """
    if "mcp__" in query:
        query = _GATEWAY_PREFIX.sub(" ", query)
    if not query.isprintable():
        query = _CONTROL.sub(" ", query.replace("\r\n", "\n"))
    text = _BLANKS.sub(" ", query)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return text.strip()


def is_too_long(query: str) -> bool:
    """Return True if a task is a long document. Its clauses and exclusions are not read."""
    return max(len(query), len(clean(query))) > MAX_CUT


def affirmed(text: str) -> str:
    """Return the text before the first negation, or all of it."""
    negation = _NEGATION.search(masked(text))
    return text[: negation.start()] if negation else text


def masked(text: str) -> str:
    """Return the text with a letter instead of each quoted character, so that positions are unchanged.

    A text that is a single quotation is returned unchanged, because it is the task itself.
    """
    if not any(mark in text for mark in ('"', "'", "`", "“", "„", "«")):
        return text
    unquoted = QUOTE.sub(lambda quote: "Q" * len(quote.group()), text)
    return unquoted if unquoted.strip("Q \n\t.") else text


def split_left_out(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the requested text, and each part that excludes something ("don't X", "without X").

    If the rest of the text has no terms, the whole text is returned as requested, with its parts.
    """
    if len(text) > MAX_CUT:
        return text, ()
    remaining = []
    left_out = []
    end = 0
    for start, next_end in exclusions(text):
        remaining.append(text[end:start])
        left_out.append(text[start:next_end].strip())
        end = next_end
    if not left_out:
        return text, ()
    requested = " ".join([*remaining, text[end:]]).strip(" ,.;:!?\n")
    return (requested if terms(requested) else text), tuple(left_out)


def exclusions(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a text that exclude something, in characters."""
    unquoted = masked(text)
    matches = list(_EXCLUSION.finditer(unquoted))
    # If something else is requested, the action is excluded: "List the files. Don't try hard to delete them".
    may_encourage = bool(matches) and not terms(_EXCLUSION.sub(" ", unquoted))
    for exclusion in matches:
        is_about_action = not exclusion["thing"] and not exclusion["other"]
        behind_mark = unquoted[exclusion.end("mark") : exclusion.end()]
        if not (may_encourage and is_about_action and _encourages(behind_mark)):
            yield exclusion.span()


def _encourages(text: str) -> bool:
    """Return True if the text behind "don't" asks for an action: "hesitate to create", "be afraid to delete"."""
    first_word = _FIRST_WORD.match(text)
    if first_word is None or first_word[1].lower() in known_actions():
        return False
    behind_to = _BEHIND_TO.search(text)
    return behind_to is not None and behind_to[1].lower() in known_actions()


def unmarked(part: str) -> str:
    """Return the thing or action that an excluding part names."""
    return re.sub(f"(?i){_EXCLUSION_MARK}", "", part, count=1)


def split_clauses(text: str, actions: frozenset[str]) -> list[str]:
    """Return the parts of a task: its sentences, cut again where an action or a question begins behind "and", "then".

    Fewer than two where nothing is worth a cut.

    Args:
        text: The task.
        actions: The words that begin an action.
    """
    if len(text) > MAX_CUT:
        return [text]
    parts: list[str] = []
    start = 0
    for end in _cuts(text, actions):
        if len(terms(text[start:end])) >= MIN_TERMS:
            parts.append(text[start:end])
            start = end
    last_part = text[start:]
    if len(terms(last_part)) >= MIN_TERMS:
        parts.append(last_part)
    elif parts:
        parts[-1] += last_part
    if len(parts) > MAX_CLAUSES:
        parts[MAX_CLAUSES - 1 :] = ["".join(parts[MAX_CLAUSES - 1 :])]
    return [_trimmed(part) for part in parts]


def _cuts(text: str, actions: frozenset[str]) -> Iterator[int]:
    """Yield the places where a sentence ends, or where an action begins behind "and" or "then"."""
    unquoted = masked(text)
    for cut in _CUT.finditer(unquoted):
        if cut["end"] or begins_action(unquoted[cut.end() :], actions):
            yield cut.end()


_JOINT = re.compile(r"(?i)(?:[\s,，;.!。]+|\b(?:and|but|then)|&|->|=>|→)+\Z")


def _trimmed(part: str) -> str:
    return _JOINT.sub("", part).strip(" ,.;!\n，。；")
