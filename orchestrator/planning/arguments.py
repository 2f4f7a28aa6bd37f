"""Arguments that stand literally in a task's text. Nothing is guessed: what is not clearly there stays missing.

A value is taken where the text names the parameter (`limit 5`, `title "Plan"`, `unit=celsius`), where exactly one
thing of the parameter's kind stands in the text (a date, time, URL, e-mail address, time zone or path), where the
text states one of its listed values (`choices.py`), or where the one required string or number left has exactly one
candidate left.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.models import Tool
from orchestrator.planning.choices import Choice, choice_values
from orchestrator.planning.pieces import Piece, pieces
from orchestrator.schemas import UnusableSchema, faults, usable
from orchestrator.text import split_words, stem

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
    "path": {"path", "paths", "file", "files", "filename", "filepath", "folder", "dir", "directory"},
}
_FROM = {"from", "source", "src", "start", "begin", "origin", "old"}
_TO = {"to", "target", "destination", "dest", "end", "until", "new"}
_SAME_AS = {"name": {"called", "named"}, "title": {"called", "named"}, "query": {"for"}, "text": {"saying"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The values found, the required parameters that nothing was found for, and where each value came from."""

    values: dict[str, Any]
    missing: tuple[str, ...]
    notes: tuple[str, ...]


def extract(
    schema: Mapping[str, Any] | None,
    text: str,
    given: Mapping[str, Any] | None = None,
    nouns: frozenset[str] = frozenset(),
) -> Extraction:
    """The arguments for a tool's input schema out of a text; values that were given by name come first. `nouns`: the
    terms of what the tool is about (`nouns_of`)."""
    mended = usable(schema or {})
    properties, required = mended.get("properties", {}), mended.get("required", [])
    order = [name for name in required if name in properties] + [name for name in properties if name not in required]
    reader = _Reader(text, mended, nouns)
    for name, value in (given or {}).items():
        reader.take(name, coerce(value, _plain(properties.get(name))), "given")
    for rule in (reader.by_name, reader.by_kind, reader.by_choice, reader.by_being_the_only_one):
        for name in order:
            if name not in reader.values:
                rule(name)
    missing = tuple(name for name in required if name not in reader.values)
    return Extraction(values=reader.values, missing=missing, notes=tuple(reader.notes))


