"""The pieces of a text that may be a value: quoted texts, addresses, dates, times, time zones, paths, identifiers
("ch_3PqX", "PROJ-12"), numbers, and by their shape channels, handles, versions, repositories, phone numbers; one
word behind what it is the name of ("on branch main", "named launch"); and a message that stands behind a colon."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from orchestrator.index.text import STOP_WORDS
from orchestrator.language.handed import told_inline
from orchestrator.language.quoted import QUOTE, cited, reported

_STOP_WORD = "|".join(sorted(STOP_WORDS))
_KINDS: dict[str, re.Pattern[str]] = {
    "url": re.compile(r"\bhttps?://(?:\([^\s<>\"'`()]*\)|[^\s<>\"'`)]|(?<=\w)'(?=\w))+(?<![.,;:!?\]])"),
    "email": re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"),
    "datetime": re.compile(
        r"(?<![\w/.-])\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
        r"(?![\w/-]|\s?[AaPp]\.?[Mm]\b)"
    ),
    "date": re.compile(r"(?<![\w/.-])\d{4}-\d{2}-\d{2}(?![\w/-]|\.\w)"),
    "time": re.compile(
        r"(?<![\w:.+])(?<!UTC-)(?<!GMT-)(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\w:]|\.\d|\s?[AaPp]\.?[Mm]\b)"
    ),
    "zone": re.compile(
        r"\b(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc)"
        r"/[A-Za-z_+\-0-9]+(?:/[A-Za-z_]+)?\b|\b(?:UTC|GMT)\b(?![+-])"
    ),
    "path": re.compile(
        r"(?<![\w/.~\\])(?:[A-Za-z]:[\\/][\w.\-\\/]+|(?:~|\.{1,2})?/[\w.\-]+(?:/[\w.\-]+)*/?"
        r"|(?!(?:[EeIi]\.[EeGg]|[AaPp]\.[Mm])\b|[\w.-]+\.(?:com|edu|gov|net|org)\b)"
        r"(?:[\w\-]+/)*[\w\-]+(?:\.[\w\-]+)*\.[A-Za-z]\w{0,11}\b)(?<![.])"
    ),
    "phone": re.compile(r"(?<![\w.])(?:\+\d|0\d)[\d ()/-]{5,}\d(?![\w-])"),
    "channel": re.compile(r"(?<![\w#/&])#[A-Za-z][\w-]*"),
    "handle": re.compile(r"(?<![\w.@])@[A-Za-z]\w*(?![\w.-]*@)"),
    "version": re.compile(
        r"(?<![\w./@:=-])(?:v?\d+\.\d+\.\d+(?:-[\w.]*\w)?|v\d+\.\d+|(?:(?<=\bversion )|(?<=\bVersion ))\d+\.\d+)"
        r"(?![\w/-]|\.\d)"
    ),
    "repository": re.compile(
        r"(?:(?<=\bin )|(?<=\bof )|(?<=\bto )|(?<=\bon )|(?<=\bfor )|(?<=\brepo )|(?<=\bfrom )|(?<=\brepository ))"
        r"(?![A-Z]+/[A-Z]+\b)[A-Za-z][\w-]+/[A-Za-z][\w.-]*\w(?![\w/])"
    ),
    "identifier": re.compile(
        r"(?<![\w./@:=-])(?:[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}"
        r"|(?=[\w-]{1,80}(?<=\d))[A-Za-z][A-Za-z\d]*(?:[_-][A-Za-z\d]+)+"
        r"|(?=[\w-]{0,80}[A-Za-z])\d[A-Za-z\d]*(?:-[A-Za-z\d]+)+|\d{2,}-\d{3,}|[A-Z]{2,}(?:-[A-Z\d]+)+"
        r"|(?!\d+[A-Za-z]{1,3}\b)(?=[A-Za-z\d]{4,40}\b)(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z\d]+"
        r")(?![\w/@:-]|\.\w)"
    ),
    "slug": re.compile(r"(?<![\w./@:=-])[a-z]{2,}(?:-[a-z\d]{2,})+(?![\w/@:-]|\.\w)"),
    "word": re.compile(
        r"\b(?:called|named|(?:at|for|from|in|into|of|on|to|under)\s"
        r"(?:app|branch|bucket|channel|cluster|collection|container|database|deployment|environment|folder|job|namespace"
        rf"|pipeline|project|queue|region|room|service|workspace):?)\s(?!(?:{_STOP_WORD})(?![\w-]))"
        r"(?P<value>[A-Z][\w-]*(?:\s(?:(?:the|of|for)\s)?[A-Z][\w-]*){0,4}|[a-z][\w-]*\w)"
        rf"(?=\W*\Z|\s*[,.;!?)\n](?!\w)|\s(?:{_STOP_WORD})\b)"
    ),
    "number": re.compile(r"(?<![\w.,/:–—-])(?!(?<=\d\s)\d{3}\b)[-−]?\d+(?:\.\d+)?(?![\w/–—-]|:\S|[.,]\d|\s\d{3}\b)"),
}
"""In the order in which they claim their part of the text: a path inside a URL is no path."""
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?)"
)
_NUMBER_BEFORE = re.compile(rf"(?i)\b(?:minus|negative|{_MONTH}\.?(?:\s\d{{1,2}},?)?)\s\Z")
_NUMBER_BEHIND = re.compile(
    rf"(?i)\s(?:(?:of\s)?{_MONTH}|[ap]\.?m|o['’]clock|k|bn|mio|hundred|thousand|million|billion|trillion"
    r"|dozen|percentage points?)\b"
)
"""What stands at a number that is more than its digits: a day, a time, a large or negative number."""
_LEFT_OUT = re.compile(
    r"(?i)(?:(?:n['’]t|\b(?:not|never|nor))\s+(?!(?:forget|just|only)\b)(?:\w+\s+)?(?:(?:at|by|for|from|in|on|the|to|with)\s+){0,2}"
    r"|\b(?:besides|except|excluding|without|(?:all|any\w*|every\w*)(?: \w+)? but|(?:instead|rather|other) (?:of|than))"
    r"\s+(?:\w+\s+){0,2})\Z"
)
"""Before a piece: it is not the one that is wanted ("everybody but ann@example.org")."""
_MARK = re.compile(r"[,;!?)]|\.\s")
_NEAR = 60
MOST_OF_A_KIND = 50
"""A text with more is a table: none of them is the one that is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of the text: its kind, its value, where it stands, and the two words on each side, lower-case, up to a
    mark. A `quoted` one may be any text, besides."""

    kind: str
    value: str
    start: int
    end: int
    before: tuple[str, ...]
    behind: tuple[str, ...]
    quoted: bool = False


def pieces(text: str) -> list[Piece]:
    """Typed pieces of the text, but for what it leaves out and what it says that somebody else wrote; a quoted piece is
    of the kind that it is wholly made of, else plain `quoted`. What is told or passed on is a `message`."""
    told, quotes = told_inline(text), cited(text)
    others = [*reported(text), *quotes, *([told] if told else ())]
    found = (
        piece
        for piece in _all(text)
        if not _LEFT_OUT.search(text, max(0, piece.start - _NEAR), piece.start)
        and not any(start <= piece.start < end for start, end in others)
    )
    own = [_piece("message", text[slice(*told)].rstrip(), text, told)] if told else []
    own += [_piece("message", text[start + 1 : end - 1], text, (start, end), quoted=True) for start, end in quotes]
    return sorted([*found, *own], key=lambda piece: piece.start)


def _all(text: str) -> Iterator[Piece]:
    rest = text
    for match in islice(QUOTE.finditer(text), MOST_OF_A_KIND):
        value = match.group()[1:-1]
        kinds = (kind for kind, pattern in _KINDS.items() if kind != "word" and pattern.fullmatch(value))
        kind = next(kinds, "quoted")
        yield _piece("quoted" if kind == "number" else kind, value, text, match.span(), quoted=True)
        rest = _without(rest, match)
    for kind, pattern in _KINDS.items():
        for match in islice(pattern.finditer(rest), MOST_OF_A_KIND):
            if _is_wanted(kind, rest, match):
                place = match.span("value" if "value" in match.re.groupindex else 0)
                yield _piece(kind, text[slice(*place)].replace("−", "-").removeprefix("@"), text, place)
            rest = _without(rest, match)


def _without(text: str, match: re.Match[str]) -> str:
    return text[: match.start()] + " " * len(match.group()) + text[match.end() :]


def _is_wanted(kind: str, text: str, match: re.Match[str]) -> bool:
    """Whether a number is whole, and a word not told apart with what it names ("not in namespace prod")."""
    if kind == "word":
        return not _LEFT_OUT.search(text, max(0, match.start() - _NEAR), match.start())
    return kind != "number" or _is_whole(text, match)


def _is_whole(text: str, number: re.Match[str]) -> bool:
    """Whether a number says all by itself: "5", but not "5 million", "minus 5" and "5 May"."""
    before = _NUMBER_BEFORE.search(text, max(0, number.start() - _NEAR), number.start())
    return before is None and not _NUMBER_BEHIND.match(text, number.end())


def _piece(kind: str, value: str, text: str, place: tuple[int, int], *, quoted: bool = False) -> Piece:
    start, end = place
    before = re.findall(r"\w+", _MARK.split(text[max(0, start - _NEAR) : start])[-1].lower())
    behind = re.findall(r"\w+", _MARK.split(text[end : end + _NEAR].replace("%", " percent "))[0].lower())
    return Piece(
        kind=kind,
        value=value,
        start=start,
        end=end,
        before=tuple(before[-2:]),
        behind=tuple(behind[:2]),
        quoted=quoted,
    )
