"""Reading payloads: 0.15 ms for a Decision that takes the SDK 3 to 7, as it evaluates every record's hints anew.

Whatever is not plain JSON (another data converter) is left to the converter.
"""

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from orchestrator.errors import InvalidInput
from orchestrator.records.forms import nearly
from orchestrator.temporal.held import MAX_LEVELS, is_deeper

Record = TypeVar("Record")

NOTHING: Final = RawValue(Payload(metadata={"encoding": b"binary/null"}))
"""The input of whoever gives none."""

MOST_LEVELS = MAX_LEVELS + 30
"""Of an input: a run's results stand a few levels deep in what it hands on to the next execution."""


def read(raw: RawValue, kind: type[Record]) -> Record:
    """The record that a payload of our own making holds."""
    return _read(raw, kind, json.loads)


def _read(raw: RawValue, kind: type[Record], load: Callable[[bytes], Any]) -> Record:
    if raw.payload.metadata.get("encoding") == b"json/plain":
        return _read_json(raw.payload.data, kind, load)
    converter = workflow.payload_converter() if workflow.in_workflow() else activity.payload_converter()
    found: Record = converter.from_payload(raw.payload, kind)
    return found


def _read_json(data: bytes, kind: type[Record], load: Callable[[bytes], Any]) -> Record:
    """By pydantic's parser, and by `load` where that one takes no such JSON: half a character, more than 200 levels."""
    adapter: TypeAdapter[Record] = _adapter(cast("Any", kind))
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        if error.errors()[0]["type"] != "json_invalid":
            raise
        return adapter.validate_python(load(data))


def _load_input(data: bytes) -> Any:
    """The JSON's value; ValueError, or RecursionError, where it is none, or too deep for the SDK to hand it on."""
    value = json.loads(data)
    if is_deeper(value, MOST_LEVELS):
        raise ValueError(f"it is nested deeper than {MOST_LEVELS} levels")
    return value


def read_input(raw: RawValue, kind: type[Record]) -> Record:
    """The record that anybody gave, in any language; InvalidInput says what is wrong with it.

    The SDK's own reading would try the same input again and again, a workflow's for ever.
    """
    try:
        found = _read(raw, kind, _load_input)
    except ValidationError as error:
        wrong = "; ".join(_problem(found) for found in error.errors(include_url=False))
        raise InvalidInput(f"{kind.__name__}: {wrong}. {_fields(kind)}") from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(kind, error) from None
    if not isinstance(found, kind):
        raise InvalidInput(f"{kind.__name__}: give one JSON object. {_fields(kind)}")
    return found


def read_request(raw: RawValue, kind: type[Record]) -> Record:
    """As `read_input`, where a slip in the name of a setting must not leave it unread."""
    found = read_input(raw, kind)
    if told := misnamed(raw, kind):
        raise InvalidInput(told)
    return found


def misnamed(raw: RawValue, kind: type[Any]) -> str:
    """Which of an input's names is nearly a field's, and would be left unread; those of a later version are not.

    Raises InvalidInput as `read_input` does.
    """
    if raw.payload.metadata.get("encoding") != b"json/plain":
        return ""
    try:
        given = _load_input(raw.payload.data)
    except (ValueError, RecursionError) as error:
        raise _unreadable(kind, error) from None
    return _misnamed(given, kind)


def _misnamed(given: Any, kind: type[Any]) -> str:
    known = {field.name: field.type for field in fields(kind)}
    for name, value in given.items() if isinstance(given, dict) else ():
        if name in known:
            inner = known[name]
            told = _misnamed(value, inner) if isinstance(inner, type) and is_dataclass(inner) else ""
            if told:
                return told
            continue
        if meant := nearly(name, known):
            return f"{kind.__name__}: {name!r} is no field: did you mean {meant!r}?"
    return ""


def size_of(record: Any) -> int:
    """Bytes of the record as the default converter writes it: JSON that escapes all but ASCII."""
    return len(workflow.payload_converter().to_payload(record).data)


def _unreadable(kind: type[Any], error: Exception) -> InvalidInput:
    return InvalidInput(f"{kind.__name__}: the input cannot be read ({error}): give one JSON object. {_fields(kind)}")


def _problem(found: Any) -> str:
    where = ".".join(map(str, found["loc"])) or "input"
    value = "" if found["type"] == "missing" else f", not {str(found['input'])[:60]!r}"
    return f"{where}: {found['msg']}{value}"


def _fields(kind: type[Any]) -> str:
    return f"Its fields are {', '.join(field.name for field in fields(kind))}"


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
