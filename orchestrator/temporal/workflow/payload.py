"""Payloads: reading records from them, and limiting values to the size that a workflow history may have."""

import json
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, TypeVar, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.converter import DefaultPayloadConverter, PayloadConverter

from orchestrator.catalogue.tokens import compact
from orchestrator.common.fields import WANTED
from orchestrator.common.lines import whole_pairs
from orchestrator.errors import InvalidInput, PayloadTooLarge
from orchestrator.records.budget import Limits
from orchestrator.records.call import ToolResult
from orchestrator.records.request import RouteRequest
from orchestrator.records.run import Approval, RunRequest, StepOutcome

Record = TypeVar("Record")

NOTHING: Final = RawValue(Payload(metadata={"encoding": b"binary/null"}))
"""The input of a workflow or an activity without an argument."""

MAX_RESULT_BYTES = 192 * 1024
"""The maximum size of one result. Temporal warns above 512 KiB."""
MAX_INPUT_BYTES = 1024 * 1024
"""The maximum size of an activity's input. Above the server's limit of 2 MiB, the workflow is terminated."""
MAX_PAYLOAD_BYTES = 1_990_000
"""The maximum size of a run's result, or of its Checkpoint, for the same reason."""
MAX_TASK_BYTES = 128 * 1024
"""The maximum size of a run's task."""
MAX_PLAN_BYTES = 512 * 1024
"""The maximum size of the arguments of all steps of a run."""
MAX_RESULTS_BYTES = 512 * 1024
"""The maximum size of the results of all steps of a run, so that the run's result fits into a payload."""

_CLIENT_REQUESTS = (RunRequest, Limits, RouteRequest, Approval)
"""The records that people write by hand. A misspelt field in them is an error, and not one of a later version."""
_SPARE_LEVELS = 30
"""The levels of JSON that stay free around a result. pydantic reads 200 levels, and a Checkpoint has results some
levels deep.
"""


def read(raw: RawValue, kind: type[Record]) -> Record:
    """Return the record in one of our own payloads. A Decision takes 0.15 ms, and 3 to 7 ms with the SDK."""
    if raw.payload.metadata.get("encoding") == b"json/plain":
        adapter = _adapter(cast("Any", kind))
        return cast("Record", _read_json(raw.payload.data, adapter.validate_json))
    record: Record = _converter().from_payload(raw.payload, kind)
    return record


def _read_json(data: bytes, read_strictly: Callable[[bytes], Any]) -> Any:
    """Return the value of JSON by a strict reader. Any language's SDK may have written half of a surrogate pair."""
    try:
        return read_strictly(data)
    except ValueError:
        if rb"\ud" not in data.lower():
            raise
        text = whole_pairs(json.dumps(json.loads(data), ensure_ascii=False))
        return read_strictly(text.encode())


def written(record: Any) -> RawValue:
    """Return the payload of one of our own records. A Decision takes 0.1 ms, and 1 ms with the SDK, which copies it.

    A converter that the user gave makes the payload itself.
    """
    converter = _converter()
    if type(converter) is DefaultPayloadConverter:
        return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=to_json(record)))
    return RawValue(converter.to_payload(record))


def read_input(raw: RawValue, kind: type[Record]) -> Record:
    """Return the record that an activity or a workflow gets as input.

    With the SDK's own reading, an activity would repeat a wrong input again and again, and a workflow
    would do so forever.

    Raises:
        InvalidInput: The payload is not such a record.
    """
    try:
        record = read(raw, kind)
    except ValidationError as error:
        raise _wrong(
            kind, "; ".join(_problem(problem) for problem in error.errors(include_url=False))
        ) from None
    except (ValueError, RecursionError) as error:
        raise _wrong(kind, f"the input cannot be read ({error})") from None
    if not isinstance(record, kind):
        raise _wrong(kind, "give one JSON object")
    if raw.payload.metadata.get("encoding") == b"json/plain":
        _check_names(_read_json(raw.payload.data, from_json), kind)
    return record


def _check_names(record: Any, kind: Any) -> None:
    """Refuse an unknown field that a person wrote, and ignore a field of a later version of toolroute.

    toolroute writes all fields of its records. So an object with all known fields and other ones was written by a later
    version. An object that lacks known fields was written by hand. There, a client's request may have no unknown field,
    and other inputs none that is similar to a missing one.
    """
    fields = get_type_hints(kind)
    lacking = fields.keys() - record.keys()
    for name, value in record.items():
        if name in fields:
            if (
                isinstance(value, dict)
                and isinstance(inner := fields[name], type)
                and is_dataclass(inner)
            ):
                _check_names(value, inner)
        elif near := get_close_matches(name, lacking, 1):
            raise _wrong(kind, f"unknown field {name!r} (did you mean {near[0]!r}?)")
        elif kind in _CLIENT_REQUESTS:
            if lacking:
                raise _wrong(kind, f"unknown field {name!r}")
            logger = workflow.logger if workflow.in_workflow() else activity.logger
            logger.warning(
                "%s: ignored the field %r of another version of toolroute", kind.__name__, name
            )


