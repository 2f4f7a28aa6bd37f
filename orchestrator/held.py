"""Values held to what a workflow history can take. Pure and free of engines, so workflow code may use it."""

import json
from dataclasses import replace
from typing import Any

from orchestrator.errors import PayloadTooLarge
from orchestrator.plans import Plan, StepOutcome, StepStatus, ToolResult

MAX_RESULT_BYTES = 192 * 1024
"""Most of a result that enters a history, whatever its tokens; Temporal warns above 512 KiB, fails above 2 MiB."""

MAX_INPUT_BYTES = 1024 * 1024
"""Most that an activity is given: an input beyond the server's 2 MiB terminates the workflow that schedules it."""

BYTES_PER_TOKEN = 3
"""A low guess (o200k_base has 4.5 on JSON, 3 on Chinese): workflow code counts no tokens, a better counter would
change what running workflows decide."""


def as_result(answer: Any) -> ToolResult:
    """What a function or a child workflow returned, as a ToolResult: text as it is, anything else as JSON."""
    if isinstance(answer, ToolResult):
        return answer
    if answer is None or isinstance(answer, str):
        return ToolResult(text=answer or "")
    written = json.dumps(answer, separators=(",", ":"), ensure_ascii=False, default=str)
    return ToolResult(text=written, structured=json.loads(written))


def hold_bytes(result: ToolResult, limit: int = MAX_RESULT_BYTES) -> ToolResult:
    """The result within so many bytes of JSON: the text cut and marked, structured content dropped as a whole."""
    text, truncated, structured = result.text, result.truncated, result.structured
    size = len(json.dumps(text))
    if size > limit:
        kept = text[: limit * len(text) // (2 * size)]
        text, truncated = f"{kept}\n[cut: {len(text) - len(kept):,} of {len(text):,} characters left out]", True
    if structured is not None and len(json.dumps(structured, default=str)) > limit:
        structured, truncated = None, True
    return replace(result, text=text, structured=structured, truncated=truncated)


def hold_roughly(result: ToolResult, max_tokens: int) -> ToolResult:
    """The result of a child workflow within its allowance, by bytes."""
    held = hold_bytes(result, min(MAX_RESULT_BYTES, max_tokens * BYTES_PER_TOKEN))
    return replace(held, tokens=-(-len(held.text.encode("utf-8", "replace")) // BYTES_PER_TOKEN))


def check_size(what: str, value: Any) -> None:
    """Raises PayloadTooLarge for a value that must not be given to an activity."""
    size = len(json.dumps(value, default=str))
    if size > MAX_INPUT_BYTES:
        raise PayloadTooLarge(
            f"{what} take {size:,} bytes as JSON, at most {MAX_INPUT_BYTES:,} fit a workflow history: "
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


def _said(outcome: StepOutcome, max_tokens: int) -> str:
    """What the step says, cut to its share by the tokens that were counted for its result."""
    result = outcome.result
    if outcome.status is not StepStatus.DONE or result is None:
        return f"{outcome.status.replace('_', ' ')}: {outcome.reason}"
    if result.tokens <= max_tokens:
        return result.text
    kept = result.text[: len(result.text) * max_tokens // result.tokens]
    return f"{kept}\n[cut: the whole result is that of step {outcome.step}]"
