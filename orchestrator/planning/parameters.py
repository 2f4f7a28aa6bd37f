"""What a tool's parameter takes, by its schema and by the words of its name."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from orchestrator.index.text import STOP_WORDS, spaced, split_words, stemmed
from orchestrator.language.verbs import ACTIONS
from orchestrator.planning.pieces import Piece

_BY_FORMAT = {
    "uri": "url",
    "url": "url",
    "email": "email",
    "date-time": "datetime",
    "date": "date",
    "time": "time",
    "path": "path",
    "file-path": "path",
    "directory-path": "path",
}
_BY_NAME = {
    "url": {"url", "uri", "link", "webpage"},
    "email": {"email", "mail", "recipient"},
    "zone": {"timezone", "tz", "zone"},
    "datetime": {"datetime", "timestamp"},
    "date": {"date", "day", "due", "deadline"},
    "time": {"time", "hour"},
    "path": {"path", "file", "filename", "filepath", "folder", "dir", "directory"},
}
_SHAPES = {
    **dict.fromkeys(("body", "comment", "content", "message", "text"), "message"),
    "channel": "channel",
    **dict.fromkeys(("handle", "username"), "handle"),
    **dict.fromkeys(("repo", "repository"), "repository"),
    **dict.fromkeys(("release", "tag", "version"), "version"),
    **dict.fromkeys(("mobile", "phone", "telephone"), "phone"),
}
"""What a text is known by that such a parameter takes, by the last word of its name but "name" and "number"."""
_SAYS_PHONE = re.compile(r"(?i)\bphone\b|E\.164|\+\d\d")
TEXTS = frozenset(
    """body caption comment content description details instruction message name note notes prompt purpose query
    question reason search subject summary task text title topic""".split()
)
"""Parameters that take words, and no name of a thing."""
_TAILS = frozenset(
    """address addresses after at before begin end from iso list local max min name on path start string to until utc
    value""".split()
)
"""What may stand behind such a word in a name: an `email_address` is one, an `email_subject` or a `file_id` is none."""
_IDENTIFIERS = frozenset("id ids identifier identifiers uuid".split())
_IDENTIFYING = _IDENTIFIERS | frozenset(("key", "number", "reference"))
_SAME_AS = {
    **dict.fromkeys(("name", "title"), ("called", "named")),
    **dict.fromkeys(("text", "body", "content", "message", "comment"), ("saying",)),
    **dict.fromkeys(("subject", "topic"), ("about",)),
    **dict.fromkeys(("author", "creator", "artist"), ("by",)),
    **dict.fromkeys(("origin", "source"), ("from",)),
    **dict.fromkeys(("assignee", "destination", "target"), ("to", "into")),
    "channel": ("in", "to"),
    "query": ("for",),
}
"""What stands before a value in place of the last word of a parameter's name."""
CALLED = (("called",), ("named",))
"""What stands between a thing and its name."""
_TWO_PARTS = re.compile(r"\d+\.\d+")
UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "millisecond"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "second"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "minute"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "hour"),
    **dict.fromkeys(("day", "days"), "day"),
    **dict.fromkeys(("week", "weeks", "weekly"), "week"),
    **dict.fromkeys(("month", "months"), "month"),
    **dict.fromkeys(("year", "years"), "year"),
    **dict.fromkeys(("percent", "percentage", "pct"), "percent"),
}
"""Units that a number has only for a parameter that says so: two hours are no two minutes."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a tool: its name and schema, without an optional null."""

    name: str
    schema: Mapping[str, Any]
    required: bool = False

    @cached_property
    def words(self) -> list[str]:
        """The words of its name: `maxResults` and `max_results` give max, results."""
        return spaced(self.name).lower().split() or [self.name]

    @cached_property
    def stems(self) -> list[str]:
        return [stemmed(word) for word in self.words]

    @cached_property
    def called(self) -> frozenset[str]:
        """The stems that stand for the last word of its name, that word's among them."""
        return frozenset({self.stems[-1], *map(stemmed, _SAME_AS.get(self.words[-1], ()))})

    @property
    def is_list(self) -> bool:
        return self.schema.get("type") == "array"

    @property
    def item(self) -> Mapping[str, Any]:
        """The schema of one value."""
        return plain(self.schema.get("items")) if self.is_list else self.schema

    @cached_property
    def kind(self) -> str:
        """The kind of text that it takes, by its format, else by the words of its name; "" for any, or for no text."""
        if self.item.get("type") != "string" or "enum" in self.item:
            return ""
        if self.item.get("format") in _BY_FORMAT:
            return _BY_FORMAT[self.item["format"]]
        words = " ".join(self.words).replace("date time", "datetime").replace("time zone", "timezone").split()
        found = ((_kind_of(word), words[place + 1 :]) for place, word in enumerate(words))
        return next((kind for kind, behind in found if kind and _TAILS.issuperset(behind)), "")

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The kinds of pieces that may become its value."""
        if "enum" in self.item:
            return ()
        if self.item.get("type") in ("integer", "number"):
            return ("number",)
        if self.item.get("type") != "string":
            return ()
        return (self.kind, "quoted") if self.kind in ("", "path") else (self.kind,)

    @cached_property
    def shape(self) -> str:
        """The kind of piece that it takes whose shape says what it is ("#general"); "" for none."""
        if "enum" in self.item or self.is_list:
            return ""
        words = [word for word in self.words if word not in ("name", "number")] or self.words
        whom = "email" if words == ["to"] else ""
        said = str(self.schema.get("description") or "")
        shape = _SHAPES.get(words[-1], "phone" if _SAYS_PHONE.search(said) else whom)
        return shape if self.item.get("type") == "string" or (shape == "phone" and "number" in self.reads) else ""

    def may_read(self, piece: Piece) -> bool:
        """Whether a piece may become its value, or one of its values; what is quoted may be any text."""
        if piece.kind == "slug":
            whole = not piece.behind or piece.behind[0] in STOP_WORDS  # No "location-based app".
            return (
                whole
                and self.required
                and self.is_free
                and self.shape in ("", "email")
                and TEXTS.isdisjoint(self.words)
            )
        if self.shape and piece.kind == self.shape:
            return True
        if piece.kind == "version" and "number" in self.reads and _TWO_PARTS.fullmatch(piece.value):
            return True
        if piece.kind == "word":
            return self.item.get("type") == "string" and "enum" not in self.item and self._is_called(piece)
        if piece.kind == "identifier" and not piece.quoted:
            return self.identifies or (self.is_free and self._stands_before(piece))
        if piece.quoted and TEXTS.isdisjoint(self.words) and self._is_no_name(piece):
            return False
        return piece.kind in self.reads or (piece.quoted and "quoted" in self.reads)

    def _stands_before(self, piece: Piece) -> bool:
        """Whether the word before a piece is the parameter's name: "charge ch_3PqX", and nothing describes `charge`; or
        the piece begins with it ("SKU-1001")."""
        before = (*piece.before[-1:], piece.value.partition("-")[0].lower())
        return any(stemmed(word) == self.stems[-1] for word in before) or self._is_called(piece)

    def _is_called(self, piece: Piece) -> bool:
        """Whether a word stands behind the parameter's name, "service api", "the service called api"; or it is a name,
        and something is "called launch"."""
        *_, name = [word for word in self.words if word != "name"] or self.words
        before = piece.before[-2:-1] if piece.before[-1:] in CALLED else piece.before[-1:]
        return before == (name,) or (name in ("name", "title") and piece.before[-1:] in CALLED)

    def _is_no_name(self, piece: Piece) -> bool:
        """Whether a piece is what somebody wrote, or an order: "delete a.txt" is no path, and of what says "restart
        deployment api" that is no `deployment`; or a sentence, which identifies nothing."""
        first, *more = piece.value.lower().split() or [""]
        named = self.kind == "path" or self.identifies or self.words[-1] in more
        orders = bool(more) and (first == "please" or (named and first in ACTIONS))
        return piece.kind == "message" or orders or (self.identifies and len(more) > 1)

    @cached_property
    def identifies(self) -> bool:
        """Whether it takes any text that identifies something, by its name or description."""
        said = split_words(str(self.schema.get("description") or ""))
        identifies = not _IDENTIFYING.isdisjoint(self.words) or not _IDENTIFIERS.isdisjoint(said)
        return self.is_free and identifies

    @property
    def is_free(self) -> bool:
        """Whether it takes any text."""
        return "quoted" in self.reads and not self.kind

    @cached_property
    def units(self) -> frozenset[str]:
        """The units that its name or description speaks of."""
        said = [*self.words, *split_words(str(self.schema.get("description") or "").replace("%", " percent "))]
        return frozenset(UNITS[word] for word in said if word in UNITS)