def given_for(step: str, tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the user gave for this step (`s1.name`), else for any step that has such a parameter (`name`)."""
    own = {name[len(step) + 1 :]: value for name, value in given.items() if name.startswith(f"{step}.")}
    return {**given_for_any(tool, given), **own}


def given_for_any(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the user gave for any step whose tool has such a parameter."""
    known = (tool.input_schema or {}).get("properties") or {}
    return {name: value for name, value in given.items() if name in known}


def coerce(value: Any, schema: Mapping[str, Any]) -> Any:
    """A value given as text (from a command line) as the schema's type, where the text reads as one."""
    if not isinstance(value, str) or schema.get("type") in ("string", None):
        return value
    if schema.get("type") == "array" and not value.lstrip().startswith("["):
        return [coerce(part.strip(), _plain(schema.get("items"))) for part in value.split(",")]
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


MAX_CHARS = 4_000
"""A longer text is a pasted document: what stands further on in it is not what was asked for."""


class _Reader:
    """One reading of one text for one schema; every piece is used at most once."""

    def __init__(self, text: str, schema: Mapping[str, Any], nouns: frozenset[str]) -> None:
        self._schema, self._nouns = schema, nouns
        self.properties = {name: _plain(part) for name, part in schema.get("properties", {}).items()}
        self.required: list[str] = schema.get("required", [])
        self.text = text = text[:MAX_CHARS]
        self.values: dict[str, Any] = {}
        self.notes: list[str] = []
        self._pieces = pieces(text)

    def take(self, name: str, value: Any, note: str) -> bool:
        """Keeps a value that fits the parameter's schema."""
        if not self._fits(name, value):
            if note == "given":
                self.values[name] = value  # the check before the call says what is wrong with it
            return False
        self.values[name] = value
        self.notes.append(f"{name}: {note}")
        return True

    def by_name(self, name: str) -> None:
        """`limit 5`, `limit=5`, `title "Plan"`, `titled "Plan"`, `unit: celsius`."""
        schema = self.properties[name]
        words = re.escape(name) + "|" + r"[\s_-]?".join(map(re.escape, split_plain(name)))
        match = re.search(rf"(?<!\w)(?:{words})\s*=\s*([^\s\"'`,;]+)", self.text, re.IGNORECASE)
        if match and self.take(name, _typed(match.group(1).rstrip("."), schema), "named in the text"):
            return
        own = set(split_plain(name)[-1:]) | _SAME_AS.get(split_plain(name)[-1], set())
        stems = {stem(word) or word for word in own}
        for piece in list(self._pieces):
            last = piece.before[-1] if piece.before else ""
            if piece.kind in _read_as(schema, name) and last and (stem(last) or last) in stems:
                if self.take(name, _typed(piece.value, schema), "named in the text"):
                    self._pieces.remove(piece)
                return

    def by_kind(self, name: str) -> None:
        """The one date, address, zone or path of the text, or the one that `from` or `to` points to."""
        kind = _kind(name, self.properties[name])
        if not kind:
            return
        found = [c for c in self._pieces if c.kind == kind]
        rivals = [n for n in self.properties if n in self.required and n not in self.values and n != name]
        alone = not any(_kind(rival, self.properties[rival]) == kind for rival in rivals)
        if self.properties[name].get("type") == "array":
            if found and name in self.required:
                self._take_all(name, found)
            return
        if len(found) > 1 or not alone:
            found = [c for c in found if _points_to(name, c)]
        if len(found) == 1 and (name in self.required or alone):
            self._take(name, found[0], f"the only {kind} in the text")

    def by_choice(self, name: str) -> None:
        """The listed value that the text states; for a required parameter else the only one that is in it at all."""
        values = choice_values(self.properties[name])
        if not values:
            return
        choice = Choice(
            name=split_plain(name),
            values=values,
            text=self.text,
            nouns=self._nouns,
            others={own: other for own, other in self.properties.items() if own != name},
            free=any(own not in self.values and _is_free(other, own) for own, other in self.properties.items()),
        )
        if value := choice.stated() or (choice.only() if name in self.required else None):
            self.take(name, value, "stated in the text")

    def by_being_the_only_one(self, name: str) -> None:
        """The one required number, or plain string, that is left, when the text has exactly one left."""
        kinds = _read_as(self.properties[name], name)
        if name not in self.required or not kinds:
            return
        left = [
            n
            for n in self.required
            if n not in self.values and set(_read_as(self.properties.get(n, {}), n)) & set(kinds)
        ]
        found = [c for c in self._pieces if c.kind in kinds]
        if self.properties[name].get("type") == "array" and left == [name] and found:
            self._take_all(name, found)
        elif left == [name] and len(found) == 1:
            self._take(name, found[0], f"the only {found[0].kind} value left in the text")

    def _fits(self, name: str, value: Any) -> bool:
        try:
            return not faults(self._schema, value, parameter=name)
        except UnusableSchema:
            return False

    def _take(self, name: str, piece: Piece, note: str) -> None:
        if self.take(name, _typed(piece.value, self.properties[name]), note):
            self._pieces.remove(piece)

    def _take_all(self, name: str, found: list[Piece]) -> None:
        items = _plain(self.properties[name].get("items"))
        if self.take(name, [_typed(c.value, items) for c in found], "all of its kind in the text"):
            self._pieces = [c for c in self._pieces if c not in found]


def split_plain(name: str) -> list[str]:
    """The words of a parameter's name: `maxResults` and `max_results` give max, results."""
    words = list(split_words(name.replace("_", " ").replace("-", " ")))
    whole = name.lower()
    return [word for word in words if word != whole or len(words) == 1] or [whole]


def _plain(schema: Any) -> dict[str, Any]:
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


def _kind(name: str, schema: Mapping[str, Any]) -> str:
    """The kind of text that a parameter takes, by its format, else by the words of its name; "" for any."""
    source = _plain(schema.get("items")) if schema.get("type") == "array" else schema
    if source.get("type") != "string" or "enum" in source:
        return ""
    if source.get("format") in _BY_FORMAT:
        return _BY_FORMAT[source["format"]]
    words = set(split_plain(name)) | {name.lower()}
    return next((kind for kind, names in _BY_NAME.items() if words & names), "")


def _read_as(schema: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The kinds of pieces that may become this parameter's value."""
    source = _plain(schema.get("items")) if schema.get("type") == "array" else schema
    if "enum" in source:
        return ()
    if source.get("type") in ("integer", "number"):
        return ("number",)
    if source.get("type") != "string":
        return ()
    kind = _kind(name, schema)
    return (kind, "quoted") if kind in ("", "path") else (kind,)


def _is_free(schema: Mapping[str, Any], name: str) -> bool:
    """Whether it takes any text."""
    return schema.get("type") == "string" and _kind(name, schema) == "" and "enum" not in schema


def _points_to(name: str, piece: Piece) -> bool:
    """Whether the word before the piece says what the parameter's name says: from and source, to and target."""
    words, before = set(split_plain(name)), set(piece.before[-1:])
    return bool((words & _FROM and before & {"from"}) or (words & _TO and before & {"to", "into", "in"}))


def _typed(value: str, schema: Mapping[str, Any]) -> Any:
    return value if schema.get("type") == "string" else coerce(value, schema)
