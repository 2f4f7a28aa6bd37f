"""Arguments that are literally in a part of a task. Nothing is guessed: an unclear value stays missing.

A value comes from the caller or from the text. In the text it is one of these:

- a value next to the name of its parameter (`limit=5`, `order 4711`, `title "Plan"`)
- the only text of the parameter's form (a URL, an email address, a date, a path)
- the only listed value
- the only quoted text or number, if only one required parameter for it is left
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.resolve import check_arguments
from orchestrator.catalogue.schema import gathered, hoisted
from orchestrator.catalogue.schema_checks import UnusableSchema, faults
from orchestrator.catalogue.schema_keywords import usable
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
    "time": re.compile(
        r"(?<![\w:.+-])(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\w:]|\s?[AaPp]\.?[Mm]\b)"
    ),
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
_BY_FORMAT = {
    "uri": "url",
    "url": "url",
    "email": "email",
    "date-time": "datetime",
    "date": "date",
    "time": "time",
}
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
_JOINT_KEYWORDS = frozenset(
    "required anyOf oneOf allOf not if then else $ref dependentRequired minProperties".split()
)
"""Keywords with which a schema restricts all arguments together."""
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
        """Read a parameter from its part of an input schema."""
        schema = plain(schema)
        words = tuple(spaced(name).lower().split()) or (name,)
        json_type = schema.get("type")
        if not isinstance(json_type, str):
            json_type = ""
        choices = schema.get("enum") or ()
        listed = tuple(choice for choice in choices if isinstance(choice, str))
        format_name = str(schema.get("format"))
        form = _BY_FORMAT.get(format_name, "")
        if not form and json_type == "string" and not listed:
            form = _form_by_name(words)
        return cls(name, words, json_type, form, listed)

    @property
    def thing(self) -> tuple[str, ...]:
        """The stems of the thing that it is about. `order_id` is about an order, `title` about a title."""
        kept = [word for word in self.words if word not in _IDENTIFYING] or list(self.words)
        return tuple(stemmed(kept))

    @property
    def is_numeric(self) -> bool:
        return self.type in ("integer", "number")

    def takes(self, piece: Piece) -> bool:
        """Return True if the parameter may take a piece of this form."""
        if self.listed:
            return False
        if self.is_numeric:
            return piece.form == "number"
        return self.type == "string" and (not self.form or piece.form == self.form)


def _form_by_name(words: Sequence[str]) -> str:
    """Return the form that belongs to the last word of a parameter's name. Empty: any."""
    joined = " ".join(words).replace("date time", "datetime").replace("time zone", "timezone")
    last_word = joined.split()[-1]
    for form, names in _BY_NAME.items():
        if last_word in names:
            return form
    return ""


def extract(
    schema: Mapping[str, Any] | None, text: str, given: Mapping[str, Any] | None = None
) -> Extraction:
    """Return the arguments for a tool's input schema from a text.

    Args:
        schema: The input schema.
        text: The text.
        given: Arguments by name. They take precedence over the text.
    """
    search = _Search(schema or {}, text[:MAX_CUT], given or {})
    search.take_named()
    search.take_listed()
    search.take_only_left()
    return Extraction(
        values=search.values,
        missing=tuple(search.missing()),
        notes=tuple(f"{name}: {note}" for name, note in search.notes.items()),
    )


