"""Lets a model choose for a Decision whether to answer, use one tool, or plan. Without a model the planner plans.

The model sees only the Decision's matches. Its plan is checked against these matches and their schemas. Faults are sent
back once. If faults remain, or the model cannot be reached, the planner's plan is used, marked `none` and with the
reason. Approval, not this module, decides which calls are allowed.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from orchestrator import telemetry
from orchestrator.catalogue.export import keys_by_name, parameters
from orchestrator.catalogue.resolve import read_arguments
from orchestrator.catalogue.tokens import compact, count_tokens, cut
from orchestrator.errors import (
    InvalidArguments,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    ToolrouteError,
)
from orchestrator.llm import context
from orchestrator.llm.answers import Shape
from orchestrator.llm.client import Models, spent_before
from orchestrator.llm.prompts import CHOOSE, PLAN
from orchestrator.planning.arguments import check_so_far, coerce, given_for
from orchestrator.planning.planner import finish, plan
from orchestrator.records.completion import Action, Choice
from orchestrator.records.decision import Decision
from orchestrator.records.plan import MAX_STEPS, Plan, PlanRequest, Step
from orchestrator.records.request import Turn
from orchestrator.records.tool import Tool
from orchestrator.records.usage import Usage

logger = logging.getLogger(__package__)

PROMPT_TOKENS = 900
"""The tokens for the instructions and the schema of the answer, without the context."""
TURNS = 6
TURNS_TOKENS = 1_500
"""The maximum number of tokens of the latest turns together. The matches already show their subject."""
_PLACEHOLDER = re.compile(
    r"\{\{|\$\{|<(?:result|output|from)\b|\bs\d+\.(?:result|output)\b", re.IGNORECASE
)

GiveUp = Callable[[ToolrouteError], bool]
"""Returns True to continue without the model after an error. An activity raises the error instead, so that
Temporal retries."""


# Defaults come from factories: OpenAI's strict mode refuses a schema that states them.
def _as_text(arguments: Any) -> Any:
    """Return arguments as text: models also write them as the object itself, or as null."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else compact(arguments)


_Arguments = Annotated[str, BeforeValidator(_as_text)]


class ChosenShape(BaseModel):
    """Read a model's answer to CHOOSE."""

    action: Literal["answer", "tool", "plan", "none"]
    reasons: list[str] = Field(default_factory=list)
    confidence: float = Field(default_factory=float)
    answer: str = Field(default_factory=str)
    tool: str = Field(default_factory=str)
    arguments: _Arguments = Field(default_factory=str)


class StepShape(BaseModel):
    """A step in the model's form. `arguments` is JSON as text, because strict schemas have no open objects."""

    id: str
    task: str
    tool: str
    arguments: _Arguments = Field(default_factory=str)
    from_results: list[str] = Field(default_factory=list)
    depends_on: list[str] = Field(default_factory=list)
    why: str = Field(default_factory=str)


class PlanShape(BaseModel):
    """Read a model's answer to PLAN."""

    reasons: list[str] = Field(default_factory=list)
    steps: list[StepShape]


async def choose_action(
    models: Models, decision: Decision, *, conversation: Sequence[Turn] = ()
) -> Choice:
    """Return whether to answer directly, use one tool, or plan. A model that fails or declines chooses none of them.

    Args:
        models: The models. `route_model` is used.
        decision: The Decision whose matches the model may use.
        conversation: The turns before the task, oldest first.

    Examples:
        >>> import asyncio
        >>> from orchestrator import Models, Options, Router, choose_action
        >>> from orchestrator.testing import ScriptedModel
        >>> async def main():
        ...     reply = {"action": "answer", "reasons": [], "confidence": 0.9, "answer": "Four."}
        ...     async with Router("examples/tools.jsonl") as router, ScriptedModel([reply]) as server:
        ...         async with Models(Options(model="m", model_url=server.url), api_key="k") as models:
        ...             choice = await choose_action(models, await router.route("what is 2 + 2?"))
        ...     return str(choice.action), choice.answer
        >>> asyncio.run(main())
        ('answer', 'Four.')
    """
    try:
        return await _chosen(
            models, PlanRequest(decision=decision, conversation=tuple(conversation))
        )
    except ModelRefused as error:
        return Choice(
            action=Action.NONE, reasons=(str(error),), model=models.route_model, usage=error.usage
        )
    except ToolrouteError as error:
        return Choice(
            action=Action.NONE, usage=error.usage, warnings=(f"decided without a model: {error}",)
        )