def parameters_of(schema: Mapping[str, Any]) -> dict[str, Parameter]:
    """The parameters of a tool's input schema, the required ones first."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    order = [name for name in required if name in properties] + [name for name in properties if name not in required]
    return {name: Parameter(name=name, schema=plain(properties[name]), required=name in required) for name in order}


def _kind_of(word: str) -> str:
    singular = word if word in ("days", "hours") else word.removesuffix("s")
    return next((kind for kind, names in _BY_NAME.items() if word in names or singular in names), "")


def plain(schema: Any) -> dict[str, Any]:
    """A parameter's schema with an optional null taken out of `anyOf` or of a list of types."""
    if not isinstance(schema, dict):
        return {}
    for key in ("anyOf", "oneOf"):
        real = [item for item in schema.get(key) or () if isinstance(item, dict) and item.get("type") != "null"]
        if len(real) == 1:
            return {**schema, **real[0]}
    types = schema.get("type")
    if isinstance(types, list):
        real_types = [item for item in types if item != "null"]
        return {**schema, "type": real_types[0]} if len(real_types) == 1 else {**schema, "type": None}
    return schema


def words_of(parameters: Iterable[Parameter]) -> set[str]:
    """The stems of all their names."""
    return {word for parameter in parameters for word in parameter.stems}
