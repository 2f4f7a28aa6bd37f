"""The planner without a model: one step a clause at most, bound to a match. It never searches and never guesses."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.catalogue.export import check_arguments
from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.errors import InvalidArguments
from orchestrator.planning.arguments import extract, given_for
from orchestrator.records.decision import Decision
from orchestrator.records.digests import digest_of
from orchestrator.records.plan import MAX_STEPS, Plan, PlanRequest, Step
from orchestrator.records.tool import Match, Stage
from orchestrator.routing.clauses import split_left_out

RESULT_TOKENS = 8_000
"""What a step reserves for its tool's result, besides its arguments."""
OF_PART = 2 / 3
"""The share of the needed confidence with which a part is bound to a tool: the whole task is surer than its parts."""
_SIDE_BY_SIDE = frozenset(("", "and", ",", ", and", "&"))
"""What joins parts that may be carried out at the same time; others wait for the steps before them."""


def plan(request: PlanRequest) -> Plan:
    """Return the steps for a Decision's task, in order; no steps, and the reason, where nothing was good enough."""
    if request.first is not None:
        return _plan_again(request, request.first)
    decision = request.decision
    if decision.stage is Stage.NONE or not decision.matches:
        return finish(request, (), ("no tool is good enough for this task; nothing is called",))
    if decision.confidence < request.min_confidence:
        best = decision.matches[0].tool.key
        sure = f"{best} is the best match, at {decision.confidence:.0%} (needed: {request.min_confidence:.0%})"
        return finish(request, (), (f"{sure}; nothing is called",))
    bound = _bind(request)
    reasons = [f"{len(bound)} {'part' if len(bound) == 1 else 'parts'} in the task"]
    if len(bound) > MAX_STEPS:
        reasons.append(f"only the first {MAX_STEPS} of {len(bound)} parts are planned: give the rest as another task")
    steps = _steps(request, bound[:MAX_STEPS])
    made = finish(request, steps, tuple(reasons))
    return replace(made, warnings=(*reasons[1:], *made.warnings))


def _bind(request: PlanRequest) -> list[tuple[str, Match | None, str]]:
    """Return each part of the task that a match fits, with the match and the reason."""
    decision = request.decision
    least = OF_PART * request.min_confidence
    bound: list[tuple[str, Match | None, str]] = []
    for place, text in enumerate(decision.parts):
        asked, left_out = split_left_out(text)
        if left_out and asked == text:
            continue
        best = max(decision.matches, key=lambda match: match.for_parts[place] if match.for_parts else 0.0)
        worth = best.for_parts[place] if best.for_parts else 0.0
        if worth >= least:
            bound.append((text, best, f"{worth:.0%} likely for this part; {best.why}"))
    if bound and all(match is bound[0][1] for _, match, _ in bound):
        bound = []
    if not bound:
        best = _recommended(decision)
        bound = [(split_left_out(decision.query)[0], best, best.why or "the best match")]
    return bound


def _recommended(decision: Decision) -> Match:
    keys = decision.recommended[:1]
    return next((match for match in decision.matches if match.tool.key in keys), decision.matches[0])


def _steps(request: PlanRequest, bound: Sequence[tuple[str, Match | None, str]]) -> tuple[Step, ...]:
    """Return a step a part; one behind anything but "and" or a comma waits for all steps before it."""
    steps: list[Step] = []
    before: tuple[str, ...] = ()
    task, past = request.decision.query, 0
    for number, (text, match, why) in enumerate(bound, 1):
        start = task.find(text, past)
        joint = task[past:start].strip().lower() if start >= 0 else "."
        if steps and joint not in _SIDE_BY_SIDE:
            before = tuple(step.id for step in steps)
        past = start + len(text) if start >= 0 else past
        blank = Step(id=f"s{number}", task=text, tool="", depends_on=before, why=why)
        steps.append(_fill(request, blank, match) if match else blank)
    return tuple(steps)


def _fill(request: PlanRequest, step: Step, match: Match) -> Step:
    text = split_left_out(step.task)[0]
    found = extract(match.tool.input_schema, text, given_for(step.id, match.tool, request.arguments))
    tokens = count_tokens(compact(found.values))
    return replace(
        step,
        tool=match.tool.key,
        arguments=found.values,
        missing=found.missing,
        expected_tokens=RESULT_TOKENS + tokens,
        argument_tokens=tokens,
        why="; ".join([step.why, *found.notes]),
    )


def _plan_again(request: PlanRequest, first: Plan) -> Plan:
    """Return the first plan, its steps without a tool bound to the further Decision's best match where that is sure."""
    further = request.decision
    weak = further.stage is Stage.NONE or not further.matches or further.confidence < request.min_confidence
    steps = first.steps
    if not weak:
        best = _recommended(further)
        steps = tuple(
            step if step.tool else _fill(request, replace(step, why=f"found by a further route; {best.why}"), best)
            for step in steps
        )
    warnings = (*first.warnings, *_unused(request, steps), *_unfit(request, steps))
    return replace(first, steps=steps, warnings=tuple(dict.fromkeys(warnings)))


def finish(request: PlanRequest, steps: tuple[Step, ...], reasons: tuple[str, ...]) -> Plan:
    """Return the plan with an id made of its content and the workflow: the same over attempts and resets."""
    own = digest_of(request.salt, request.decision.query, [[s.id, s.tool, s.arguments] for s in steps])
    # A step without a tool asks for a further route, whose tool may take what is left.
    unused = _unused(request, steps) if all(step.tool for step in steps) else ()
    warnings = (*unused, *_unfit(request, steps))
    return Plan(id=own, task=request.decision.query, steps=steps, reasons=reasons, warnings=warnings)


def _unused(request: PlanRequest, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return a warning for given arguments that no step's tool has a parameter for: most are misspelt."""
    taken = set()
    for step in steps:
        tool = request.decision.tool(step.tool)
        known = (tool.input_schema or {}).get("properties") if tool else None
        taken |= {name for own in step.arguments if own in (known or [own]) for name in (own, f"{step.id}.{own}")}
    left = ", ".join(name for name in request.arguments if name not in taken) if steps else ""
    return (f"no step takes the given {left}",) if left else ()


def _unfit(request: PlanRequest, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return a warning for given arguments that a step's schema refuses, as the check before the call will."""
    found: list[str] = []
    for step in steps:
        tool = request.decision.tool(step.tool)
        given = given_for(step.id, tool, request.arguments) if tool else {}
        if tool is None or not given:
            continue
        schema = {key: value for key, value in (tool.input_schema or {}).items() if key in ("type", "properties")}
        try:
            check_arguments(replace(tool, input_schema=schema), {name: step.arguments[name] for name in given})
        except InvalidArguments as error:
            found.append(f"what is given for {step.id} does not fit {error}")
    return tuple(found)