async def make_plan(
    models: Models | None,
    request: PlanRequest,
    *,
    give_up: GiveUp = lambda _: True,
    within_s: float | None = None,
) -> Plan:
    """Return the model's plan, or the planner's plan with the reason in its warnings.

    A task that the model declines is not planned by the planner either.

    Args:
        models: The models. None: the planner plans without a model.
        request: The request.
        give_up: Returns True if the planner shall plan after this error. Otherwise the error is raised.
        within_s: Seconds for the model.

    Examples:
        >>> import asyncio
        >>> from orchestrator import PlanRequest, Router, make_plan
        >>> async def main():
        ...     async with Router("examples/tools.jsonl") as router:
        ...         decision = await router.route("refund charge ch_3PqX")
        ...         return await make_plan(None, PlanRequest(decision=decision))
        >>> [(step.tool, step.arguments) for step in asyncio.run(main()).steps]
        [('stripe:refund_charge', {'charge': 'ch_3PqX'})]
    """
    request.validate()
    with telemetry.span("plan", request.decision.tenant) as attributes:
        planned = await _made(models, request, give_up, within_s)
        attributes |= {
            "gen_ai.request.model": planned.model,
            "toolroute.plan.steps": len(planned.steps),
        }
        if planned.usage.total:
            attributes |= {
                "gen_ai.usage.input_tokens": planned.usage.input,
                "gen_ai.usage.output_tokens": planned.usage.output,
            }
        logger.info(
            "planned %d steps by %s, %d tokens",
            len(planned.steps),
            planned.model,
            planned.usage.total,
        )
    return planned


async def _made(
    models: Models | None, request: PlanRequest, give_up: GiveUp, within_s: float | None
) -> Plan:
    if models is None:
        return plan(request)
    if request.first is not None:
        return _filled_later(plan(request), request.first)
    if request.without_model:
        return _planners(request, request.without_model)
    try:
        async with asyncio.timeout(within_s):
            return await _planned(models, request)
    except ModelRefused as error:
        return replace(
            finish(request, (), (str(error),)), model=models.plan_model, usage=error.usage
        )
    except (ToolrouteError, TimeoutError) as error:
        if isinstance(error, TimeoutError):
            where = f"model {models.plan_model!r} at {models.where}"
            error = ModelUnavailable(
                f"{where} made no plan within {within_s:g} seconds: raise the timeout in plan_options"
            )
        if not give_up(error):
            raise error from None
        return replace(_planners(request, error), usage=error.usage)


async def _chosen(models: Models, request: PlanRequest) -> Choice:
    decision, model = request.decision, models.route_model
    reply, usage = await _ask(models, model, CHOOSE, request, ChosenShape, _faults_of_choice)
    tool = _named(decision, reply.tool) if reply.action == "tool" else None
    return Choice(
        action=Action(reply.action),
        reasons=tuple(reply.reasons),
        confidence=reply.confidence,
        answer=reply.answer if reply.action == "answer" else "",
        tool=tool.key if tool else "",
        arguments=arguments_so_far(tool, reply.arguments)[0] if tool else {},
        model=model,
        usage=usage,
    )


async def _planned(models: Models, request: PlanRequest) -> Plan:
    """Return the plan of the model's choice. A choice below the request's minimum confidence has no steps."""
    choice = await _chosen(models, request)
    reasons = choice.reasons
    steps: tuple[Step, ...] = ()
    is_call = choice.action in (Action.TOOL, Action.PLAN)
    if is_call and choice.confidence < request.min_confidence:
        confidence = f"the confidence of {choice.model} is {choice.confidence:.0%}"
        needed = f"a plan needs {request.min_confidence:.0%}"
        reasons = (*reasons, f"{confidence}, but {needed}; nothing is called")
    elif choice.action is Action.PLAN:
        return await _planned_in_steps(models, request, choice)
    elif choice.action is Action.TOOL:
        steps = (_only_step(request, choice),)
    made = finish(request, steps, reasons)
    return replace(made, model=choice.model, choice=choice, usage=choice.usage)