class _Search:
    """The search for one tool's arguments in one text. Each method takes values in one way, the surest way first."""

    def __init__(self, schema: Mapping[str, Any], text: str, given: Mapping[str, Any]) -> None:
        self._schema = usable(gathered(schema))
        self._properties = self._schema.get("properties", {})
        self._required = self._schema.get("required", [])
        self._text = text
        self._pieces = list(pieces_of(text))
        in_order = dict.fromkeys((*self._required, *self._properties))
        self._parameters = [
            Parameter.of(name, self._properties[name])
            for name in in_order
            if name in self._properties
        ]
        self.values = {
            name: coerce(value, plain(self._properties.get(name))) for name, value in given.items()
        }
        self.notes = dict.fromkeys(self.values, "given")

    def missing(self) -> list[str]:
        """Return the required parameters without a value."""
        return [name for name in self._required if name not in self.values]

    def take_named(self) -> None:
        """Take the values that are next to the name of their parameter."""
        for parameter in self._parameters:
            if parameter.name in self.values:
                continue
            piece = _named(parameter, self._text, self._pieces)
            if piece:
                self._take_piece(parameter, piece, "named in the text")

    def take_listed(self) -> None:
        """Take the only listed value of a parameter that is in the text."""
        for parameter in self._parameters:
            stated = _stated(parameter, self._text, required=parameter.name in self._required)
            if len(stated) == 1:
                self._take(parameter, stated[0], "stated in the text")

    def take_only_left(self) -> None:
        """Take pieces that only one required parameter can have. Parameters with a form choose first."""
        # "The only quoted text" may be a path, so a parameter for paths must have its chance first.
        for parameter in sorted(self._parameters, key=lambda parameter: not parameter.form):
            missing_parameters = self.missing()
            if parameter.name not in missing_parameters:
                continue
            rivals = [
                rival
                for rival in self._parameters
                if rival.name in missing_parameters and rival is not parameter
            ]
            piece = _only_left(parameter, rivals, self._pieces)
            if piece:
                self._take_piece(parameter, piece, f"the only {piece.form} in the text")

    def _take_piece(self, parameter: Parameter, piece: Piece, note: str) -> None:
        value = coerce(piece.value, self._properties[parameter.name])
        if self._take(parameter, value, note) and piece in self._pieces:
            self._pieces.remove(piece)

    def _take(self, parameter: Parameter, value: Any, note: str) -> bool:
        """Take a value unless the parameter has one, or its schema refuses the value. Return True if it was taken."""
        if parameter.name in self.values or not _fits(self._schema, parameter.name, value):
            return False
        self.values[parameter.name] = value
        self.notes[parameter.name] = note
        return True