def _problem(error: Any) -> str:
    where = ".".join(map(str, error["loc"])) or "input"
    if error["type"] == WANTED:
        return f"{where}={error['input']!r:.80}: {error['msg']}"
    value = (
        ""
        if error["type"] in ("missing", "json_invalid")
        else f", not {str(error['input'])[:60]!r}"
    )
    return f"{where}: {error['msg']}{value}"


def _wrong(kind: Any, what: str) -> InvalidInput:
    return InvalidInput(
        f"{kind.__name__}: {what}. Its fields are {', '.join(field.name for field in fields(kind))}"
    )


def prepare(*kinds: Any) -> None:
    """Create the readers of these records in advance. On a busy machine, a workflow's first step has two seconds."""
    for kind in kinds:
        _adapter(kind)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _converter() -> PayloadConverter:
    return workflow.payload_converter() if workflow.in_workflow() else activity.payload_converter()


def check_size(subject: str, value: Any, limit: int = MAX_INPUT_BYTES) -> int:
    """Return the size of a value in bytes.

    Args:
        subject: The name of the value, for the error.
        value: The value.
        limit: The maximum size.

    Raises:
        PayloadTooLarge: The value is too large for a history.
        InvalidInput: The value cannot be written as JSON.
    """
    try:
        size = len(_converter().to_payload(value).data)
    except Exception as error:
        raise InvalidInput(
            f"{subject} cannot be written as JSON ({error!r:.200}): give texts, numbers and lists"
        ) from None
    if size > limit:
        raise PayloadTooLarge(
            f"{subject} takes {size:,} bytes as JSON, but a workflow history allows {limit:,}: store the content and "
            "pass its path or address"
        )
    return size


def as_result(answer: Any) -> ToolResult:
    """Return the value of a function or a child workflow as a ToolResult.

    Text stays text, and other values become JSON.
    """
    if isinstance(answer, ToolResult):
        return answer
    if answer is None or isinstance(answer, str):
        return ToolResult(text=answer or "")
    structured = plain(answer)
    text = compact(answer if structured is None else structured)
    return ToolResult(text=text, structured=structured, truncated=structured is None)


def plain(value: Any) -> Any:
    """Return the value in a form that every JSON reader accepts: records as objects, times as texts, bytes in base64,
    NaN as null.

    Return None for a value that no reader accepts, because it is nested too deeply or has half of a character.
    """
    try:
        json_text = to_json(value, inf_nan_mode="null", bytes_mode="base64", fallback=str)
        from_json(b"[" * _SPARE_LEVELS + json_text + b"]" * _SPARE_LEVELS)
    except ValueError:
        return None
    return from_json(json_text)


def hold_bytes(result: ToolResult, limit: int = MAX_RESULT_BYTES) -> ToolResult:
    """Return the result within a number of bytes of JSON, without the mark of a cut.

    Text is cut, to nothing if the limit is too low for any text. Structured content is kept or removed.
    """
    text = result.text.encode("utf-8", "replace").decode()
    shortened = _beginning(text, limit)
    structured = plain(result.structured)
    if structured is not None and _size(shortened) + _size(structured) > limit:
        structured = None
    is_cut = shortened != text
    is_removed = structured is None and result.structured is not None
    truncated = result.truncated or is_cut or is_removed
    if is_cut:
        shortened = f"{shortened}\n[cut: {len(text) - len(shortened):,} of {len(text):,} characters left out]"
    return replace(result, text=shortened, structured=structured, truncated=truncated)


def _beginning(text: str, limit: int) -> str:
    """Return the beginning of a text that takes at most this number of bytes as JSON. It may be empty."""
    size = _size(text)
    while text and size > limit:
        text = text[: max(0, limit) * len(text) // size]
        size = _size(text)
    return text


def hold_together(outcomes: Iterable[StepOutcome]) -> tuple[StepOutcome, ...]:
    """Return a run's outcomes within MAX_RESULTS_BYTES of JSON. The largest results are cut first."""
    uncut = tuple(outcomes)
    limited = uncut
    limit = MAX_RESULT_BYTES
    while sum(map(_result_size, limited)) > MAX_RESULTS_BYTES:
        limit //= 2
        limited = tuple(
            replace(outcome, result=outcome.result and hold_bytes(outcome.result, limit))
            for outcome in uncut
        )
    return limited


def _result_size(outcome: StepOutcome) -> int:
    result = outcome.result
    return _size(result.text) + _size(result.structured) if result else 0


def _size(value: Any) -> int:
    return len(json.dumps(value, default=str))
