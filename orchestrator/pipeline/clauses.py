"""Clauses: the parts of a task that each ask for something, its quotations, and its exclusions.

Each sentence is a part, and so is a part that begins with an action or a question after "and" or "then". Quoted text is
data. It is never split, and contains no instructions.
"""

import re
import unicodedata

from orchestrator.index.intent import begins_action
from orchestrator.index.text import terms

MAX_CUT = 4_000
"""The maximum number of characters of a task that is split into clauses. A longer text is a document."""
MAX_CLAUSES = 8
MIN_TERMS = 2

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]+")
_BLANKS = re.compile(r"[^\S\n]{2,}")

QUOTE = re.compile(
    r"```(?s:.*?)```|\"[^\"\n]+\"|“[^”]+”|„[^„“”]+[“”]|«[^»]+»|`[^`\n]+`|(?<!\w)'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w))+'(?!\w)"
)
_CUT = re.compile(
    r"(?i)(?P<end>[.!?;][\"'”’)]?\s+|\s*\n+\s*|[。！？；]\s*|\s*(?:->|=>|→)\s*)|[,，]?\s+(?:and\s+then|and|then|&)\s+|，"
)
_MARK = (
    r"(?i:(?:(?:\A|(?<=[,.;:!?(\n]))\W{0,3}|\b(?:and|but|then|please)\s+)"
    r"(?:please\s+)?(?:do\s+not|don['’]?t|never|avoid)\b(?!-|\s+forget\b)|(?:\A|(?<=[,;:(])\s?)not?\b(?!-)"
    r"|(?P<thing>\b(?:without|instead\s+of|except|excluding|nicht|kein\w*|ohne)\b))"
)
"""Words that begin an exclusion. "don't forget" (5 of 10,231 development tasks) is not an exclusion."""
_LEFT_OUT = re.compile(
    rf"{_MARK}(?i:(?:(?!\s(?:but|then)\s)(?(thing)(?!\suse\s))(?:[^,.;:!?)\n]|[,.;:!?](?=[^\s\"'”’)])))*)"
)


_NEGATION = re.compile(
    r"(?i)(?<![\w-])(?:not(?!\s+only\b)|nor|never|none|no(?:body|thing)?(?!\.?\s*[#\d])|don['’]?t|\w+n['’]t|neither|without|instead\s+of"
    r"|(?:any|every)thing\s+but|except|excluding|nicht\w*|niemals|kein\w*|ohne)(?![\w-])"
)


def clean(query: str) -> str:
    """Return printable text: control characters and lone surrogates become spaces, runs of blanks one blank. NFC.

    Line ends stay, each as one line feed.
    """
    text = _BLANKS.sub(" ", query if query.isprintable() else _CONTROL.sub(" ", query.replace("\r\n", "\n")))
    return text.strip() if text.isascii() else unicodedata.normalize("NFC", text).strip()


def is_too_long(query: str) -> bool:
    """Return True if a task is a long document. Its clauses and exclusions are not read."""
    return max(len(query), len(clean(query))) > MAX_CUT


def affirmed(text: str) -> str:
    """Return the text before the first negation, or all of it."""
    found = _NEGATION.search(masked(text))
    return text[: found.start()] if found else text


def masked(text: str) -> str:
    """Return the text with a letter instead of each quoted character, so that positions are unchanged.

    A text that is a single quotation is returned unchanged, because it is the task itself.
    """
    if not any(mark in text for mark in "\"'`“„«"):
        return text
    said = QUOTE.sub(lambda found: "Q" * len(found.group()), text)
    return said if said.strip("Q \n\t.") else text


def split_left_out(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the requested text, and each part that excludes something ("don't X", "without X", "nicht X").

    If nothing else is left, the whole text is returned as requested, with its parts.
    """
    if len(text) > MAX_CUT:
        return text, ()
    spans = left_out_spans(text)
    if not spans:
        return text, ()
    kept, past = "", 0
    for start, end in spans:
        kept, past = kept + text[past:start] + " ", end
    kept = (kept + text[past:]).strip(" ,.;:!?\n")
    said = tuple(text[start:end].strip() for start, end in spans)
    return (kept if terms(kept) else text), said


def left_out_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of a text that exclude something, in characters."""
    return [found.span() for found in _LEFT_OUT.finditer(masked(text))]


def unmarked(part: str) -> str:
    """Return the thing or action that an excluding part names."""
    return re.sub(_MARK, "", part, count=1)


def split_clauses(text: str, actions: frozenset[str]) -> list[str]:
    """Return the parts of a task: its sentences, cut again where an action or a question begins behind "and", "then".

    Fewer than two where nothing is worth a cut. actions: the words that begin one.
    """
    said = masked(text)
    if len(text) > MAX_CUT:
        return [text]
    cuts = [cut.end() for cut in _CUT.finditer(said) if cut["end"] or begins_action(said[cut.end() :], actions)]
    spans: list[tuple[int, int]] = []
    start = 0
    for end in (*cuts, len(text)):
        if len(terms(text[start:end])) >= MIN_TERMS:
            spans.append((start, end))
            start = end
        elif end == len(text) and spans:
            spans[-1] = (spans[-1][0], end)
    if len(spans) > MAX_CLAUSES:
        spans[MAX_CLAUSES - 1 :] = [(spans[MAX_CLAUSES - 1][0], spans[-1][1])]
    return [_trimmed(text[start:end]) for start, end in spans]


_JOINT = re.compile(r"(?i)(?:[\s,，;.!。]+|\b(?:and|then)|&|->|=>|→)+\Z")


def _trimmed(part: str) -> str:
    return _JOINT.sub("", part).strip(" ,.;!\n，。；")
