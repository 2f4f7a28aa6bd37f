"""A model's plan: its shape, what is wrong with it, and the steps made of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from pydantic import BaseModel

from orchestrator.catalogue.export import check_arguments, read_arguments
from orchestrator.catalogue.schema import usable
from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.errors import InvalidArguments
from orchestrator.planning.arguments import extract, given_for
from orchestrator.records.completion import FILLING_TOKENS
from orchestrator.records.decision import Decision
from orchestrator.records.plan import MAX_STEPS, Step
from orchestrator.records.tool import Tool

LEAST_RESULT_TOKENS = 4_000
"""Models guess results too short, and a step's result is cut to what it reserved."""

_WHOLE = ("required", "anyOf", "oneOf", "allOf", "not", "dependentRequired", "minProperties")
"""What a schema says of all arguments together, which those known so far need not fulfil."""
_PLACEHOLDER = re.compile(r"\{\{|\$\{|<(?:result|output|from)\b|\bs\d+\.(?:result|output)\b", re.IGNORECASE)


class ChosenShape(BaseModel):
    """What the model answers when it is asked how the task is done."""

    action: Literal["answer", "tool", "plan", "none"]
    reasons: list[str] = []
    confidence: float = 0.0
    answer: str = ""
    tool: str = ""
    arguments: str = "{}"


class StepShape(BaseModel):
    """A step as the model writes it; `arguments` is JSON as text, since strict schemas have no open objects."""

    id: str
    task: str
    tool: str
    arguments: str = "{}"
    from_results: list[str] = []
    depends_on: list[str] = []
    expected_tokens: int = 0
    why: str = ""


class PlanShape(BaseModel):
    """What the model answers when it is asked for a plan."""

    reasons: list[str] = []
    steps: list[StepShape]


def faults_of_choice(decision: Decision, chosen: ChosenShape) -> list[str]:
    """What is wrong with a choice, for the model to mend."""
    if not 0 <= chosen.confidence <= 1:
        return [f"confidence {chosen.confidence}: give 0 to 1"]
    if chosen.action == "answer" and not chosen.answer.strip():
        return ["action answer: put it in `answer`, or choose another action"]
    if chosen.action != "tool":
        return []
    tool = decision.tool(chosen.tool)
    return [_unknown(decision, chosen.tool)] if tool is None else arguments_so_far(tool, chosen.arguments)[1]


def faults_of_plan(decision: Decision, plan: PlanShape) -> list[str]:
    """What is wrong with a plan, for the model to mend: at most ten of its faults."""
    ids = [step.id for step in plan.steps]
    if not ids:
        return ["steps is empty: give at least one, with an empty tool where none fits"]
    if len(ids) > MAX_STEPS:
        return [f"{len(ids)} steps: at most {MAX_STEPS}, plan the first part of the task"]
    if len(set(ids)) < len(ids):
        return ["two steps have the same id: number them s1, s2, ..."]
    faults = [f"step {step.id}: {fault}" for step in plan.steps for fault in _faults_of_step(decision, step, ids)]
    return (faults or _cycle(plan.steps))[:10]


def _faults_of_step(decision: Decision, step: StepShape, ids: Sequence[str]) -> list[str]:
    faults = [f"depends_on {name!r} is no step's id" for name in step.depends_on if name not in ids]
    if not step.tool:
        return faults
    tool = decision.tool(step.tool)
    if tool is None:
        return [*faults, _unknown(decision, step.tool)]
    known = (tool.input_schema or {}).get("properties") or {}
    faults += [
        f"from_results {name!r} is no parameter of {tool.key}" for name in step.from_results if name not in known
    ]
    if step.from_results and not step.depends_on:
        faults.append("from_results without depends_on: say which step's result gives them")
    return faults + arguments_so_far(tool, step.arguments, step.from_results)[1]


def _unknown(decision: Decision, tool: str) -> str:
    keys = ", ".join(match.tool.key for match in decision.matches)
    return f"tool {tool!r} is none of those given; they are {keys or 'none'}"


def _cycle(steps: Sequence[StepShape]) -> list[str]:
    try:
        TopologicalSorter({step.id: step.depends_on for step in steps}).prepare()
    except CycleError as error:
        return [f"the steps wait for one another in a circle: {' -> '.join(error.args[1])}"]
    return []


def arguments_so_far(tool: Tool, text: str, later: Sequence[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """The arguments that a model gave, less those that come later, and what is wrong with them; gaps are not wrong."""
    try:
        read = read_arguments(tool.key, text)
        values = {name: value for name, value in read.items() if value is not None and name not in later}
        if found := _PLACEHOLDER.search(compact(values)):
            return values, [f"arguments hold a placeholder ({found[0]!r}): name the parameter in from_results instead"]
        return check_so_far(tool, values), []
    except InvalidArguments as error:
        return {}, [f"arguments of {error}"]


def check_so_far(tool: Tool, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, where each fits the tool's schema, whatever else that requires; else raises InvalidArguments."""
    schema = {key: value for key, value in (tool.input_schema or {}).items() if key not in _WHOLE}
    return check_arguments(replace(tool, input_schema=schema), values)


def steps_of(decision: Decision, plan: PlanShape, given: Mapping[str, Any]) -> tuple[Step, ...]:
    """The steps of a plan without faults, numbered in its order; what the user gave goes before what the model did."""
    ids = {step.id: f"s{number}" for number, step in enumerate(plan.steps, 1)}
    return tuple(_step(decision, step, ids, given) for step in plan.steps)


def _step(decision: Decision, drafted: StepShape, ids: Mapping[str, str], given: Mapping[str, Any]) -> Step:
    after = tuple(ids[name] for name in dict.fromkeys(drafted.depends_on))
    blank = Step(id=ids[drafted.id], task=drafted.task, tool="", depends_on=after, why=drafted.why)
    tool = decision.tool(drafted.tool)
    if tool is None:
        return blank
    values, _ = arguments_so_far(tool, drafted.arguments, drafted.from_results)
    return bound(blank, tool, values, given, drafted.from_results, drafted.expected_tokens)


def bound(
    step: Step,
    tool: Tool,
    values: Mapping[str, Any],
    given: Mapping[str, Any],
    later: Sequence[str] = (),
    expected: int = 0,
) -> Step:
    """The step with its tool, and the user's arguments before the model's; what nobody gave is missing."""
    schema = usable(tool.input_schema or {})
    arguments = {**values, **extract(schema, "", given_for(step.id, tool, given)).values}
    late = tuple(name for name in dict.fromkeys(later) if name not in arguments)
    tokens = count_tokens(compact(arguments))
    return replace(
        step,
        tool=tool.key,
        arguments=arguments,
        late=late,
        missing=tuple(name for name in schema.get("required", ()) if name not in arguments and name not in late),
        expected_tokens=max(expected, LEAST_RESULT_TOKENS) + tokens + (FILLING_TOKENS if late else 0),
        argument_tokens=tokens,
    )
