"""A stranger's input schema as providers take it, and as values are held to it here.

One that providers refuse sinks the whole request. OpenAI and Anthropic hold schemas to draft 2020-12 and take no
combinations at the top; OpenAI wants the `items` of each array, Anthropic plain names of parameters. Real catalogues
hold tools that break each of these rules.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from orchestrator.catalogue.bounded import TooManySteps, counting, limited
from orchestrator.errors import FAULTS
from orchestrator.records.digests import digest

if TYPE_CHECKING:
    from jsonschema import ValidationError

_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_REFUSED = frozenset(("anyOf", "oneOf", "allOf", "not", "enum", "const"))
"""What they refuse at the top of a schema; the arguments are held to it all the same."""
_PLAIN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")

_SIGN = r"(?:\\.|\[(?:\\.|[^\]\\])+\]|[^\\\[\](){}*+?|^$])"
_QUICK = re.compile(rf"(?!(?:[^?]*\?){{4}})\^(?:{_SIGN}(?:\{{\d+\}}|\?)?)*(?:{_SIGN}(?:[*+]|\{{\d+,\d*\}}))?\$?")
"""Patterns that are matched in one pass over any text: from its start, without groups and alternatives, at most three
signs optional, and only the last one of any number. Others (`^(a+)+$`) may take Python longer than a process lives."""


_LEADING_ON = frozenset(("$ref", "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"))


class UnusableSchema(ValueError):
    """Nothing can be held to a schema; the message goes on behind "the schema"."""


class ElsewhereSchema(UnusableSchema):
    """Values are to be checked elsewhere: the schema refers to what is not at hand, or leads to too many checks."""


def faults(schema: Mapping[str, Any], value: Any, parameter: str | None = None) -> "list[ValidationError]":
    """What the schema, mended, finds wrong with a value: with all arguments, or with those of one parameter.

    Nothing is fetched, no pattern is tried that may take long, and no more is checked than the value is worth. Raises
    UnusableSchema, ElsewhereSchema where others have to check it.
    """
    from jsonschema import SchemaError
    from jsonschema.exceptions import UnknownType
    from referencing.exceptions import Unresolvable

    try:
        validator = _validator(json.dumps(usable(schema)))
        if parameter is not None:  # References in it still mean the whole schema's parts.
            validator = validator.evolve(schema=validator.schema.get("properties", {}).get(parameter, True))
        with limited(value):
            return sorted(validator.iter_errors(value), key=lambda fault: fault.json_path)
    except SchemaError as error:
        raise UnusableSchema(f"is broken ({error.message})") from None
    except TooManySteps as error:
        raise ElsewhereSchema(f"cannot be used ({error})") from None
    except RecursionError:
        raise UnusableSchema("cannot be used (it refers to itself without end)") from None
    except Unresolvable as error:
        raise ElsewhereSchema(f"cannot be used ({' '.join(str(error).split())[:200]})") from None
    except (UnknownType, re.error, *FAULTS) as error:
        raise UnusableSchema(f"cannot be used ({' '.join(str(error).split())[:200]})") from None


@lru_cache(maxsize=1_000)
def _validator(schema_text: str) -> Any:
    """Checks values against a schema, which itself is checked here: that costs many times what one value's does."""
    from jsonschema.validators import validator_for
    from referencing import Registry

    schema = json.loads(schema_text, object_hook=_quick)
    validator = validator_for(json.loads(schema_text))
    validator.check_schema(schema)
    validator = counting(validator)
    # An empty registry: a stranger's schema must not make this process fetch the addresses that it refers to.
    return validator(schema, registry=Registry())


def checkable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What of the schema anybody can check in time: usable, and without patterns that may take long; nothing of one
    with references or leftovers, which may lead to more checks than a process lives for."""
    read: dict[str, Any] = json.loads(json.dumps(usable(schema)), object_hook=_quick)
    return {} if _leads_on(read) else read


def _leads_on(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_leads_on, value))
    return isinstance(value, dict) and (not _LEADING_ON.isdisjoint(value) or any(map(_leads_on, value.values())))


def _quick(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a schema without slow patterns, wherever a reference may lead: they are left to the server to check.
    And without its dialect, which the whole schema's is."""
    if isinstance(part.get("$schema"), str):
        del part["$schema"]  # A part that names one would be held to it by a validator that counts nothing.
    pattern, by_pattern = part.get("pattern"), part.get("patternProperties")
    if isinstance(pattern, str) and not _QUICK.fullmatch(pattern):
        del part["pattern"]
    if isinstance(by_pattern, dict) and not all(map(_QUICK.fullmatch, by_pattern)):
        part["patternProperties"] = {name: by_pattern[name] for name in by_pattern if _QUICK.fullmatch(name)}
        part["patternProperties"][".*"] = {}
    return part


