"""A model's part in a run, on the workflow's side: late arguments before a step, and the answer after all steps.

This module is deterministic. Texts are cut by characters, because workflow code counts no tokens. If the model fails,
the reason is reported: a step without its arguments ends with `needs_input`, and the results replace the answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from temporalio.exceptions import FailureError

from orchestrator.common.lines import inline
from orchestrator.records.completion import (
    FILLING_TOKENS,
    MOST_ASKED,
    NO_MODEL,
    CompleteRequest,
    Completion,
    Filled,
    Purpose,
)
from orchestrator.records.plan import Plan, Step
from orchestrator.records.run import StepOutcome, StepStatus
from orchestrator.records.tool import Tool
from orchestrator.records.usage import Usage
from orchestrator.temporal.workflow.call import described, tokens_of, was_cancelled

Complete = Callable[[CompleteRequest], Awaitable[Completion]]

ANSWER_SHARE = 4
"""A quarter of a completion's tokens is for the model's answer."""
LEAST_FOR_ANSWER = 1_000
"""The minimum reserve, in tokens, for which a model is asked for the answer."""
_CHARS_PER_TOKEN = 5
"""A high estimate. The activity counts tokens, and cuts what is still too long."""


async def fill(
    step: Step,
    tool: Tool,
    plan: Plan,
    outcomes: Mapping[str, StepOutcome],
    allowance: int,
    complete: Complete,
) -> Filled:
    """Ask the model for the step's late arguments, with the results of earlier steps.

    It raises only if it is cancelled.

    Args:
        step: The step.
        tool: Its tool.
        plan: The plan.
        outcomes: The ends of the earlier steps, by id.
        allowance: The tokens that the step may use.
        complete: Calls the model.
    """
    most = min(FILLING_TOKENS, allowance // (MOST_ASKED + 1))  # one share is for the call
    before = [outcomes[name] for name in _before(step, plan)]
    request = CompleteRequest(
        purpose=Purpose.ARGUMENTS,
        task=f"{plan.task}\n\nThis step: {step.task}",
        results=_results(before, most),
        whole={
            _title(outcome): outcome.result.whole
            for outcome in before
            if outcome.result and outcome.result.whole
        },
        tool=tool,
        wanted=step.late,
        known=step.arguments,
        max_tokens=most,
        answer_tokens=most // ANSWER_SHARE,
    )
    completion, failure = await _asked(request, complete)
    missing = step.late if failure else completion.missing
    names = ", ".join(f"{step.id}.{name}" for name in missing)
    reason = ""
    if failure:
        reason = f"the model could not fill {names} ({failure})"
    elif names:
        reason = f"missing: {names}; the results of earlier steps do not have these values"
    arguments = {} if reason else completion.arguments
    return Filled(arguments=arguments, tokens=completion.usage.total, reason=reason)


async def answer(
    plan: Plan, outcomes: Sequence[StepOutcome], reserve: int, complete: Complete
) -> tuple[str, int, tuple[str, ...]]:
    """Return the answer, the tokens that it used, and why no model wrote it. It raises only if it is cancelled.

    Args:
        plan: The plan.
        outcomes: The ends of all steps.
        reserve: The tokens for the answer.
        complete: Calls the model.
    """
    if plan.choice is not None and plan.choice.answer:
        return plan.choice.answer, 0, ()
    listed = compose(plan, outcomes, reserve)
    if plan.model == NO_MODEL or not any(outcome.status is StepStatus.DONE for outcome in outcomes):
        return listed, 0, ()
    if reserve < LEAST_FOR_ANSWER:
        few = f"reserve_for_synthesis={reserve:,} is too low for a model's answer"
        return listed, 0, (f"{few}; give at least {LEAST_FOR_ANSWER:,}",)
    request = CompleteRequest(
        purpose=Purpose.ANSWER,
        task=plan.task,
        results=_results(outcomes, reserve),
        max_tokens=reserve,
        answer_tokens=reserve // ANSWER_SHARE,
    )
    completion, failure = await _asked(request, complete)
    tokens = completion.usage.total
    if failure:
        warning = f"the answer lists the results, because no model wrote it ({failure})"
        return listed, tokens, (warning,)
    return completion.text, tokens, ()


async def _asked(request: CompleteRequest, complete: Complete) -> tuple[Completion, str]:
    """Return the model's completion and "". After a failure, return the tokens that it used and the reason."""
    try:
        return await complete(request), ""
    except (FailureError, asyncio.CancelledError) as error:
        if was_cancelled(error):
            raise
        return Completion(usage=Usage(input=tokens_of(error))), described(error)


def compose(plan: Plan, outcomes: Sequence[StepOutcome], max_tokens: int) -> str:
    """Return the answer without a model: the tools' results in the plan's order, cut to the reserve.

    Args:
        plan: The plan.
        outcomes: The ends of all steps.
        max_tokens: The maximum size of the answer, in tokens.
    """
    if not plan.steps:
        return "; ".join(plan.reasons)
    most = _CHARS_PER_TOKEN * max_tokens // len(plan.steps)
    if len(outcomes) == 1:
        return _result_text(outcomes[0], most)
    return "\n".join(
        f"{outcome.step} {inline(outcome.tool)}: {_result_text(outcome, most)}"
        for outcome in outcomes
    )


def _before(step: Step, plan: Plan) -> list[str]:
    """Return the ids of the steps on which this one depends, directly or not, in the plan's order."""
    earlier = set(step.depends_on)
    for candidate in reversed(plan.steps):
        earlier |= set(candidate.depends_on) if candidate.id in earlier else set()
    return [candidate.id for candidate in plan.steps if candidate.id in earlier]


def _results(outcomes: Sequence[StepOutcome], max_tokens: int) -> tuple[tuple[str, str], ...]:
    """Return each step's title and result, cut so that the request stays small in a history."""
    most = _CHARS_PER_TOKEN * max_tokens // max(1, len(outcomes))
    return tuple((_title(outcome), _result_text(outcome, most)) for outcome in outcomes)


def _title(outcome: StepOutcome) -> str:
    return f"{outcome.step} {outcome.tool}"


def _result_text(outcome: StepOutcome, most: int) -> str:
    """Return the step's result, or the reason for having no result, cut to a number of characters."""
    text = f"{outcome.status.in_words}: {inline(outcome.reason)}"
    if outcome.result is not None and outcome.status is StepStatus.DONE:
        text = outcome.result.text
    left_out = len(text) - most
    return text if left_out <= 0 else f"{text[:most]}\n[cut: {left_out:,} characters left out]"
