"""Arguments that stand literally in a task's text. Nothing is guessed: what is not clearly there stays missing.

A value is taken where the text names the parameter (`limit 5`, `title "Plan"`, `unit=celsius`, `charge ch_3`), where
exactly one thing of the parameter's kind stands in the text (a date, time, URL, e-mail address, time zone or path),
where the text states one of its listed values (`choices.py`), where one thing is known by its form ("#general" for a
channel), or where the one required string or number left has exactly one candidate left.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from orchestrator.catalogue.schema import UnusableSchema, faults, usable
from orchestrator.index.text import stemmed
from orchestrator.language.quoted import QUOTE
from orchestrator.language.words import MAX_CUT
from orchestrator.planning.choices import Choice, choice_values
from orchestrator.planning.parameters import CALLED, UNITS, Parameter, parameters_of, plain, words_of
from orchestrator.planning.pieces import Piece, pieces
from orchestrator.planning.pointing import is_acted_on, is_labelled, is_of_its_own, may_be, points_to, stands_beside
from orchestrator.records.tool import Tool

_HELD = re.compile(rf"{QUOTE.pattern}|https?://\S+")
_LISTS = re.compile(r"\s*(?:,|&|,?\s+and|,?\s+or)\s*")


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
    reader = _Reader(text, mended, nouns)
    for name, value in (given or {}).items():
        reader.take(name, coerce(value, plain(mended.get("properties", {}).get(name))), "given")
    for rule in (reader.by_name, reader.by_kind, reader.by_shape, reader.by_choice, reader.by_being_the_only_one):
        for name, parameter in reader.parameters.items():
            if name not in reader.values:
                rule(parameter)
    missing = tuple(name for name in mended.get("required", []) if name not in reader.values)
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
        return [coerce(part.strip(), plain(schema.get("items"))) for part in value.split(",")]
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


class _Reader:
    """One reading of one text for one schema; every piece is used at most once."""

    def __init__(self, text: str, schema: Mapping[str, Any], nouns: frozenset[str]) -> None:
        self._schema, self._nouns = schema, nouns
        self.parameters = parameters_of(schema)
        self.text = text = text[:MAX_CUT]
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

    def by_name(self, own: Parameter) -> None:
        """`limit 5`, `limit=5`, `title "Plan"`, `titled "Plan"`, `5 days`."""
        if self._by_equals(own):
            return
        numbers = [piece for piece in self._pieces if piece.kind == "number" and self._has_unit(own, piece)]
        named = (*self._readable(own), *(numbers if own.identifies else ()))  # "order 1001"
        found = [piece for piece in named if stands_beside(own, piece, self._others(own))]
        found = [piece for piece in found if piece.before[-1:] not in CALLED] or found  # "titled" goes before "named"
        if own.is_list and found:
            self._take_all(own, self._run(found[0]), "named in the text")
        elif len({piece.value for piece in found}) == 1 and not (
            _is_one_thing(own, found[0]) and self._has_like(found[0])
        ):
            self._take(own, found[0], "named in the text")

    def by_kind(self, own: Parameter) -> None:
        """The one date, address, zone or path of the text, or the one that `from` or `to` points to."""
        if not own.kind:
            return
        found = [piece for piece in self._pieces if piece.kind == own.kind]
        rivals = [other for other in self._left(own) if other.required]
        alone = not any(other.kind == own.kind for other in rivals)
        if own.is_list:
            if found and own.required:
                self._take_all(own, found, "all of its kind in the text")
            return
        meant = found if len(found) == 1 and alone else [piece for piece in found if points_to(own, piece)]
        if len(meant) == 1 and (own.required or alone) and may_be(own, meant[0], alone=len(found) == 1):
            self._take(own, meant[0], f"the only {own.kind} in the text")

    def by_shape(self, own: Parameter) -> None:
        """The one piece whose shape says that it is such a thing: "#general" a channel, "acme/web" a repository."""
        rivals = [other for other in self._left(own) if other.shape == own.shape]
        apart = own.shape == "repository" and any("owner" in other.words for other in self._others(own))
        found = [piece for piece in self._pieces if own.shape and piece.kind == own.shape and is_of_its_own(own, piece)]
        if len(found) == 1 and not rivals and not apart:
            self._take(own, found[0], f"the only {own.shape} in the text")

    def by_choice(self, own: Parameter) -> None:
        """The listed value that the text states; for a required parameter else the only one that is in it at all."""
        values = choice_values(own.schema)
        if not values:
            return
        choice = Choice(
            name=own.words,
            values=values,
            text=self.text,
            nouns=self._nouns,
            others={other.name: other.schema for other in self._others(own)},
            free=any(other.is_free for other in self._left(own)),
        )
        if value := choice.stated() or (choice.only() if own.required else None):
            self.take(own.name, value, "stated in the text")

    def by_being_the_only_one(self, own: Parameter) -> None:
        """The one required number, or plain string, that is left, when the text has exactly one left."""
        if not own.required or any(set(other.reads) & set(own.reads) for other in self._left(own) if other.required):
            return
        named = self._nouns | words_of(self._others(own))
        found = [p for p in self._readable(own) if may_be(own, p) and not is_labelled(own, p, named)]
        found = [piece for piece in found if piece.kind != "slug" or is_acted_on(piece)]
        bare = (piece for piece in found if piece.kind in ("identifier", "slug") and not piece.quoted)
        if any(not is_acted_on(piece) or self._has_like(piece) for piece in bare):
            return
        if own.is_list and found:
            self._take_all(own, found, "all of its kind in the text")
        elif len(found) == 1:
            self._take(own, found[0], f"the only {found[0].kind} value left in the text")

    def _has_like(self, piece: Piece) -> bool:
        """Whether others of its kind are listed beside a piece: "charges ch_1 and ch_2" are not one charge."""
        alike = [other for other in self._pieces if other.kind == piece.kind]
        return any(
            _LISTS.fullmatch(self.text, one.end, other.start) and piece in (one, other)
            for one, other in pairwise(alike)
        )

    def _others(self, own: Parameter) -> list[Parameter]:
        return [other for other in self.parameters.values() if other.name != own.name]

    def _left(self, own: Parameter) -> list[Parameter]:
        """The other parameters without a value."""
        return [other for other in self._others(own) if other.name not in self.values]

    def _readable(self, own: Parameter) -> list[Piece]:
        """The pieces left that may be its value; a number with a unit only where the tool speaks of that unit."""
        fits = (piece for piece in self._pieces if own.may_read(piece) and self._has_unit(own, piece))
        return [piece for piece in fits if is_of_its_own(own, piece) and self._may_be_called(own, piece)]

    def _may_be_called(self, own: Parameter, piece: Piece) -> bool:
        """Whether a name is that of what the tool is about, and not of another thing ("for a customer called Acme")."""
        if piece.quoted or piece.before[-1:] not in CALLED or not self._nouns or len(piece.before) < 2:
            return True
        return stemmed(piece.before[-2]) in self._nouns | {*own.stems}

    def _has_unit(self, own: Parameter, piece: Piece) -> bool:
        unit = UNITS.get(piece.behind[0]) if piece.kind == "number" and piece.behind else None
        if unit is None or unit in own.units:
            return unit in (None, "percent") or own.words[-1] != unit  # "6 months" are no `month`.
        listed = (value for other in self._others(own) for value in choice_values(other.schema))
        return any(UNITS.get(value.lower()) == unit for value in listed)

    def _by_equals(self, own: Parameter) -> bool:
        """Whether `name=value` is in the text, but not in what it quotes or in an address."""
        names = re.escape(own.name) + "|" + r"[\s_-]?".join(map(re.escape, own.words))
        said = _HELD.sub(lambda held: "\0" * len(held.group()), self.text)
        # A comma goes on where no blank and no other name follows: "ids=1,2,limit=5".
        value = r"(?:[^\s\0\"'`,;]|,(?=\S)(?!\w+\s*=))+"
        match = re.search(rf"(?<![\w.-])(?:{names})\s*=\s*({value})", said, re.IGNORECASE)
        return match is not None and self.take(own.name, _typed(match[1].rstrip(".)"), own.schema), "named in the text")

    def _run(self, first: Piece) -> list[Piece]:
        """The piece and those of its kind that are listed behind it."""
        run = [first]
        for piece in self._pieces:
            if piece.start > run[-1].end and _LISTS.fullmatch(self.text, run[-1].end, piece.start):
                if piece.kind != first.kind:
                    break
                run.append(piece)
        return run

    def _fits(self, name: str, value: Any) -> bool:
        try:
            return not faults(self._schema, value, parameter=name)
        except UnusableSchema:
            return False

    def _take(self, own: Parameter, piece: Piece, note: str) -> None:
        value = _digits(piece.value) if piece.kind == "phone" and "number" in own.reads else piece.value
        if self.take(own.name, _typed(value, own.schema), note):
            self._pieces.remove(piece)

    def _take_all(self, own: Parameter, found: list[Piece], note: str) -> None:
        if self.take(own.name, [_typed(piece.value, own.item) for piece in found], note):
            self._pieces = [piece for piece in self._pieces if piece not in found]


def _is_one_thing(own: Parameter, piece: Piece) -> bool:
    return own.identifies or piece.kind == own.shape


def _digits(value: str) -> str:
    return "".join(filter(str.isdigit, value))


def _typed(value: str, schema: Mapping[str, Any]) -> Any:
    return value if schema.get("type") == "string" else coerce(value, schema)
