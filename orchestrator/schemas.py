"""A stranger's input schema as providers take it: one that they refuse sinks the whole request.

OpenAI and Anthropic hold schemas to draft 2020-12 and take no combinations at the top; OpenAI wants the `items` of each
array, Anthropic plain names of parameters. Real catalogues hold tools that break each of these rules.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.digests import digest

_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_REFUSED = frozenset(("anyOf", "oneOf", "allOf", "not", "enum", "const"))
"""What they refuse at the top of a schema; the arguments are held to it all the same."""
_PLAIN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


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
    except (re.error, TypeError, RecursionError):
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
