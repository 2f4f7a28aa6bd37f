"""Values checked against foreign schemas: nothing is fetched, no pattern takes long, and the work is limited.

The validator counts a step for each keyword that it checks, and stops at a limit that grows with the value:

    faults({"type": "object", "required": ["a"]}, {})      -> ["arguments: 'a' is a required property"]
    fitting({"properties": {"n": {"type": "integer"}}}, {"n": "5"})   -> {"n": 5}
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from copy import deepcopy
from datetime import date, datetime, time
from functools import cache, lru_cache
from itertools import islice
from math import prod
from typing import Any
from uuid import UUID

from orchestrator.catalogue.schema_keywords import matcher, usable
from orchestrator.common.json_input import read_json

STEPS = 10_000
"""The number of keywords that are checked for a small value. They take a quarter of a second."""
STEPS_PER_CHARACTER = 10
"""The additional number for each character of the value's JSON."""
MAX_STEPS = 40_000
"""The maximum number of steps, however long the value is, so that a check always ends soon."""
MAX_PARTS = 2_000
"""The maximum number of objects and lists in a schema. Public tools have up to 300."""
_ROUNDS = 4
"""The maximum number of times that arguments are read again. A text may contain an object with further texts."""
_MEMBERS_PER_STEP = 50
"""The members of a list or an object that count as one step, because each is compared much faster than a keyword."""
_MATCHED_PER_STEP = 100
"""The size of a pattern match that counts as one step: the text's characters multiplied by the pattern's, with
repetitions written out."""
_REPETITIONS = re.compile(r"\{(?:\d+,)?(\d+)")
_PYTHON_LITERALS = {"True": True, "False": False, "None": None}
"""Python's values as models write them. They are not JSON."""
_UNCOUNTED = ("patternProperties", "unevaluatedItems", "unevaluatedProperties")
"""Keywords that the library checks without counting, or with Python's patterns. They are not checked."""


class UnusableSchema(ValueError):
    """No value can be checked against the schema here. It is broken, refers to other documents, or needs too
    many checks.
    """


class _Steps:
    """The remaining steps: for keywords, and for patterns on long texts, whose steps take far less time."""

    def __init__(self, for_keywords: int, for_patterns: int) -> None:
        self.for_keywords = for_keywords
        self.for_patterns = for_patterns

    def spend(self, keywords: int = 0, patterns: int = 0) -> None:
        self.for_keywords -= keywords
        self.for_patterns -= patterns
        if self.for_keywords < 0 or self.for_patterns < 0:
            raise UnusableSchema("the schema needs too many checks")


_steps: ContextVar[_Steps] = ContextVar("steps left")


def faults(schema: Mapping[str, Any], value: Any, parameter: str | None = None) -> list[str]:
    """Return the faults of all arguments, or of one parameter's value, against the repaired schema.

    Args:
        schema: The input schema.
        value: The arguments, or the value of `parameter`.
        parameter: The name of a parameter. None: `value` has all arguments.

    Raises:
        UnusableSchema: The schema cannot be used here, so the server has to check the value.
    """
    errors = _errors(schema, value, parameter)
    return [
        f"{'.'.join(map(str, error.absolute_path)) or 'arguments'}: {error.message}"
        for error in errors
    ]


