"""A stranger's input schema as providers take it, and as values are checked against it here.

One that providers refuse sinks the whole request. OpenAI and Anthropic hold schemas to draft 2020-12 and take no
combinations at the top; OpenAI wants the `items` of each array, Anthropic plain names of parameters. Real catalogues
hold tools that break each of these rules.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from math import prod
from typing import Any

from orchestrator.common.digests import digest
from orchestrator.errors import FAULTS

STEPS, STEPS_A_CHARACTER = 10_000, 10
"""Keywords looked at for one value, and more for each character of its JSON; 10,000 take a quarter of a second."""
_MATCHED_A_STEP = 100
"""Characters of a text times those of a pattern, its repetitions written out."""

_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_REFUSED = frozenset(("anyOf", "oneOf", "allOf", "not", "enum", "const"))
"""What providers refuse at the top of a schema; the arguments are checked against it all the same."""
_PLAIN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COUNTED = re.compile(r"\{(?:\d+,)?(\d+)")


class UnusableSchema(ValueError):
    """Nothing can be checked against a schema here: it is broken, refers elsewhere, or leads to too many checks."""


_left: ContextVar[list[int]] = ContextVar("steps left")


def faults(schema: Mapping[str, Any], value: Any, parameter: str | None = None) -> list[str]:
    """Return what the schema, mended, finds wrong with all arguments, or with the value of one parameter.

    Nothing is fetched, no pattern takes long, and no more is checked than the value is worth: UnusableSchema then says
    why. It is the server's to check.
    """
    from jsonschema import SchemaError
    from jsonschema.exceptions import UnknownType
    from referencing.exceptions import Unresolvable

    before = _left.set([STEPS + STEPS_A_CHARACTER * len(json.dumps(value, default=str))])
    try:
        validator = _validator(json.dumps(usable(schema)))
        if parameter is not None:  # References in it still mean the whole schema's parts.
            validator = validator.evolve(schema=validator.schema.get("properties", {}).get(parameter, True))
        found = sorted(validator.iter_errors(value), key=lambda fault: fault.json_path)
    except (SchemaError, UnknownType, Unresolvable, RecursionError, *FAULTS) as error:
        raise UnusableSchema(f"the schema cannot be used ({' '.join(str(error).split())[:200]})") from None
    finally:
        _left.reset(before)
    return [f"{'.'.join(map(str, fault.absolute_path)) or 'arguments'}: {fault.message}" for fault in found]


@lru_cache(maxsize=1_000)
def _validator(schema_text: str) -> Any:
    """Return what checks values against a schema, which itself is checked here: that costs many times a value's."""
    from jsonschema import Draft202012Validator, FormatChecker, validators
    from referencing import Registry

    schema = json.loads(schema_text, object_hook=_without_dialect)
    Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))  # Its patterns need not be Python's.
    additional = Draft202012Validator.VALIDATORS["additionalProperties"]
    own = {
        "pattern": _check_pattern,
        "additionalProperties": lambda *given: () if "patternProperties" in given[3] else additional(*given),
        # The library looks for these in ways that are not counted, or with Python's patterns.
        **dict.fromkeys(("patternProperties", "unevaluatedItems", "unevaluatedProperties"), lambda *_: ()),
    }
    extend: Any = validators.extend
    checks = {keyword: _counted(check) for keyword, check in (Draft202012Validator.VALIDATORS | own).items()}
    # An empty registry: a stranger's schema must not make this process fetch the addresses that it refers to.
    return extend(Draft202012Validator, checks)(schema, registry=Registry())


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*given: Any) -> Any:
        _spend(1)
        return check(*given)

    return checked


def _spend(steps: int) -> None:
    left = _left.get()
    left[0] -= steps
    if left[0] < 0:
        raise UnusableSchema("it leads to more checks than can be made")


