"""Arguments that are literally in a part of a task. Nothing is guessed: an unclear value stays missing.

A value comes from the caller or from the text. In the text it is one of these:

- a value next to the name of its parameter (`limit=5`, `order 4711`, `title "Plan"`)
- the only text of the parameter's form (a URL, an email address, a date, a path)
- the only listed value
- the only quoted text or number, if only one required parameter for it is left
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.schema import UnusableSchema, faults, gathered, usable
from orchestrator.index.text import spaced, stemmed
from orchestrator.pipeline.clauses import MAX_CUT, QUOTE
from orchestrator.records.tool import Tool

_FORMS: dict[str, re.Pattern[str]] = {
    "url": re.compile(r"\bhttps?://[^\s<>\"'`]+(?<![.,;:!?\])])"),
    "email": re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"),
    "datetime": re.compile(
        r"(?<![\w/.-])\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?(?![\w/-])"
    ),
    "date": re.compile(r"(?<![\w/.-])\d{4}-\d\d-\d\d(?![\w/-]|\.\w)"),
    "time": re.compile(r"(?<![\w:.+-])(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\w:]|\s?[AaPp]\.?[Mm]\b)"),
    "zone": re.compile(
        r"\b(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc)/[\w+/-]+|\bUTC\b"
    ),
    "path": re.compile(
        r"(?<![\w/.~\\])(?:(?:~|\.{1,2})?/[\w.-]+(?:/[\w.-]+)*/?|(?:[\w-]+/)*[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,7})\b(?!@)"
    ),
    "identifier": re.compile(
        r"(?<![\w./@:#&-])#[A-Za-z][\w-]*|(?<![\w./@:#-])#?(?=[\w-]*\d)(?=[\w-]*[A-Za-z_-])[A-Za-z\d]+(?:[_-][A-Za-z\d]+)*(?![\w/@:-]|\.\w)"
    ),
    "number": re.compile(r"(?<![\w.,/:–—-])[-−]?\d+(?:\.\d+)?(?![\w/–—%-]|:\S|[.,]\d)"),
}
"""The forms, in the order in which they claim their part of the text, because a path inside a URL is not a path."""
_BY_FORMAT = {"uri": "url", "url": "url", "email": "email", "date-time": "datetime", "date": "date", "time": "time"}
_BY_NAME = {
    "url": {"url", "uri", "link"},
    "email": {"email", "mail"},
    "zone": {"timezone", "tz", "zone"},
    "datetime": {"datetime", "timestamp"},
    "date": {"date", "day"},
    "time": {"time"},
    "path": {"path", "file", "filename", "filepath", "folder", "directory", "dir"},
}
_IDENTIFYING = frozenset("id ids key number name uuid ref reference".split())
"""Last words of a parameter's name that only state that it identifies a thing. `order_id` is about an order."""
WHOLE = frozenset("required anyOf oneOf allOf not if then else $ref dependentRequired minProperties".split())
"""Keywords with which a schema restricts all arguments together. The arguments known so far need not satisfy them."""
_MOST = 50
"""The maximum number of pieces of one form. A text with more is a table, and no piece in it is clearly meant."""
_BETWEEN = frozenset(": = # is to number id named called titled".split())
"""Words that may be between a parameter's name and its value. Before a number, "of" is also allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The values that were found, the required parameters without a value, and the origin of each value."""

    values: dict[str, Any]
    missing: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text that may be a value.

    Attributes:
        form: The form, such as `url` or `number`.
        value: The value.
        start: The position of its first character in the text.
        end: The position after its last character.
    """

    form: str
    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a tool.

    Attributes:
        name: The name.
        words: The words of the name, in lower case.
        type: The JSON type.
        form: The form of text that it takes. Empty: any.
        listed: The values that the schema lists.
    """

    name: str
    words: tuple[str, ...]
    type: str
    form: str
    listed: tuple[str, ...]

    @classmethod
    def of(cls, name: str, schema: Mapping[str, Any]) -> "Parameter":
        schema = plain(schema)
        words = tuple(spaced(name).lower().split()) or (name,)
        kind = schema.get("type") if isinstance(schema.get("type"), str) else ""
        listed = tuple(value for value in schema.get("enum") or () if isinstance(value, str))
        form = _BY_FORMAT.get(str(schema.get("format")), "")
        if not form and kind == "string" and not listed:
            joined = " ".join(words).replace("date time", "datetime").replace("time zone", "timezone").split()
            form = next((form for form, names in _BY_NAME.items() if joined[-1] in names), "")
        return cls(name, words, str(kind), form, listed)

    @property
    def thing(self) -> tuple[str, ...]:
        """The stems of the thing that it is about. `order_id` is about an order, `title` about a title."""
        kept = [word for word in self.words if word not in _IDENTIFYING] or list(self.words)
        return tuple(map(stemmed, kept))

    def takes(self, piece: Piece) -> bool:
        """Return True if the parameter may take a piece of this form."""
        if self.listed:
            return False
        if self.type in ("integer", "number"):
            return piece.form == "number"
        return self.type == "string" and (not self.form or piece.form == self.form)