def fitting(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments converted so that they fit the schema. None if they cannot.

    Models encode values twice ("5", "[1]"), and send blank texts or null for missing values. A text is read as JSON,
    and a blank one is left out, only if the schema refuses its type or its value.
    """
    converted: dict[str, Any] = deepcopy(dict(arguments))
    for _ in range(_ROUNDS):
        errors = _errors(schema, converted)
        if not errors:
            return converted
        changes = [_convert(converted, error) for error in errors]
        if not any(changes):
            return None
    return None


def _convert(arguments: dict[str, Any], error: Any) -> bool:
    """Convert the value of a fault in place, if it is a text or null and another type is required."""
    path = list(error.absolute_path)
    if not path or not (error.validator in ("type", "enum", "const") or error.context):
        return False
    parent: Any = arguments
    for key in path[:-1]:
        parent = parent[key]
    name = path[-1]
    if isinstance(parent, dict):
        if name not in parent:  # An earlier fault has removed it.
            return False
        if parent[name] is None or (isinstance(parent[name], str) and not parent[name].strip()):
            del parent[name]
            return True
    text = parent[name]
    if not isinstance(text, str):
        return False
    try:
        parent[name] = _PYTHON_LITERALS[text] if text in _PYTHON_LITERALS else read_json(text)
    except ValueError:
        return False
    return True


def _errors(schema: Mapping[str, Any], value: Any, parameter: str | None = None) -> list[Any]:
    from jsonschema import SchemaError
    from jsonschema.exceptions import UnknownType
    from referencing.exceptions import Unresolvable

    steps = STEPS + STEPS_PER_CHARACTER * len(json.dumps(value, default=str))
    before = _steps.set(_Steps(min(steps, MAX_STEPS), steps))
    try:
        if _has_more_parts(schema, MAX_PARTS):
            raise UnusableSchema(f"the schema has more than {MAX_PARTS:,} parts")
        validator = _validator(json.dumps(usable(schema)))
        if parameter is not None:  # References in it still point into the whole schema.
            validator = validator.evolve(
                schema=validator.schema.get("properties", {}).get(parameter, True)
            )
        return sorted(validator.iter_errors(value), key=lambda error: error.json_path)
    except (
        SchemaError,
        UnknownType,
        Unresolvable,
        RecursionError,
        ArithmeticError,
        ValueError,
    ) as error:
        raise UnusableSchema(
            f"the schema is not valid ({' '.join(str(error).split())[:200]})"
        ) from None
    finally:
        _steps.reset(before)


def parts(schema: Any) -> Iterator[Any]:
    """Yield a schema's objects and lists."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        yield part
        values = list(part.values()) if isinstance(part, dict) else part
        waiting += [value for value in values if isinstance(value, dict | list)]


def _has_more_parts(schema: Any, most: int) -> bool:
    return next(islice(parts(schema), most, None), None) is not None


@lru_cache(maxsize=1_000)
def _validator(schema_text: str) -> Any:
    """Return the validator of a schema. Checking the schema itself takes many times longer than checking a value."""
    from jsonschema import Draft202012Validator, FormatChecker
    from referencing import Registry

    schema = json.loads(schema_text, object_hook=_without_dialect)
    # Patterns need not be Python's.
    Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
    # The registry is empty, so that a foreign schema cannot make this process fetch addresses.
    return _counting_validator()(schema, registry=Registry(), format_checker=_formats())


@cache
def _counting_validator() -> Any:
    from jsonschema import Draft202012Validator, validators

    checks: dict[str, Any] = dict(Draft202012Validator.VALIDATORS)
    for keyword in _UNCOUNTED:
        checks[keyword] = lambda *_: ()
    checks["additionalProperties"] = _additional_properties
    checks["pattern"] = _check_pattern
    checks["uniqueItems"] = _check_unique
    extend: Any = validators.extend
    return extend(
        Draft202012Validator, {keyword: _counted(check) for keyword, check in checks.items()}
    )


def _additional_properties(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
    from jsonschema import Draft202012Validator

    if "patternProperties" in schema:
        return ()
    return Draft202012Validator.VALIDATORS["additionalProperties"](validator, wanted, value, schema)


@cache
def _formats() -> Any:
    """Return a checker of formats. A text is accepted if Python can read it, because servers are lenient, too."""
    from jsonschema import FormatChecker
    from pydantic import IPvAnyAddress, TypeAdapter

    kinds: dict[str, Any] = {
        "date": date,
        "date-time": datetime,
        "time": time,
        "uuid": UUID,
        "ipv4": IPvAnyAddress,
        "ipv6": IPvAnyAddress,
    }
    checker = FormatChecker(())

    def readable(kind: Any) -> Callable[[object], bool]:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)

        def is_readable(value: object) -> bool:
            if isinstance(value, str):
                adapter.validate_python(value)
            return True

        return is_readable

    for name, kind in kinds.items():
        checker.checks(name, raises=ValueError)(readable(kind))
    checker.checks("email")(lambda value: not isinstance(value, str) or "@" in value)
    return checker


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    def checked(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
        # A long `enum` is compared member by member, and a message contains the whole value.
        members = _size(wanted) + _size(value)
        _steps.get().spend(keywords=1 + members // _MEMBERS_PER_STEP)
        for error in check(validator, wanted, value, schema) or ():
            _steps.get().spend(keywords=1)
            yield error

    return checked


def _size(value: Any) -> int:
    if isinstance(value, list | dict):
        return len(value)
    return len(value) // 20 if isinstance(value, str) else 0


def _check_unique(_: Any, wanted: Any, value: Any, __: Any) -> Iterator[Any]:
    """Find equal items by their JSON. The library compares each item with every other one."""
    from jsonschema import ValidationError

    if wanted and isinstance(value, list):
        texts = {json.dumps(item, sort_keys=True, default=str) for item in value}
        if len(texts) < len(value):
            yield ValidationError("the same item is in the list more than once")


def _check_pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    compiled, size = _sized_matcher(pattern)
    if isinstance(value, str) and compiled is not None:
        _steps.get().spend(patterns=len(value) * size // _MATCHED_PER_STEP)
        if not compiled.isinstance_python(value):
            yield ValidationError(f"{value!r} does not match {pattern!r}")


@lru_cache(maxsize=1_000)
def _sized_matcher(pattern: str) -> tuple[Any, int]:
    """Return the matcher of a pattern, or None if only the server can match, and the size with which its time grows."""
    repetitions = [max(1, int(most)) for most in _REPETITIONS.findall(pattern)]
    return matcher(pattern), len(pattern) * prod(repetitions)


def _without_dialect(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a schema without its dialect. With it, the validator of that dialect would count nothing."""
    if isinstance(part.get("$schema"), str):
        del part["$schema"]
    return part
