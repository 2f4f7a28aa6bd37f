"""A model's part in a run, on the workflow's side: late arguments before a step, and the answer after all of them.

Deterministic: what is asked for is cut by characters, since workflow code counts no tokens. What a model does not give
is told, never made up: a step without its arguments ends `needs_input`, for an answer the results stand.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from temporalio.exceptions import FailureError

from orchestrator.records.completion import FILLING_TOKENS, NO_MODEL, CompleteRequest, Completion, Filled, Purpose
from orchestrator.records.plan import Plan, Step
from orchestrator.records.run import StepOutcome, StepStatus
from orchestrator.records.tool import Tool
from orchestrator.temporal.call import tokens_of, why_failed
from orchestrator.temporal.ending import was_cancelled
from orchestrator.temporal.held import compose, how_it_ended

Complete = Callable[[CompleteRequest], Awaitable[Completion]]

ANSWER_SHARE = 4
"""One part in so many of a completion's tokens is for what it writes."""
LEAST_FOR_ANSWER = 1_000
"""A reserve below this leaves no room for a model's answer."""
_CHARS_PER_TOKEN = 5
"""A high guess: the activity counts, and cuts what is still too long."""


async def fill(
    step: Step, tool: Tool, plan: Plan, outcomes: Mapping[str, StepOutcome], allowance: int, complete: Complete
) -> Filled:
    """Asks the model for the step's late arguments, from what the steps before it said. Raises only when cancelled."""
    most = min(FILLING_TOKENS, allowance // 2)
    request = CompleteRequest(
        purpose=Purpose.ARGUMENTS,
        task=f"{plan.task}\n\nThis step: {step.task}",
        results=_said([outcomes[name] for name in _before(step, plan)], most),
        tool=tool,
        wanted=step.late,
        known=step.arguments,
        max_tokens=most,
        answer_tokens=most // ANSWER_SHARE,
    )
    try:
        got = await complete(request)
    except (FailureError, asyncio.CancelledError) as error:
        if was_cancelled(error):
            raise
        wanted = ", ".join(f"{step.id}.{name}" for name in step.late)
        return Filled(tokens=tokens_of(error), reason=f"no model filled {wanted} ({': '.join(why_failed(error))})")
    if got.missing:
        missing = ", ".join(f"{step.id}.{name}" for name in got.missing)
        return Filled(tokens=got.usage.total, reason=f"not in the earlier results, and never guessed: {missing}")
    return Filled(arguments=got.arguments, tokens=got.usage.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The run's answer, the tokens that it took, and why no model wrote it where one was to."""

    text: str
    tokens: int = 0
    warnings: tuple[str, ...] = ()


async def answer(plan: Plan, outcomes: Sequence[StepOutcome], reserve: int, complete: Complete) -> Answer:
    """The model's answer out of the reserve; else the results as they came. Raises only when cancelled."""
    if plan.choice is not None and plan.choice.answer:
        return Answer(text=plan.choice.answer)
    listed = compose(plan, tuple(outcomes), reserve)
    if plan.model == NO_MODEL or not any(outcome.status is StepStatus.DONE for outcome in outcomes):
        return Answer(text=listed)
    if reserve < LEAST_FOR_ANSWER:
        told = (
            f"reserve_for_synthesis={reserve:,} leaves no model room for an answer: give at least {LEAST_FOR_ANSWER:,}"
        )
        return Answer(text=listed, warnings=(told,))
    request = CompleteRequest(
        purpose=Purpose.ANSWER,
        task=plan.task,
        results=_said(outcomes, reserve),
        max_tokens=reserve,
        answer_tokens=reserve // ANSWER_SHARE,
    )
    try:
        got = await complete(request)
    except (FailureError, asyncio.CancelledError) as error:
        if was_cancelled(error):
            raise
        told = f"results as they came, no model wrote ({': '.join(why_failed(error))})"
        return Answer(text=listed, tokens=tokens_of(error), warnings=(told,))
    return Answer(text=got.text, tokens=got.usage.total)


def _before(step: Step, plan: Plan) -> list[str]:
    """The steps that must be done before this one, in the plan's order."""
    after = {other.id: other.depends_on for other in plan.steps}
    found: set[str] = set()
    waiting = list(step.depends_on)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += after.get(name, ())
    return [other.id for other in plan.steps if other.id in found]


def _said(outcomes: Sequence[StepOutcome], max_tokens: int) -> tuple[tuple[str, str], ...]:
    """Each step's result, or how it ended, with a title; cut, so that a request stays small in a history."""
    most = _CHARS_PER_TOKEN * max_tokens // max(1, len(outcomes))
    return tuple((f"{outcome.step} {outcome.tool}", _told(outcome)[:most]) for outcome in outcomes)


def _told(outcome: StepOutcome) -> str:
    if outcome.result is not None and outcome.status is StepStatus.DONE:
        return outcome.result.text
    return how_it_ended(outcome)