def _check_pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    matcher, size = _matcher(pattern)
    if isinstance(value, str) and matcher is not None:
        _spend(len(value) * size // _MATCHED_A_STEP)
        if not matcher.isinstance_python(value):
            yield ValidationError(f"{value!r} does not match {pattern!r}")


@lru_cache(maxsize=1_000)
def _matcher(pattern: str) -> tuple[Any, int]:
    """Return what matches a pattern (None: the server has to) and the size that its time on a text grows with.

    It is the engine that pydantic brings, Rust's, which never goes back: `^(a+)+$` may take Python's for ever.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        matcher = SchemaValidator(core_schema.str_schema(pattern=pattern, strict=True))
    except SchemaError:
        return None, 0
    return matcher, len(pattern) * prod(max(1, int(most)) for most in _COUNTED.findall(pattern))


def _without_dialect(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a schema without its dialect: it would be checked by a validator that counts nothing."""
    if isinstance(part.get("$schema"), str):
        del part["$schema"]
    return part


def accepted(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without what is no JSON Schema or is refused at the top, and with `items` for every array."""
    return {key: value for key, value in usable(schema).items() if key not in _REFUSED}


def usable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without what is no JSON Schema, a type `any` for one: such a part says and forbids nothing."""
    found = {}
    for key, value in schema.items():
        if key not in _READ:
            found[key] = value
        elif (read := _READ[key](value)) is not None:
            found[key] = read
    named = found.get("type")
    if "items" not in found and (named == "array" or (isinstance(named, list) and "array" in named)):
        found["items"] = {}
    return found


def with_plain_names(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with parameters named as Anthropic wants them."""
    renamed = {own: plain for plain, own in plain_names(schema).items()}
    if not renamed:
        return dict(schema)
    properties = {renamed.get(name, name): value for name, value in schema["properties"].items()}
    required = [renamed.get(name, name) for name in schema.get("required") or ()]
    return {**schema, "properties": properties, **({"required": required} if required else {})}


def plain_names(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the plain name of each parameter that needs one, and the parameter's own."""
    odd = [name for name in schema.get("properties") or () if not _PLAIN.fullmatch(name)]
    return {f"{re.sub(r'[^a-zA-Z0-9_.-]', '_', name)[:55]}_{digest(name, 8)}": name for name in odd}


def _schema(value: Any) -> Any:
    return usable(value) if isinstance(value, dict) else value if isinstance(value, bool) else None


def _by_name(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    return {name: read for name, part in value.items() if (read := _schema(part)) is not None}


def _listed(value: Any) -> Any:
    read = [_schema(part) for part in value] if isinstance(value, list) else []
    return [part for part in read if part is not None] or None


def _type(value: Any) -> Any:
    """Return known types, in lower case; one that is unknown among them may be anything."""
    named = value if isinstance(value, list) else [value]
    known = list(dict.fromkeys(name.lower() for name in named if isinstance(name, str)))
    if not known or len(known) < len(named) or not _TYPES.issuperset(known):
        return None
    return known if isinstance(value, list) else known[0]


def _names(value: Any) -> Any:
    fits = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return list(dict.fromkeys(value)) if fits else None


def _of(*kinds: type) -> Callable[[Any], Any]:
    """Keep a value of one of these types; True and False are no numbers."""
    return lambda value: value if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)) else None


_KEYWORDS: dict[Callable[[Any], Any], str] = {
    _type: "type",
    _names: "required",
    _by_name: "properties patternProperties $defs definitions dependentSchemas",
    _listed: "anyOf oneOf allOf prefixItems",
    _schema: "items contains not if then else propertyNames "
    "additionalProperties unevaluatedItems unevaluatedProperties",
    _of(str): "title description format pattern $ref $id $schema $comment",
    _of(list): "enum examples",
    _of(int, float): "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    _of(int): "minLength maxLength minItems maxItems minProperties maxProperties",
    _of(bool): "uniqueItems deprecated readOnly writeOnly",
}
_READ = {keyword: read for read, keywords in _KEYWORDS.items() for keyword in keywords.split()}
"""How each keyword's value is read: None is left out, together with the keyword."""
