"""How a step stands and how it ends: what its progress and its outcome say, and why."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from temporalio.exceptions import ActivityError, is_cancelled_exception

from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.completion import Filled
from orchestrator.records.plan import Step
from orchestrator.records.run import StepOutcome, StepProgress, StepStatus
from orchestrator.records.tool import Tool
from orchestrator.temporal.call import nothing_was_sent, outcome_is_unknown, why_failed

MAX_REASON = 1000
"""Characters; the whole of a tool's own error stands in the result."""


def end(step: Step, status: StepStatus, reason: str = "", *, tokens: int = 0) -> StepOutcome:
    return StepOutcome(step=step.id, tool=step.tool, status=status, reason=reason[:MAX_REASON], tokens=tokens)


def standing(step: Step, status: StepStatus | None, outcome: StepOutcome | None, filled: Filled | None) -> StepProgress:
    """Where a step stands, with the arguments of its call while somebody is asked to approve it."""
    asked = status is StepStatus.NEEDS_APPROVAL
    return StepProgress(
        step=step.id,
        task=step.task[:200],
        tool=step.tool,
        status=status or StepStatus.PENDING,
        reason=outcome.reason[:300] if outcome else "",
        arguments={**step.arguments, **(filled.arguments if filled else {})} if asked else {},
    )


def cannot_start(step: Step, tool: Tool | None, outcomes: Mapping[str, StepOutcome]) -> StepOutcome | None:
    """Why a step ends before it begins, if it does."""
    failed = [name for name in step.depends_on if outcomes[name].status is not StepStatus.DONE]
    if failed:
        told = ", ".join(f"{name} ended {outcomes[name].status}" for name in failed)
        return end(step, StepStatus.SKIPPED, f"it follows a step that was not done: {told}")
    if tool is None:
        return end(step, StepStatus.FAILED, f"no tool of the catalogue fits {step.task!r}")
    if step.missing:
        needed = ", ".join(f"{step.id}.{name}" for name in step.missing)
        return end(step, StepStatus.NEEDS_INPUT, f"not in the task, and never guessed: {needed}")
    return None


def answered(step: Step, result: ToolResult, tokens: int) -> StepOutcome:
    """A step whose tool answered; the tool's own error is a failure with its result."""
    if result.is_error:
        return replace(end(step, StepStatus.FAILED, result.text, tokens=tokens), result=result)
    return replace(end(step, StepStatus.DONE, tokens=tokens), result=result)


def broke(step: Step, call: ToolCall, error: BaseException, tokens: int) -> StepOutcome:
    """A step whose call failed or was cancelled: honest about what may have happened all the same."""
    kind, message = why_failed(error)
    if was_cancelled(error) and call.replayable:
        return end(step, StepStatus.CANCELLED, "cancelled while it ran", tokens=tokens)
    before = error.__context__
    if was_cancelled(error) and isinstance(before, ActivityError) and nothing_was_sent(before):
        return end(step, StepStatus.CANCELLED, "cancelled before anything was sent", tokens=tokens)
    if was_cancelled(error) or outcome_is_unknown(error, call):
        reason = f"it was sent and its answer was lost ({kind}: {message}): see whether it took effect"
        return end(step, StepStatus.OUTCOME_UNKNOWN, reason, tokens=tokens)
    return end(step, StepStatus.FAILED, f"{kind}: {message}", tokens=tokens)


def was_cancelled(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError) or is_cancelled_exception(error)