def extract(schema: Mapping[str, Any] | None, text: str, given: Mapping[str, Any] | None = None) -> Extraction:
    """Return the arguments for a tool's input schema from a text.

    Args:
        schema: The input schema.
        text: The text.
        given: Arguments by name. They take precedence over the text.
    """
    mended = usable(gathered(schema or {}))
    properties, required = mended.get("properties", {}), mended.get("required", [])
    names = dict.fromkeys(name for name in (*required, *properties) if name in properties)
    taken = [Parameter.of(name, properties[name]) for name in names]
    values = {name: coerce(value, plain(properties.get(name))) for name, value in (given or {}).items()}
    notes = dict.fromkeys(values, "given")
    pieces = list(_pieces(text[:MAX_CUT]))

    def take(parameter: Parameter, value: Any, note: str, piece: Piece | None = None) -> None:
        if parameter.name not in values and _fits(mended, parameter.name, value):
            values[parameter.name], notes[parameter.name] = value, note
            if piece in pieces:
                pieces.remove(piece)

    for parameter in taken:
        if parameter.name not in values and (found := _named(parameter, text[:MAX_CUT], pieces)):
            take(parameter, coerce(found.value, properties[parameter.name]), "named in the text", found)
    for parameter in taken:
        if len(said := _stated(parameter, text[:MAX_CUT], required=parameter.name in required)) == 1:
            take(parameter, said[0], "stated in the text")
    for parameter in sorted(taken, key=lambda parameter: not parameter.form):
        left = [other for other in taken if other.name in required and other.name not in values]
        if piece := _only_left(parameter, left, pieces):
            take(
                parameter, coerce(piece.value, properties[parameter.name]), f"the only {piece.form} in the text", piece
            )
    missing = tuple(name for name in required if name not in values)
    return Extraction(values=values, missing=missing, notes=tuple(f"{name}: {note}" for name, note in notes.items()))


def unread(text: str, tool: Tool, arguments: Mapping[str, Any], given: Collection[str] = ()) -> list[str]:
    """Return the values in a text that no argument has: numbers, quotations, dates, paths and the like.

    Values that the tool's own name or description has are not about a call.

    Args:
        text: The text.
        tool: The tool of the call.
        arguments: The call's arguments.
        given: The names of arguments that the caller gave in place of values in the text.
    """
    properties = parameters(tool)["properties"]
    replaced = [Parameter.of(name, properties[name]) for name in given if name in properties]
    used = json.dumps(arguments, ensure_ascii=False, default=str)
    about_tool = f"{tool.key} {tool.title} {tool.description}".lower()
    values = []
    for piece in _pieces(text[:MAX_CUT]):
        is_read = piece.value in used or any(parameter.takes(piece) for parameter in replaced)
        if not is_read and piece.value.lower() not in about_tool and piece.value not in values:
            values.append(piece.value)
    return values