def _only_step(request: PlanRequest, choice: Choice) -> Step:
    drafted = StepShape(
        id="s1",
        task=request.decision.query,
        tool=choice.tool,
        arguments=compact(choice.arguments),
        why="; ".join(choice.reasons),
    )
    return _step(request, drafted, {"s1": "s1"})


async def _planned_in_steps(models: Models, request: PlanRequest, choice: Choice) -> Plan:
    """Return the plan in several steps that a second question gives, within the tokens that the first one left."""
    model = models.plan_model
    spent = choice.usage
    if request.max_tokens is not None:
        request = replace(request, max_tokens=request.max_tokens - spent.total)
    with spent_before(spent):
        draft, usage = await _ask(models, model, PLAN, request, PlanShape, _faults_of_plan)
    steps = _steps(request, draft.steps)
    reasons = (*choice.reasons, *draft.reasons)
    plan = finish(request, steps, reasons)
    return replace(plan, model=model, choice=choice, usage=spent + usage)


def _steps(request: PlanRequest, drafted: Sequence[StepShape]) -> tuple[Step, ...]:
    ids = {step.id: f"s{number}" for number, step in enumerate(drafted, 1)}
    return tuple(_step(request, step, ids) for step in drafted)


async def _ask(
    models: Models,
    model: str,
    prompt: str,
    request: PlanRequest,
    shape: type[Shape],
    faults: Callable[[Decision, Shape], list[str]],
) -> tuple[Shape, Usage]:
    """Ask within the request's tokens. The context gets the tokens that prompt and answer leave."""
    decision, max_tokens = request.decision, request.max_tokens
    most = (
        context.MAX_TOKENS
        if max_tokens is None
        else min(context.MAX_TOKENS, max_tokens - PROMPT_TOKENS)
    )
    if most < PROMPT_TOKENS:
        left = f"only {max(0, most + PROMPT_TOKENS):,} tokens of the budget are left"
        raise ModelFailed(f"model {model!r} was not asked: {left}; raise max_tokens")
    answer = min(context.ANSWER_TOKENS, most // 4)
    content = context.build_context(
        _after(request.conversation, decision.query),
        [match.tool for match in decision.matches],
        graph=context.relations(decision),
        sections={"Given arguments": compact(request.arguments)} if request.arguments else {},
        max_tokens=most,
        answer_tokens=answer,
    ).markdown
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": content}]
    return await models.ask(
        model,
        messages,
        shape,
        max_output_tokens=answer,
        max_tokens=max_tokens,
        check=lambda reply: faults(decision, reply),
    )


def _after(turns: Sequence[Turn], query: str) -> str:
    """Return the task behind the latest turns that it may lean on, each cut to its share."""
    if not turns:
        return query
    latest = turns[-TURNS:]
    lines = [
        f"- {turn.role}: {cut(' '.join(turn.text.split()), TURNS_TOKENS // len(latest))[0]}"
        for turn in latest
    ]
    return "\n".join(["Earlier turns, the latest last:", *lines, "", f"The task now: {query}"])


def _faults_of_choice(decision: Decision, reply: ChosenShape) -> list[str]:
    if not 0 <= reply.confidence <= 1:
        return [f"confidence {reply.confidence}: give 0 to 1"]
    if reply.action == "answer" and not reply.answer.strip():
        return ["action answer: put it in `answer`, or choose another action"]
    if reply.action != "tool":
        return []
    tool = _named(decision, reply.tool)
    return (
        [_unknown(decision, reply.tool)]
        if tool is None
        else arguments_so_far(tool, reply.arguments)[1]
    )


def _faults_of_plan(decision: Decision, drafted: PlanShape) -> list[str]:
    """Return at most ten faults of a plan for the model to repair."""
    ids = [step.id for step in drafted.steps]
    if not ids:
        return ["steps is empty: give at least one step, with an empty tool if no tool matches"]
    if len(ids) > MAX_STEPS:
        return [f"{len(ids)} steps: at most {MAX_STEPS}, plan the first part of the task"]
    if len(set(ids)) < len(ids):
        return ["two steps have the same id: number them s1, s2, ..."]
    faults = [
        f"step {step.id}: {fault}"
        for step in drafted.steps
        for fault in _faults_of_step(decision, step, ids)
    ]
    if not faults:
        try:
            TopologicalSorter({step.id: step.depends_on for step in drafted.steps}).prepare()
        except CycleError as error:
            return [f"the steps depend on one another in a circle: {' -> '.join(error.args[1])}"]
    return faults[:10]


def _faults_of_step(decision: Decision, step: StepShape, ids: Sequence[str]) -> list[str]:
    faults = [
        f"depends_on {name!r} is not the id of a step"
        for name in step.depends_on
        if name not in ids
    ]
    if not step.tool:
        return faults
    tool = _named(decision, step.tool)
    if tool is None:
        return [*faults, _unknown(decision, step.tool)]
    properties = parameters(tool)["properties"]
    faults += [
        f"from_results {name!r} is not a parameter of {tool.key}"
        for name in step.from_results
        if name not in properties
    ]
    if step.from_results and not step.depends_on:
        faults.append(
            "from_results without depends_on: name in depends_on the step whose result has the values"
        )
    return faults + arguments_so_far(tool, step.arguments, step.from_results)[1]


def _named(decision: Decision, name: str) -> Tool | None:
    """Return the tool of a key, or of the name that its definition has in the prompt."""
    return decision.tool(name) or decision.tool(
        keys_by_name([match.tool for match in decision.matches]).get(name, "")
    )


def _unknown(decision: Decision, tool: str) -> str:
    keys = ", ".join(match.tool.key for match in decision.matches)
    return f"tool {tool!r} is not one of the listed tools: {keys or 'none'}"


def arguments_so_far(
    tool: Tool, text: str, later: Sequence[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return a model's arguments without the arguments that come later, and their faults.

    Args:
        tool: The tool.
        text: The arguments as JSON text.
        later: The parameters that are filled later.
    """
    try:
        written = read_arguments(tool.key, text)
        values = {
            name: value
            for name, value in written.items()
            if value is not None and name not in later
        }
        placeholder = _PLACEHOLDER.search(compact(values))
        if placeholder:
            fault = f"arguments hold a placeholder ({placeholder[0]!r}): name the parameter in from_results instead"
            return values, [fault]
        return check_so_far(tool, values), []
    except InvalidArguments as error:
        return {}, [f"arguments of {error}"]


def _step(request: PlanRequest, drafted: StepShape, ids: Mapping[str, str]) -> Step:
    """Return a step without faults. The user's arguments take precedence over the model's. Others are missing."""
    depends_on = tuple(ids[name] for name in dict.fromkeys(drafted.depends_on))
    step = Step(
        id=ids[drafted.id], task=drafted.task, tool="", depends_on=depends_on, why=drafted.why
    )
    tool = _named(request.decision, drafted.tool)
    if tool is None:
        return step
    schema = parameters(tool)
    arguments, _ = arguments_so_far(tool, drafted.arguments, drafted.from_results)
    for name, value in given_for(step.id, tool, request.arguments).items():
        arguments[name] = coerce(value, schema["properties"][name])
    late = tuple(name for name in dict.fromkeys(drafted.from_results) if name not in arguments)
    required = schema.get("required", ())
    return replace(
        step,
        tool=tool.key,
        arguments=arguments,
        late=late,
        missing=tuple(name for name in required if name not in arguments and name not in late),
        argument_tokens=count_tokens(compact(arguments)),
    )


def _filled_later(planned: Plan, first: Plan) -> Plan:
    """Return the plan with missing arguments marked to be filled by the run's model, for tools of a further route."""
    bound_later = {step.id for step in first.unbound}
    steps = [
        replace(step, late=step.missing, missing=())
        if step.missing and step.id in bound_later
        else step
        for step in planned.steps
    ]
    return replace(planned, steps=tuple(steps))


def _planners(request: PlanRequest, why: ToolrouteError | str) -> Plan:
    planned = plan(request)
    return replace(planned, warnings=(f"decided without a model: {why}", *planned.warnings))
