"""Foreign input schemas: how providers accept them, and how values are checked against them here.

A provider refuses a whole request because of one wrong schema. OpenAI and Anthropic require draft 2020-12 and allow no
combinations at the top level. OpenAI requires the `items` of each array, and Anthropic requires plain parameter names.
Real catalogues have tools that break each of these rules.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from copy import deepcopy
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Any
from urllib.parse import unquote

from orchestrator.common.digests import digest
from orchestrator.common.json_input import read_json

STEPS, STEPS_A_CHARACTER = 10_000, 10
"""The number of keywords that are checked for one value, and the additional number for each character of its JSON.
10,000
keywords take a quarter of a second.
"""
MAX_STEPS, MAX_PARTS = 40_000, 2_000
"""The maximum number of checked keywords, and of objects and lists in a schema. Public tools have up to 300."""
_ROUNDS = 4
"""The maximum number of times that arguments are read again. A text may contain an object with further texts."""
_MEMBERS_A_STEP = 50
_MATCHED_A_STEP = 100
"""The size of a pattern match that counts as one step: the text's characters multiplied by the pattern's, with
repetitions written out."""

_PYTHONS = {"True": True, "False": False, "None": None}
"""Python's values as models write them. They are not JSON."""
_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_REFUSED = frozenset("anyOf oneOf allOf not enum const $ref if then else $schema".split())
"""Keywords that providers refuse at the top level of a schema. The arguments are still checked against them."""
_JOINED = frozenset(("anyOf", "oneOf", "allOf", "$ref", "then", "else"))
_DEFINED = re.compile(r"#|#/(?:\$defs|definitions)/[^/]+")
_MAX_JOINED = 50
"""The number of levels of branches from which parameters are gathered."""
_PLAIN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COUNTED = re.compile(r"\{(?:\d+,)?(\d+)")


class UnusableSchema(ValueError):
    """No value can be checked against the schema here. It is broken, refers to other documents, or needs too many
    checks.
    """


_left: ContextVar[list[int]] = ContextVar("steps left")
"""The remaining steps: for keywords, and for patterns on long texts, whose steps take far less time."""


def faults(schema: Mapping[str, Any], value: Any, parameter: str | None = None) -> list[str]:
    """Return the faults of all arguments, or of one parameter's value, against the repaired schema.

    Nothing is fetched, no pattern takes long, and the work is limited by the size of the value.

    Args:
        schema: The input schema.
        value: The arguments, or the value of `parameter`.
        parameter: The name of a parameter. None: `value` has all arguments.

    Raises:
        UnusableSchema: The schema cannot be used here, so the server has to check the value.
    """
    found = _faults(schema, value, parameter)
    return [f"{'.'.join(map(str, fault.absolute_path)) or 'arguments'}: {fault.message}" for fault in found]


