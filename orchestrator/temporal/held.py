"""Values held to what a workflow history can take. Pure and free of engines, so workflow code may use it."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from orchestrator.errors import PayloadTooLarge
from orchestrator.records.call import ToolResult
from orchestrator.records.plan import Plan
from orchestrator.records.run import StepOutcome, StepStatus

MAX_RESULT_BYTES = 192 * 1024
"""Most of a result that enters a history, whatever its tokens; Temporal warns above 512 KiB."""

MAX_INPUT_BYTES = 1024 * 1024
"""Most that an activity is given: an input beyond the server's 2 MiB terminates the workflow that schedules it."""

MAX_PAYLOAD_BYTES = 1_990_000
"""Most of a run's end: a result, or the start of the next execution, beyond 2 MiB terminates the workflow too."""

MAX_TASK_BYTES, MAX_PLAN_BYTES, MAX_RESULTS_BYTES = 128 * 1024, 512 * 1024, 512 * 1024
"""Most of a run's task, of the arguments of its steps, and of its results, each together: so that a run's end fits.

The task stands there four times (Decision, further Decision, plan, steps) beside two Decisions of 128 KiB.
"""

MAX_LEVELS = 320
"""Most levels of lists and objects in a result: to write one, the SDK takes two of Python's 1,000 calls a level."""

CHARS_PER_TOKEN = 8
"""More than a token of prose has. Blanks have hundreds a token, so what is cut by tokens is held by characters too."""

BYTES_PER_TOKEN = 3
"""A low guess (o200k_base has 4.5 on JSON, 3 on Chinese): workflow code counts no tokens, a better counter would
change what running workflows decide."""


def as_result(answer: Any) -> ToolResult:
    """What a function or a child workflow returned, as a ToolResult: text as it is, anything else as JSON."""
    if isinstance(answer, ToolResult):
        return answer
    if answer is None or isinstance(answer, str):
        return ToolResult(text=answer or "")
    written = json.dumps(readable(answer), separators=(",", ":"), ensure_ascii=False, default=str)
    return ToolResult(text=written, structured=json.loads(written))


def readable(value: Any) -> Any:
    """The value as every reader of JSON takes it: half a character (a cut emoji) replaced, what is no number null."""
    written = json.dumps(value, ensure_ascii=False, default=str)
    whole = written if written.isascii() else written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if whole == written and not ("NaN" in written or "Infinity" in written):
        return value
    return json.loads(whole, parse_constant=lambda _: None)


def is_deeper(value: Any, levels: int) -> bool:
    """Whether more lists and objects than that stand one within the other."""
    found = [value]
    for _ in range(levels):
        found = [inner for outer in found for inner in _parts(outer)]
    return any(isinstance(inner, (dict, list, tuple)) for inner in found)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def hold_bytes(result: ToolResult, limit: int = MAX_RESULT_BYTES) -> ToolResult:
    """The result within so many bytes of JSON: the text cut (a mark tells), structured content dropped as a whole."""
    text, truncated, structured = readable(result.text), result.truncated, readable(result.structured)
    size, kept = _size(text), text
    while kept and (left := _size(kept)) > limit:  # Once, unless most of the bytes stand at the beginning.
        kept = kept[: limit * len(kept) // (2 * left)]
    if kept != text:
        text, truncated = f"{kept}\n[cut: {len(text) - len(kept):,} of {len(text):,} characters left out]", True
    if structured is not None and (min(size, limit) + _size(structured) > limit or is_deeper(structured, MAX_LEVELS)):
        structured, truncated = None, True
    return replace(result, text=text, structured=structured, truncated=truncated)


def hold_together(outcomes: Iterable[StepOutcome]) -> tuple[StepOutcome, ...]:
    """The outcomes of a run within MAX_RESULTS_BYTES of JSON: where they take more, the largest results are cut."""
    whole = held = tuple(outcomes)
    each = MAX_RESULT_BYTES
    while sum(map(_result_size, held)) > MAX_RESULTS_BYTES:
        each //= 2
        held = tuple(replace(one, result=one.result and hold_bytes(one.result, each)) for one in whole)
    return held


def _result_size(outcome: StepOutcome) -> int:
    result = outcome.result
    return _size(result.text) + _size(result.structured) if result else 0


def hold_roughly(result: ToolResult, max_tokens: int) -> ToolResult:
    """The result of a child workflow within its allowance, by bytes."""
    held = hold_bytes(result, min(MAX_RESULT_BYTES, max_tokens * BYTES_PER_TOKEN))
    return replace(held, tokens=-(-len(held.text.encode("utf-8", "replace")) // BYTES_PER_TOKEN))


def _size(value: Any) -> int:
    return len(json.dumps(value, default=str))


def check_size(what: str, value: Any, limit: int = MAX_INPUT_BYTES) -> None:
    """Raises PayloadTooLarge for a value that must not be given to an activity."""
    check_bytes(what, _size(value), limit)


def check_bytes(what: str, size: int, limit: int) -> None:
    """The same for a size that is known."""
    if size > limit:
        raise PayloadTooLarge(
            f"{what} takes {size:,} bytes as JSON, at most {limit:,} fit a workflow history: "
            "store the content and pass its path or address"
        )


def compose(plan: Plan, outcomes: tuple[StepOutcome, ...], max_tokens: int) -> str:
    """The answer without a model: what the tools said, in the plan's order, within the synthesis reserve."""
    if not plan.steps:
        return "; ".join(plan.reasons)
    share = max_tokens // len(plan.steps)
    texts = [_said(outcome, share) for outcome in outcomes]
    if len(texts) == 1:
        return texts[0]
    return "\n".join(f"{outcome.step} {outcome.tool}: {text}" for outcome, text in zip(outcomes, texts, strict=True))


def how_it_ended(outcome: StepOutcome) -> str:
    """What stands for the result of a step that has none."""
    return f"{outcome.status.replace('_', ' ')}: {outcome.reason}"


def _said(outcome: StepOutcome, max_tokens: int) -> str:
    """What the step says, cut to its share by the tokens that were counted for its result."""
    result = outcome.result
    if outcome.status is not StepStatus.DONE or result is None:
        return how_it_ended(outcome)
    most = max_tokens * CHARS_PER_TOKEN
    if result.tokens > max_tokens:
        most = min(most, len(result.text) * max_tokens // result.tokens)
    elif len(result.text) <= most:
        return result.text
    kept = result.text[:most]
    return f"{kept}\n[cut: the whole result is that of step {outcome.step}]"