def given_for(step: str, tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the caller's arguments for a step: those for this step (`s1.name`), and those that any step
    may take (`name`).

    Args:
        step: The id of the step.
        tool: Its tool.
        given: The caller's arguments.
    """
    properties = parameters(tool)["properties"]
    for_any_step: dict[str, Any] = {}
    for_this_step: dict[str, Any] = {}
    for name, value in given.items():
        if name in properties:
            for_any_step[name] = value
        if name.startswith(f"{step}."):
            for_this_step[name.removeprefix(f"{step}.")] = value
    return for_any_step | for_this_step


def coerce(value: Any, schema: Mapping[str, Any]) -> Any:
    """Convert a text, for example from a command line, to the schema's type. If it cannot be converted, return it."""
    schema = plain(schema)
    json_type = schema.get("type")
    if not isinstance(value, str) or json_type in ("string", None):
        return value
    if json_type == "array" and not value.lstrip().startswith("["):
        items = schema.get("items") or {}
        return [coerce(part.strip(), items) for part in value.split(",")]
    try:
        return json.loads(value.replace("−", "-"))
    except (ValueError, RecursionError):  # Python reads no number of more than 4,300 digits.
        return value


def plain(schema: Any) -> dict[str, Any]:
    """Return a parameter's schema without an optional null in `anyOf` or in a list of types."""
    if not isinstance(schema, dict):
        return {}
    for key in ("anyOf", "oneOf"):
        choices = [
            item
            for item in schema.get(key) or ()
            if isinstance(item, dict) and item.get("type") != "null"
        ]
        if len(choices) == 1:
            return {**schema, **choices[0]}
    types = schema.get("type")
    if not isinstance(types, list):
        return schema
    without_null = [item for item in types if item != "null"]
    return {**schema, "type": without_null[0] if len(without_null) == 1 else None}


def pieces_of(text: str) -> Iterator[Piece]:
    """Yield the pieces that may be values.

    Each position is used once. A quotation has the form of its whole content.
    """
    unread = text
    for match in islice(QUOTE.finditer(text), _MOST):
        value = match.group().strip("`\"'“”„«»")
        yield Piece(_form_of_quotation(value), value, *match.span())
        unread = blanked(unread, *match.span())
    for form, pattern in _FORMS.items():
        for match in list(islice(pattern.finditer(unread), _MOST)):
            value = re.sub(r"\A#(?=\d)", "", match.group())
            yield Piece(form, value, *match.span())
            unread = blanked(unread, *match.span())


def _form_of_quotation(value: str) -> str:
    for form, pattern in _FORMS.items():
        if form != "number" and pattern.fullmatch(value):
            return form
    return "quoted text"


def blanked(text: str, start: int, end: int) -> str:
    """Return the text with blanks in place of text[start:end], so that positions stay."""
    return text[:start] + " " * (end - start) + text[end:]


def _named(parameter: Parameter, text: str, pieces: list[Piece]) -> Piece | None:
    """Return the only piece directly after the parameter's name, or the value of `name=value`."""
    assignment = re.search(rf"(?<![\w.-]){re.escape(parameter.name)}\s*[=:]\s*([^\s\"'`,;]+)", text)
    is_inside_piece = assignment and any(
        piece.start < assignment.start() < piece.end for piece in pieces
    )
    if assignment and not is_inside_piece:
        for piece in pieces:
            if piece.start == assignment.start(1):
                return piece
        return Piece("text", assignment[1].rstrip(".)"), *assignment.span(1))
    behind_name = [
        piece
        for piece in pieces
        if parameter.takes(piece) and _stands_behind(parameter, text, piece)
    ]
    values = {piece.value for piece in behind_name}
    if len(values) != 1 or _is_listed(behind_name[0], pieces, text):
        return None
    return behind_name[0]


def _is_listed(piece: Piece, pieces: list[Piece], text: str) -> bool:
    """Return True if another piece of the same form follows, as in "1001, 1002" or "1001 and 1002".

    Both cannot be meant.
    """
    for neighbour in pieces:
        if neighbour.form == piece.form and neighbour.start > piece.end:
            gap = text[piece.end : neighbour.start].strip(" ,")
            if gap in ("", "&", "and", "or"):
                return True
    return False


def _stands_behind(parameter: Parameter, text: str, piece: Piece) -> bool:
    """Return True if the parameter's name comes before the piece, with only words such as "is" between them."""
    before = re.findall(r"\w+|[^\w\s]", text[max(0, piece.start - 60) : piece.start].lower())
    between = _BETWEEN | {"of"} if piece.form == "number" else _BETWEEN
    while before and before[-1] in between and before[-1] not in parameter.words:
        before.pop()
    last_words = before[-len(parameter.thing) :]
    return tuple(stemmed(last_words)) == parameter.thing


def _stated(parameter: Parameter, text: str, *, required: bool) -> list[str]:
    """Return the listed values that are separate words in the text.

    The value of an optional parameter counts only next to the parameter's name.
    """
    without_quotations = QUOTE.sub(lambda quotation: " " * len(quotation.group()), text)
    name = "|".join(map(re.escape, parameter.words))
    stated = []
    for value in parameter.listed:
        words = re.split(r"[\s_-]+", value)
        name_pattern = r"[\s_-]".join(map(re.escape, words))
        pattern = rf"(?i)(?<![\w-]){name_pattern}(?![\w-])"
        if not required:
            after_name = rf"\b(?:{name})\W{{1,3}}(?:(?:is|to)\W)?{name_pattern}"
            before_name = rf"{name_pattern}\W{{1,3}}(?:{name})"
            pattern = rf"(?i)(?<![\w-])(?:{after_name}|{before_name})\b"
        if re.search(pattern, without_quotations):
            stated.append(value)
    return stated


def _compete(parameter: Parameter, rival: Parameter) -> bool:
    """Return True if a piece may belong to either parameter."""
    if parameter.listed or rival.listed:
        return False
    return parameter.is_numeric == rival.is_numeric and parameter.form == rival.form


def _only_left(
    parameter: Parameter, rivals: Sequence[Parameter], pieces: Sequence[Piece]
) -> Piece | None:
    """Return the only piece that can belong to only this parameter: a piece of its form, a quotation, or a number.

    Args:
        parameter: A required parameter without a value.
        rivals: The other required parameters without a value.
        pieces: The pieces without a parameter.
    """
    if any(_compete(parameter, rival) for rival in rivals):
        return None
    fitting = [piece for piece in pieces if parameter.takes(piece)]
    if any(rival.is_numeric for rival in rivals):
        fitting = [piece for piece in fitting if piece.form != "number"]
    if not parameter.form:
        fitting = [piece for piece in fitting if piece.form in ("quoted text", "number")]
    if parameter.form == "path" and not fitting:
        fitting = [piece for piece in pieces if piece.form == "quoted text"]
    return fitting[0] if len(fitting) == 1 else None


def check_so_far(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Check the arguments that are already known. Further ones may come, so none is required.

    Raises:
        InvalidArguments: An argument does not fit the tool's schema.
    """
    schema = {
        keyword: value
        for keyword, value in hoisted(parameters(tool)).items()
        if keyword not in _JOINT_KEYWORDS
    }
    return check_arguments(replace(tool, input_schema=schema), dict(arguments))


def _fits(schema: Mapping[str, Any], name: str, value: Any) -> bool:
    try:
        return not faults(schema, value, parameter=name)
    except UnusableSchema:
        return False
