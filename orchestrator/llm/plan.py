"""What to do with a Decision: answer, use one tool, or plan. By a model among the matches, else by the planner.

The LLM route and the plan see the Decision's matches and nothing else of the catalogue. What a model gets wrong goes
back once; then, and when it cannot be reached, the deterministic plan stands, marked `none` and with the reason.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.catalogue.tokens import compact, cut
from orchestrator.errors import ModelRefused, ModelUnavailable, ToolrouteError
from orchestrator.llm import context
from orchestrator.llm.client import Models, Reply
from orchestrator.llm.prompts import CHOOSE, PLAN
from orchestrator.llm.structured import Message, Shape
from orchestrator.planning.drafts import (
    ChosenShape,
    PlanShape,
    arguments_so_far,
    bound,
    faults_of_choice,
    faults_of_plan,
    steps_of,
)
from orchestrator.planning.planner import finish, plan
from orchestrator.records.completion import FILLING_TOKENS, Action, Choice, Usage
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, PlanRequest, Step
from orchestrator.records.request import Turn

TURNS = 6
TURNS_TOKENS = 1_500
"""Of the latest turns together; what they are about stands in the matches already."""

GiveUp = Callable[[ToolrouteError], bool]
"""Whether to go on without the model after this error; an activity raises it instead, for Temporal to try again."""


async def choose(
    models: Models | None,
    decision: Decision,
    *,
    arguments: Mapping[str, Any] | None = None,
    conversation: Sequence[Turn] = (),
    give_up: GiveUp = lambda _: True,
) -> Choice:
    """Answer directly, one tool, or a plan; without a model (or when it fails) what the deterministic plan would do."""
    request = PlanRequest(decision=decision, arguments=dict(arguments or {}), conversation=tuple(conversation))
    if models is None:
        return _without_model(request, None)
    try:
        return await _chosen(models, request)
    except ModelRefused as error:
        return Choice(action=Action.NONE, reasons=(str(error),), model=models.route_model, usage=error.usage or Usage())
    except ToolrouteError as error:
        if not give_up(error):
            raise
        return _without_model(request, error)


async def make_plan(
    models: Models | None,
    request: PlanRequest,
    *,
    give_up: GiveUp = lambda _: True,
    within_s: float | None = None,
) -> Plan:
    """The plan for a Decision: the model's, or the deterministic one with the reason in its warnings.

    What a model declines is not planned without it either. All that it is asked may take `within_s` seconds.
    """
    request.validate()
    if models is None:
        return plan(request)
    if request.first is not None:
        return _filled_later(plan(request), request.first)
    if request.without_model:
        return _plan_without(request, request.without_model)
    try:
        return await _in_time(models, request, within_s)
    except ModelRefused as error:
        return replace(finish(request, (), (str(error),)), model=models.plan_model, usage=error.usage or Usage())
    except ToolrouteError as error:
        if not give_up(error):
            raise
        return replace(_plan_without(request, error), usage=_usage_of(error))


async def _chosen(models: Models, request: PlanRequest) -> Choice:
    decision = request.decision
    reply = await _ask(
        models, models.route_model, CHOOSE, request, ChosenShape, lambda c: faults_of_choice(decision, c)
    )
    chosen, tool = reply.value, decision.tool(reply.value.tool)
    return Choice(
        action=Action(chosen.action),
        reasons=tuple(chosen.reasons),
        confidence=chosen.confidence,
        answer=chosen.answer if chosen.action == "answer" else "",
        tool=tool.key if tool and chosen.action == "tool" else "",
        arguments=arguments_so_far(tool, chosen.arguments)[0] if tool and chosen.action == "tool" else {},
        model=reply.model,
        usage=reply.usage,
    )


async def _planned(models: Models, request: PlanRequest) -> Plan:
    choice = await _chosen(models, request)
    made = replace(finish(request, (), choice.reasons), model=choice.model, choice=choice, usage=choice.usage)
    if choice.action in (Action.ANSWER, Action.NONE):
        return made
    if choice.confidence < request.min_confidence:
        sure = f"{choice.model} is {choice.confidence:.0%} sure (needed: {request.min_confidence:.0%})"
        return replace(made, reasons=(*choice.reasons, f"{sure}; nothing is called"))
    return _one_step(request, made, choice) if choice.action is Action.TOOL else await _steps(models, request, choice)


def _one_step(request: PlanRequest, made: Plan, choice: Choice) -> Plan:
    tool = next(match.tool for match in request.decision.matches if match.tool.key == choice.tool)
    blank = Step(id="s1", task=made.task, tool="", why="; ".join(choice.reasons))
    steps = (bound(blank, tool, choice.arguments, request.arguments),)
    planned = finish(request, steps, ())
    return replace(made, steps=steps, id=planned.id, warnings=planned.warnings)


async def _steps(models: Models, request: PlanRequest, choice: Choice) -> Plan:
    decision, given = request.decision, request.arguments
    try:
        reply = await _ask(models, models.plan_model, PLAN, request, PlanShape, lambda p: faults_of_plan(decision, p))
    except ToolrouteError as error:
        error.usage = choice.usage + (error.usage or Usage())
        raise
    steps = steps_of(decision, reply.value, given)
    reasons = (*choice.reasons, *reply.value.reasons)
    usage = choice.usage + reply.usage
    return replace(finish(request, steps, reasons), model=reply.model, choice=choice, usage=usage)


async def _ask(
    models: Models,
    model: str,
    told: str,
    request: PlanRequest,
    shape: type[Shape],
    check: Callable[[Shape], list[str]],
) -> Reply[Shape]:
    given, decision = request.arguments, request.decision
    task = _after(request.conversation, decision.query)
    content = context.written(
        task,
        [match.tool for match in decision.matches],
        {"Given arguments": compact(given)} if given else {},
        graph=context.relations(decision),
    )
    messages: list[Message] = [{"role": "system", "content": told}, {"role": "user", "content": content}]
    return await models.ask(model, messages, shape, max_output_tokens=context.ANSWER_TOKENS, check=check)


def _after(turns: Sequence[Turn], query: str) -> str:
    """The task, and before it the latest turns that it may lean on, each cut to its share."""
    if not turns:
        return query
    latest = turns[-TURNS:]
    said = [f"- {turn.role}: {cut(' '.join(turn.text.split()), TURNS_TOKENS // len(latest))[0]}" for turn in latest]
    return "\n".join(["Earlier turns, the latest last:", *said, "", f"The task now: {query}"])


async def _in_time(models: Models, request: PlanRequest, within_s: float | None) -> Plan:
    try:
        async with asyncio.timeout(within_s):
            return await _planned(models, request)
    except TimeoutError:
        where = f"model {models.plan_model!r} at {models.where}"
        raise ModelUnavailable(f"{where} made no plan within {within_s:g} s: give plan_options more time") from None


def _plan_without(request: PlanRequest, why: ToolrouteError | str) -> Plan:
    made = plan(request)
    return replace(made, warnings=(_why_without(why), *made.warnings))


def _filled_later(made: Plan, first: Plan) -> Plan:
    """Steps that a further route gave a tool: what their text does not hold, the run's model fills."""
    unbound = {step.id for step in first.unbound}
    steps = (_late(step) if step.id in unbound and step.missing else step for step in made.steps)
    return replace(made, steps=tuple(steps))


def _late(step: Step) -> Step:
    return replace(step, late=step.missing, missing=(), expected_tokens=step.expected_tokens + FILLING_TOKENS)


def _without_model(request: PlanRequest, error: ToolrouteError | None) -> Choice:
    made, decision = plan(request), request.decision
    actions = {0: Action.NONE, 1: Action.TOOL}
    only = made.steps[0] if len(made.steps) == 1 else None
    return Choice(
        action=actions.get(len(made.steps), Action.PLAN),
        reasons=made.reasons,
        confidence=decision.confidence,
        tool=only.tool if only else "",
        arguments=only.arguments if only else {},
        usage=_usage_of(error),
        warnings=(_why_without(error),) if error else (),
    )


def _usage_of(error: ToolrouteError | None) -> Usage:
    return (error.usage if error else None) or Usage()


def _why_without(why: ToolrouteError | str) -> str:
    return f"decided without a model: {why}"