def given_for(step: str, tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the caller's arguments for a step: those for this step (`s1.name`), and those that any step may take
    (`name`).

    Args:
        step: The id of the step.
        tool: Its tool.
        given: The caller's arguments.
    """
    known = parameters(tool)["properties"]
    own = {name[len(step) + 1 :]: value for name, value in given.items() if name.startswith(f"{step}.")}
    return {**{name: value for name, value in given.items() if name in known}, **own}


def coerce(value: Any, schema: Mapping[str, Any]) -> Any:
    """Convert a text, for example from a command line, to the schema's type. If it cannot be converted, return it."""
    schema = plain(schema)
    if not isinstance(value, str) or schema.get("type") in ("string", None):
        return value
    if schema.get("type") == "array" and not value.lstrip().startswith("["):
        return [coerce(part.strip(), schema.get("items") or {}) for part in value.split(",")]
    try:
        return json.loads(value.replace("−", "-"))
    except json.JSONDecodeError:
        return value


def plain(schema: Any) -> dict[str, Any]:
    """Return a parameter's schema without an optional null in `anyOf` or in a list of types."""
    if not isinstance(schema, dict):
        return {}
    for key in ("anyOf", "oneOf"):
        real = [item for item in schema.get(key) or () if isinstance(item, dict) and item.get("type") != "null"]
        if len(real) == 1:
            return {**schema, **real[0]}
    types = schema.get("type")
    if isinstance(types, list):
        real_types = [item for item in types if item != "null"]
        return {**schema, "type": real_types[0] if len(real_types) == 1 else None}
    return schema


def _pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces that may be values. Each position is used once, and a quotation has the form of its whole
    content.
    """
    rest = text
    for found in islice(QUOTE.finditer(text), _MOST):
        value = found.group().strip("`\"'“”„«»")
        forms = (form for form, pattern in _FORMS.items() if form != "number" and pattern.fullmatch(value))
        yield Piece(next(forms, "quoted text"), value, *found.span())
        rest = _without(rest, found)
    for form, pattern in _FORMS.items():
        matches = list(islice(pattern.finditer(rest), _MOST))
        for found in matches:
            yield Piece(form, re.sub(r"\A#(?=\d)", "", found.group()), *found.span())
            rest = _without(rest, found)


def _without(text: str, found: re.Match[str]) -> str:
    return f"{text[: found.start()]}{' ' * len(found.group())}{text[found.end() :]}"


def _named(parameter: Parameter, text: str, pieces: list[Piece]) -> Piece | None:
    """Return the only piece directly after the parameter's name, or the value of `name=value`."""
    written = re.search(rf"(?<![\w.-]){re.escape(parameter.name)}\s*[=:]\s*([^\s\"'`,;]+)", text)
    if written and not any(piece.start < written.start() < piece.end for piece in pieces):
        inside = next((piece for piece in pieces if piece.start == written.start(1)), None)
        return inside or Piece("text", written[1].rstrip(".)"), *written.span(1))
    found = [piece for piece in pieces if parameter.takes(piece) and _stands_behind(parameter, text, piece)]
    return found[0] if len({piece.value for piece in found}) == 1 and not _listed(found[0], pieces, text) else None


def _listed(piece: Piece, pieces: list[Piece], text: str) -> bool:
    """Return True if another piece of the same form follows, as in "1001, 1002" or "1001 and 1002". Both cannot be
    meant.
    """
    behind = (text[piece.end : other.start] for other in pieces if other.form == piece.form and other.start > piece.end)
    return any(gap.strip(" ,") in ("", "&", "and", "or") for gap in behind)


def _stands_behind(parameter: Parameter, text: str, piece: Piece) -> bool:
    before = re.findall(r"\w+|[^\w\s]", text[max(0, piece.start - 60) : piece.start].lower())
    between = _BETWEEN | {"of"} if piece.form == "number" else _BETWEEN
    while before and before[-1] in between and before[-1] not in parameter.words:
        before.pop()
    return tuple(map(stemmed, before[-len(parameter.thing) :])) == parameter.thing


def _stated(parameter: Parameter, text: str, *, required: bool) -> list[str]:
    """Return the listed values that are separate words in the text. An optional parameter needs its name next to the
    value.
    """
    said = QUOTE.sub(lambda quote: " " * len(quote.group()), text)
    found = []
    for value in parameter.listed:
        form = r"[\s_-]".join(map(re.escape, re.split(r"[\s_-]+", value)))
        near = "|".join(map(re.escape, parameter.words))
        at_name = rf"(?:\b(?:{near})\W{{1,3}}(?:(?:is|to)\W)?{form}|{form}\W{{1,3}}(?:{near}))\b"
        if re.search(rf"(?i)(?<![\w-]){form}(?![\w-])" if required else rf"(?i)(?<![\w-]){at_name}", said):
            found.append(value)
    return found


def _compete(one: Parameter, other: Parameter) -> bool:
    """Return True if a piece may belong to either parameter."""
    numbers = ("integer", "number")
    if one.listed or other.listed or (one.type in numbers) != (other.type in numbers):
        return False
    return one.form == other.form


def _only_left(parameter: Parameter, left: Sequence[Parameter], pieces: Sequence[Piece]) -> Piece | None:
    """Return the only remaining piece that can belong to only this parameter: a piece of its form, a quotation, or a
    number.

    Args:
        parameter: The parameter.
        left: The required parameters without a value.
        pieces: The pieces without a parameter.
    """
    if parameter not in left or any(_compete(parameter, other) for other in left if other is not parameter):
        return None
    numeric = any(other.type in ("integer", "number") for other in left if other is not parameter)
    taken = [p for p in pieces if parameter.takes(p) and not (numeric and p.form == "number")]
    fitting = taken if parameter.form else [piece for piece in taken if piece.form in ("quoted text", "number")]
    if parameter.form == "path" and not fitting:
        fitting = [piece for piece in pieces if piece.form == "quoted text"]
    return fitting[0] if len(fitting) == 1 else None


def _fits(schema: Mapping[str, Any], name: str, value: Any) -> bool:
    try:
        return not faults(schema, value, parameter=name)
    except UnusableSchema:
        return False
