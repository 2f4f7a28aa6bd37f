"""Payloads: read records out of them, and hold values to what a workflow history takes."""

import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, TypeVar, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.converter import PayloadConverter

from orchestrator.catalogue.tokens import compact
from orchestrator.common.fields import WANTED
from orchestrator.errors import InvalidInput, PayloadTooLarge
from orchestrator.records.budget import Limits
from orchestrator.records.call import ToolResult
from orchestrator.records.request import RouteRequest
from orchestrator.records.run import Approval, RunRequest, StepOutcome

Record = TypeVar("Record")

NOTHING: Final = RawValue(Payload(metadata={"encoding": b"binary/null"}))
"""The input of a workflow or an activity that is given none."""

MAX_RESULT_BYTES = 192 * 1024
"""Most of one result; Temporal warns above 512 KiB."""
MAX_INPUT_BYTES = 1024 * 1024
"""Most of an activity's input: beyond the server's 2 MiB the workflow that schedules it is terminated."""
MAX_PAYLOAD_BYTES = 1_990_000
"""Most of a run's result, or of what it hands on to the next execution, for the same reason."""
MAX_TASK_BYTES, MAX_PLAN_BYTES, MAX_RESULTS_BYTES = 128 * 1024, 512 * 1024, 512 * 1024
"""Most of a run's task, of its steps' arguments together and of their results together, so that a run's end fits."""

_CLIENT_REQUESTS = (RunRequest, Limits, RouteRequest, Approval)
_SPARE_LEVELS = 30
"""Levels of JSON left free around a result: pydantic reads 200, and a Checkpoint holds a result a few levels deep."""


def read(raw: RawValue, kind: type[Record]) -> Record:
    """Return the record in a payload of our own: 0.15 ms for a Decision that takes the SDK 3 to 7."""
    if raw.payload.metadata.get("encoding") == b"json/plain":
        return cast("Record", _adapter(cast("Any", kind)).validate_json(raw.payload.data))
    found: Record = _converter().from_payload(raw.payload, kind)
    return found


def read_input(raw: RawValue, kind: type[Record]) -> Record:
    """Return the record that an activity or a workflow is given; raise InvalidInput where the payload can't be one.

    The SDK's own reading would try the same input again and again, a workflow's for ever.
    """
    try:
        found = read(raw, kind)
    except ValidationError as error:
        raise _wrong(kind, "; ".join(_problem(one) for one in error.errors(include_url=False))) from None
    except (ValueError, RecursionError) as error:
        raise _wrong(kind, f"the input can't be read ({error})") from None
    if not isinstance(found, kind):
        raise _wrong(kind, "give one JSON object")
    if raw.payload.metadata.get("encoding") == b"json/plain":
        _check_names(from_json(raw.payload.data), kind)
    return found


def _check_names(given: Any, kind: Any) -> None:
    """Refuse an unknown name that a person wrote, and ignore one that a later version of toolroute wrote.

    Toolroute writes all fields of its records. An object that has all fields that are known here, and others, is the
    record of a later version. One that lacks some was written by hand: there no setting of a client's request may be
    left unread, and in other inputs none that is nearly the name of a field that is lacking.
    """
    known = get_type_hints(kind)
    lacking = known.keys() - given.keys()
    for name, value in given.items():
        if name in known:
            if isinstance(value, dict) and isinstance(inner := known[name], type) and is_dataclass(inner):
                _check_names(value, inner)
        elif near := get_close_matches(name, lacking, 1):
            raise _wrong(kind, f"unknown field {name!r} (did you mean {near[0]!r}?)")
        elif kind in _CLIENT_REQUESTS:
            if lacking:
                raise _wrong(kind, f"unknown field {name!r}")
            logger = workflow.logger if workflow.in_workflow() else activity.logger
            logger.warning("%s: ignored the field %r of another version of toolroute", kind.__name__, name)


def _problem(found: Any) -> str:
    where = ".".join(map(str, found["loc"])) or "input"
    if found["type"] == WANTED:
        return f"{where}={found['input']!r:.80}: {found['msg']}"
    value = "" if found["type"] in ("missing", "json_invalid") else f", not {str(found['input'])[:60]!r}"
    return f"{where}: {found['msg']}{value}"


def _wrong(kind: Any, what: str) -> InvalidInput:
    return InvalidInput(f"{kind.__name__}: {what}. Its fields are {', '.join(field.name for field in fields(kind))}")


def prepare(*kinds: Any) -> None:
    """Make what reads these records, for a workflow has two seconds for its first step on a busy machine."""
    for kind in kinds:
        _adapter(kind)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _converter() -> PayloadConverter:
    return workflow.payload_converter() if workflow.in_workflow() else activity.payload_converter()


def check_size(what: str, value: Any, limit: int = MAX_INPUT_BYTES) -> int:
    """Return the value's bytes; PayloadTooLarge for what a history can't hold, InvalidInput for what is no JSON."""
    try:
        size = len(_converter().to_payload(value).data)
    except Exception as error:
        raise InvalidInput(f"{what} can't be written as JSON ({error!r:.200}): give texts, numbers and lists") from None
    if size > limit:
        raise PayloadTooLarge(
            f"{what} takes {size:,} bytes as JSON, at most {limit:,} fit a workflow history: "
            "store the content and pass its path or address"
        )
    return size


def as_result(answer: Any) -> ToolResult:
    """Return what a function or a child workflow gave as a ToolResult: text as it is, anything else as JSON."""
    if isinstance(answer, ToolResult):
        return answer
    if answer is None or isinstance(answer, str):
        return ToolResult(text=answer or "")
    structured = plain(answer)
    text = compact(answer if structured is None else structured)
    return ToolResult(text=text, structured=structured, truncated=structured is None)


def plain(value: Any) -> Any:
    """Return the value as every JSON reader takes it: records as objects, times as texts, bytes in base64, NaN null.

    None stands for a value that no reader takes: one nested too deep, or with half a character.
    """
    try:
        written = to_json(value, inf_nan_mode="null", bytes_mode="base64", fallback=str)
        from_json(b"[" * _SPARE_LEVELS + written + b"]" * _SPARE_LEVELS)
    except ValueError:
        return None
    return from_json(written)


def hold_bytes(result: ToolResult, limit: int = MAX_RESULT_BYTES) -> ToolResult:
    """Return the result within `limit` bytes of JSON: text is cut with a mark, structured content kept or dropped."""
    text = kept = result.text.encode("utf-8", "replace").decode()
    while (size := _size(kept)) > limit:
        kept = kept[: limit * len(kept) // size]
    structured = plain(result.structured)
    if structured is not None and _size(kept) + _size(structured) > limit:
        structured = None
    truncated = result.truncated or kept != text or (structured is None and result.structured is not None)
    if kept != text:
        kept = f"{kept}\n[cut: {len(text) - len(kept):,} of {len(text):,} characters left out]"
    return replace(result, text=kept, structured=structured, truncated=truncated)


def hold_together(outcomes: Iterable[StepOutcome]) -> tuple[StepOutcome, ...]:
    """Return a run's outcomes within MAX_RESULTS_BYTES of JSON: where they take more, the largest results are cut."""
    whole = held = tuple(outcomes)
    each = MAX_RESULT_BYTES
    while sum(_size(one.result.text) + _size(one.result.structured) for one in held if one.result) > MAX_RESULTS_BYTES:
        each //= 2
        held = tuple(replace(one, result=one.result and hold_bytes(one.result, each)) for one in whole)
    return held


def _size(value: Any) -> int:
    return len(json.dumps(value, default=str))
