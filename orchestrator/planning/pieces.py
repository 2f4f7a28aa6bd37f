"""The pieces of a text that may be a value: quoted texts, addresses, dates, times, time zones, paths, numbers."""

import re
from dataclasses import dataclass

from orchestrator.language.quoted import QUOTE

_KINDS: dict[str, re.Pattern[str]] = {
    "url": re.compile(r"\bhttps?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]]"),
    "email": re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"),
    "datetime": re.compile(r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?(?!\w)"),
    "date": re.compile(r"\b\d{4}-\d{2}-\d{2}\b"),
    "time": re.compile(r"\b(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?\b"),
    "zone": re.compile(
        r"\b(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc)"
        r"/[A-Za-z_+\-0-9]+(?:/[A-Za-z_]+)?\b|\bUTC\b|\bGMT\b"
    ),
    "path": re.compile(
        r"(?<![\w/.~])(?:(?:~|\.{1,2})?/[\w.\-]+(?:/[\w.\-]+)*/?|(?:[\w\-]+/)*[\w\-]+(?:\.[\w\-]+)*\.[A-Za-z]\w{0,5})(?<![.])"
    ),
    "number": re.compile(r"(?<![\w.,/:-])-?\d+(?:\.\d+)?(?![\w/:-]|[.,]\d)"),
}
"""In the order in which they claim their part of the text: a path inside a URL is no path."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the text: its kind, where it starts, its value, and the words just before it."""

    kind: str
    start: int
    value: str
    before: tuple[str, ...]


def pieces(text: str) -> list[Piece]:
    """Typed pieces of the text; a quoted piece is of the kind that it is wholly made of, else plain `quoted`."""
    found: list[Piece] = []
    rest = text
    for match in QUOTE.finditer(text):
        value = match.group()[1:-1]
        kind = next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(value)), "quoted")
        found.append(Piece("quoted" if kind == "number" else kind, match.start(), value, _before(text, match.start())))
        rest = rest[: match.start()] + " " * len(match.group()) + rest[match.end() :]
    for kind, pattern in _KINDS.items():
        for match in pattern.finditer(rest):
            found.append(Piece(kind, match.start(), match.group(), _before(text, match.start())))
            rest = rest[: match.start()] + " " * len(match.group()) + rest[match.end() :]
    return sorted(found, key=lambda piece: piece.start)


def _before(text: str, position: int) -> tuple[str, ...]:
    """The last two words before a position, lower-case."""
    return tuple(word.lower() for word in re.findall(r"\w+", text[max(0, position - 60) : position])[-2:])