def fitting(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments converted so that they fit the schema. None if they cannot.

    Models encode values twice ("5", "[1]"), and send blank texts or null for missing values. A text is read as JSON,
    and a blank one is left out, only if the schema refuses its type or its value.
    """
    read: dict[str, Any] = deepcopy(dict(arguments))
    for _ in range(_ROUNDS):
        if not (found := _faults(schema, read)):
            return read
        if not sum(_was_read(read, fault) for fault in found):
            return None
    return None


def _was_read(arguments: dict[str, Any], fault: Any) -> bool:
    """Convert the value of a fault in place, if it is a text or null and another type is required."""
    path = list(fault.absolute_path)
    if not path or not (fault.validator in ("type", "enum", "const") or fault.context):
        return False
    parent: Any = arguments
    for key in path[:-1]:
        parent = parent[key]
    name = path[-1]
    own = parent.get(name, 0) if isinstance(parent, dict) else parent[name]  # An earlier fault may have removed it.
    if isinstance(parent, dict) and (own is None or (isinstance(own, str) and not own.strip())):
        del parent[name]
        return True
    if not isinstance(own, str):
        return False
    try:
        parent[name] = _PYTHONS[own] if own in _PYTHONS else read_json(own)
    except ValueError:
        return False
    return True


def _faults(schema: Mapping[str, Any], value: Any, parameter: str | None = None) -> list[Any]:
    from jsonschema import SchemaError
    from jsonschema.exceptions import UnknownType
    from referencing.exceptions import Unresolvable

    steps = STEPS + STEPS_A_CHARACTER * len(json.dumps(value, default=str))
    before = _left.set([min(steps, MAX_STEPS), steps])
    try:
        if next(islice(_parts(schema), MAX_PARTS, None), None) is not None:
            raise UnusableSchema(f"the schema has more than {MAX_PARTS:,} parts")
        validator = _validator(json.dumps(usable(schema)))
        if parameter is not None:  # References in it still point into the whole schema.
            validator = validator.evolve(schema=validator.schema.get("properties", {}).get(parameter, True))
        return sorted(validator.iter_errors(value), key=lambda fault: fault.json_path)
    except (SchemaError, UnknownType, Unresolvable, RecursionError, ArithmeticError, ValueError) as error:
        raise UnusableSchema(f"the schema is not valid ({' '.join(str(error).split())[:200]})") from None
    finally:
        _left.reset(before)


@lru_cache(maxsize=1_000)
def _validator(schema_text: str) -> Any:
    """Return the validator of a schema. Checking the schema itself takes many times longer than checking a value."""
    from jsonschema import Draft202012Validator, FormatChecker, validators
    from referencing import Registry

    schema = json.loads(schema_text, object_hook=_without_dialect)
    Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))  # Patterns need not be Python's.
    additional = Draft202012Validator.VALIDATORS["additionalProperties"]
    own = {
        "pattern": _check_pattern,
        "uniqueItems": _check_unique,
        "additionalProperties": lambda *given: () if "patternProperties" in given[3] else additional(*given),
        # The library checks these without counting, or with Python's patterns.
        **dict.fromkeys(("patternProperties", "unevaluatedItems", "unevaluatedProperties"), lambda *_: ()),
    }
    extend: Any = validators.extend
    checks = {keyword: _counted(check) for keyword, check in (Draft202012Validator.VALIDATORS | own).items()}
    # The registry is empty, so that a foreign schema cannot make this process fetch addresses.
    return extend(Draft202012Validator, checks)(schema, registry=Registry())


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*given: Any) -> Iterator[Any]:
        # A long `enum` is compared member by member, and a message contains the whole value.
        _spend(0, 1 + (_size(given[1]) + _size(given[2])) // _MEMBERS_A_STEP)
        for fault in check(*given) or ():
            _spend(0, 1)
            yield fault

    return checked


def _size(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else len(value) // 20 if isinstance(value, str) else 0


def _spend(kind: int, steps: int) -> None:
    left = _left.get()
    left[kind] -= steps
    if left[kind] < 0:
        raise UnusableSchema("the schema needs too many checks")


def _check_unique(_: Any, wanted: Any, value: Any, __: Any) -> Iterator[Any]:
    """Find equal items by their JSON. The library compares each item with every other one."""
    from jsonschema import ValidationError

    if wanted and isinstance(value, list):
        texts = {json.dumps(item, sort_keys=True, default=str) for item in value}
        if len(texts) < len(value):
            yield ValidationError("the same item is in the list more than once")


def _check_pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    matcher, size = _matcher(pattern)
    if isinstance(value, str) and matcher is not None:
        _spend(1, len(value) * size // _MATCHED_A_STEP)
        if not matcher.isinstance_python(value):
            yield ValidationError(f"{value!r} does not match {pattern!r}")


@lru_cache(maxsize=1_000)
def _matcher(pattern: str) -> tuple[Any, int]:
    """Return the matcher of a pattern, and the size with which its time on a text grows. None: the server has to match.

    It is the Rust engine in pydantic, which never backtracks. Python's engine may take forever for `^(a+)+$`.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        matcher = SchemaValidator(core_schema.str_schema(pattern=pattern, strict=True))
    except SchemaError:
        return None, 0
    return matcher, len(pattern) * prod(max(1, int(most)) for most in _COUNTED.findall(pattern))


def _without_dialect(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a schema without its dialect. With it, the validator of that dialect would count nothing."""
    if isinstance(part.get("$schema"), str):
        del part["$schema"]
    return part


def _parts(schema: Any) -> Iterator[Any]:
    """Yield a schema's objects and lists."""
    parts = [schema]
    while parts:
        part = parts.pop()
        yield part
        parts += [value for value in _values(part) if isinstance(value, dict | list)]


def _values(part: Any) -> Sequence[Any]:
    return list(part.values()) if isinstance(part, dict) else part


def accepted(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without parts that are not JSON Schema or are refused at the top level, and with `items` for
    every
    array.

    The parameters of refused parts become parameters of the schema, and each reference keeps its meaning.
    """
    mended = usable(hoisted(gathered(schema)))
    return {key: value for key, value in mended.items() if key not in _REFUSED}


def gathered(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with the parameters of its root's branches and references among its own.

    A parameter is required if all branches require it. If branches describe it differently, any of the descriptions may
    hold.
    """
    if _JOINED.isdisjoint(schema):
        return dict(schema)
    properties, required = _gathered(schema, schema, {}, 0)
    return {**schema, "properties": properties, **({"required": required} if required else {})}


_Parameters = tuple[dict[str, Any], list[str]]


def _gathered(root: Mapping[str, Any], part: Any, known: dict[str, _Parameters], depth: int) -> _Parameters:
    """Return the properties and the required names of a part of a schema. `known` has those of references."""
    if not isinstance(part, dict) or depth > _MAX_JOINED:
        return {}, []
    properties = dict(own) if isinstance(own := part.get("properties"), dict) else {}
    required = list(_names(part.get("required")) or ())
    every = [_gathered(root, branch, known, depth + 1) for branch in _branches(part, "allOf")]
    if isinstance(to := part.get("$ref"), str):
        if to not in known:
            known[to] = {}, []  # A reference may lead back to itself.
            known[to] = _gathered(root, _meant(root, to), known, depth + 1)
        every.append(known[to])
    for keys in (("anyOf",), ("oneOf",), ("then", "else")):
        branches = [branch for key in keys for branch in _branches(part, key)]
        found = [_gathered(root, branch, known, depth + 1) for branch in branches]
        if found:
            shared = [name for name in found[0][1] if all(name in names for _, names in found[1:])]
            every.append((_either([own for own, _ in found]), [] if "then" in keys else shared))
    for more, names in every:
        properties = {
            **more,
            **{name: own for name, own in properties.items() if own not in ({}, True) or name not in more},
        }
        required += names
    return properties, list(dict.fromkeys(required))


def _branches(part: Mapping[str, Any], key: str) -> list[Any]:
    """Return the branches under a keyword, without branches that cannot be objects, because arguments are an object."""
    listed = part.get(key, [])
    branches = listed if isinstance(listed, list) else [listed]
    return [one for one in branches if not (isinstance(one, dict) and one.get("type", "object") != "object")]


def _either(several: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the properties of several branches. A property is described by any of the branches that have it."""
    shapes: dict[str, dict[str, Any]] = {}
    for properties in several:
        for name, shape in properties.items():
            shapes.setdefault(name, {})[json.dumps(shape)] = shape
    listed = {name: list(found.values()) for name, found in shapes.items()}
    return {name: found[0] if len(found) == 1 else {"anyOf": found} for name, found in listed.items()}


def hoisted(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with the targets of its references moved to `$defs`, so that changes of its parameters do not
    break them.

    A reference without a target in the schema is removed, because a provider would refuse it.
    """
    moved: dict[str, Any] = {}
    waiting: dict[str, Any] = {}
    nested = {
        f"#/{key}/{name}": own
        for part in _parts(schema)
        for key in ("$defs", "definitions")
        if isinstance(part, dict) and isinstance(part.get(key), dict)
        for name, own in part[key].items()
    }

    def placed(part: Any) -> Any:
        if isinstance(part, list):
            return [placed(item) for item in part]
        if not isinstance(part, dict):
            return part
        own = {name: placed(value) for name, value in part.items()}
        if isinstance(to := part.get("$ref"), str):
            meant = _meant(schema, to)
            if meant is None:  # Some libraries nest their definitions.
                to, meant = f"nested {to}", nested.get(to)
            if not isinstance(meant, dict | bool):
                del own["$ref"]
            elif not _DEFINED.fullmatch(to):
                name = f"ref_{digest(to, 8)}"
                waiting.update({} if name in moved else {name: meant})
                own["$ref"] = f"#/$defs/{name}"
        return own

    found = placed(dict(schema))
    while waiting:
        name, meant = waiting.popitem()
        moved[name] = True  # The definition may refer to itself.
        moved[name] = placed(meant)
    defined = found.get("$defs")
    return {**found, "$defs": {**(defined if isinstance(defined, dict) else {}), **moved}} if moved else found


def _meant(schema: Any, reference: str) -> Any:
    """Return the target of a reference within a schema. Otherwise None."""
    where, _, pointer = reference.partition("#")
    if where or (pointer and not pointer.startswith("/")):
        return None
    for key in unquote(pointer).split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list):
            schema = schema[int(name)] if name.isdecimal() and int(name) < len(schema) else None
        else:
            schema = schema.get(name) if isinstance(schema, dict) else None
    return schema


def usable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without parts that are not JSON Schema, such as a type `any`. Such a part restricts nothing."""
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
    """Return the schema with parameter names that Anthropic accepts."""
    renamed = {own: plain for plain, own in plain_names(schema).items()}
    if not renamed:
        return dict(schema)
    properties = {renamed.get(name, name): value for name, value in schema["properties"].items()}
    required = [renamed.get(name, name) for name in schema.get("required") or ()]
    return {**schema, "properties": properties, **({"required": required} if required else {})}


def plain_names(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return a plain name for each parameter that needs one, with the parameter's own name."""
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
    """Return the known types, in lower case. None if one of them is unknown, so that any type is allowed."""
    named = value if isinstance(value, list) else [value]
    known = list(dict.fromkeys(name.lower() for name in named if isinstance(name, str)))
    if not known or len(known) < len(named) or not _TYPES.issuperset(known):
        return None
    return known if isinstance(value, list) else known[0]


def _pattern(value: Any) -> Any:
    """Return a pattern that Rust's or Python's engine can compile."""
    if not isinstance(value, str) or _matcher(value)[0] is not None:
        return value if isinstance(value, str) else None
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return None
    return value


def _by_pattern(value: Any) -> Any:
    kept = _by_name(value)
    return kept and {pattern: part for pattern, part in kept.items() if _pattern(pattern) is not None}


def _names(value: Any) -> Any:
    fits = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return list(dict.fromkeys(value)) if fits else None


def _of(*kinds: type) -> Callable[[Any], Any]:
    """Return a reader that keeps a value of one of these types. True and False are not numbers."""
    return lambda value: value if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)) else None


_KEYWORDS: dict[Callable[[Any], Any], str] = {
    _type: "type",
    _names: "required",
    _by_name: "properties $defs definitions dependentSchemas",
    _by_pattern: "patternProperties",
    _pattern: "pattern",
    _listed: "anyOf oneOf allOf prefixItems",
    _schema: "items contains not if then else propertyNames "
    "additionalProperties unevaluatedItems unevaluatedProperties",
    _of(str): "title description format $ref $id $schema $comment",
    _of(list): "enum examples",
    _of(int, float): "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    _of(int): "minLength maxLength minItems maxItems minProperties maxProperties",
    _of(bool): "uniqueItems deprecated readOnly writeOnly",
}
_READ = {keyword: read for read, keywords in _KEYWORDS.items() for keyword in keywords.split()}
"""The reader of each keyword's value. If it returns None, the keyword is removed."""