def accepted(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without what is no JSON Schema or is refused at the top, and with `items` for every array."""
    return {key: value for key, value in usable(schema).items() if key not in _REFUSED}


def usable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without what is no JSON Schema, a type `any` for one: such a part says nothing and forbids nothing."""
    found = {}
    for key, value in schema.items():
        if key not in _READ:
            found[key] = value
        elif (read := _READ[key](value)) is not None:
            found[key] = read
    if "items" not in found and _may_be_array(found.get("type")):
        found["items"] = {}
    return found


def with_plain_names(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with parameters named as Anthropic wants them."""
    names = plain_names(schema)
    if not names:
        return dict(schema)
    renamed = {plain: own for own, plain in names.items()}
    properties = {renamed.get(name, name): value for name, value in schema["properties"].items()}
    required = [renamed.get(name, name) for name in schema.get("required") or ()]
    return {**schema, "properties": properties, **({"required": required} if required else {})}


def plain_names(schema: Mapping[str, Any]) -> dict[str, str]:
    """The plain name of each parameter that needs one, and the parameter's own."""
    odd = [name for name in schema.get("properties") or () if not _PLAIN.fullmatch(name)]
    return {_plain(name): name for name in odd}


def _plain(name: str) -> str:
    return f"{re.sub(r'[^a-zA-Z0-9_.-]', '_', name)[:55]}_{digest(name, 8)}"


def _may_be_array(named: Any) -> bool:
    return named == "array" or (isinstance(named, list) and "array" in named)


def _schema(value: Any) -> Any:
    """A schema, mended; None for what is none."""
    return usable(value) if isinstance(value, dict) else value if isinstance(value, bool) else None


def _by_name(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    return {name: read for name, part in value.items() if (read := _schema(part)) is not None}


def _by_pattern(value: Any) -> Any:
    """Likewise; one that only JavaScript reads says nothing of any name, and so forbids none."""
    parts = _by_name(value)
    readable = {name: part for name, part in (parts or {}).items() if _pattern(name) is not None}
    return parts if len(readable) == len(parts or ()) else {**readable, ".*": {}}


def _listed(value: Any) -> Any:
    read = [_schema(part) for part in value] if isinstance(value, list) else []
    return [part for part in read if part is not None] or None


def _type(value: Any) -> Any:
    """Known types, in lower case; one that is unknown among them may be anything."""
    named = value if isinstance(value, list) else [value]
    known = list(dict.fromkeys(name.lower() for name in named if isinstance(name, str)))
    if not known or len(known) < len(named) or not _TYPES.issuperset(known):
        return None
    return known if isinstance(value, list) else known[0]


def _names(value: Any) -> Any:
    fits = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return list(dict.fromkeys(value)) if fits else None


def _pattern(value: Any) -> Any:
    """A pattern that only JavaScript reads is left to the server to check."""
    try:
        return value if re.compile(value) else None
    except (re.error, TypeError, OverflowError, RecursionError):
        return None


def _of(*kinds: type) -> Callable[[Any], Any]:
    """Keeps a value of one of these types; True and False are no numbers."""
    return lambda value: value if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)) else None


_READ: dict[str, Callable[[Any], Any]] = {
    "type": _type,
    "required": _names,
    "pattern": _pattern,
    "patternProperties": _by_pattern,
    **dict.fromkeys(("properties", "$defs", "definitions", "dependentSchemas"), _by_name),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _listed),
    **dict.fromkeys(
        (
            *("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"),
            *("unevaluatedItems", "unevaluatedProperties"),
        ),
        _schema,
    ),
    **dict.fromkeys(("title", "description", "format", "$ref", "$id", "$schema", "$comment"), _of(str)),
    **dict.fromkeys(("enum", "examples"), _of(list)),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        _of(int, float),
    ),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        _of(int),
    ),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _of(bool)),
}
"""How each keyword's value is read: None is left out, together with the keyword."""
