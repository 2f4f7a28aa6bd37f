"""The planner without a model: at most one step per clause, bound to a match. It never searches and never guesses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.catalogue.export import check_arguments, parameters
from orchestrator.catalogue.schema import hoisted
from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.common.digests import digest_of
from orchestrator.errors import InvalidArguments
from orchestrator.index.intent import action_of, begins_action, known_actions, reads_only
from orchestrator.pipeline.clauses import MAX_CUT, affirmed, is_too_long, split_clauses, split_left_out
from orchestrator.planning.arguments import WHOLE, extract, given_for, unread
from orchestrator.records.decision import Decision
from orchestrator.records.plan import MAX_STEPS, Plan, PlanRequest, Step
from orchestrator.records.tool import Match, Stage

PART_SHARE = 2 / 3
"""The share of the minimum confidence from which a part is bound to a tool. Parts have lower probabilities than tasks.
"""
READING_PROBABILITY = 0.5
"""The minimum probability of a tool that only reads, for a part that begins with no action."""
_SIDE_BY_SIDE = frozenset(("", "and", ",", ", and", "&"))
"""The words between two parts that may run at the same time. After other words, a part waits for the steps before it.
"""


def plan(request: PlanRequest) -> Plan:
    """Return the steps for a Decision's task, in order. If no tool is good enough, return no steps and the reason."""
    if request.first is not None:
        return _plan_again(request, request.first)
    if reason := _unfit_for_plan(request):
        return finish(request, (), (reason,))
    bound = _bind(request)
    reasons = [f"{len(bound)} {'part' if len(bound) == 1 else 'parts'} in the task"]
    if len(bound) > MAX_STEPS:
        reasons.append(f"only the first {MAX_STEPS} of {len(bound)} parts are planned: give the rest in a second task")
    if merged := _merged(request.decision):
        reasons.append(
            f"the last step has {len(merged)} parts, and only {merged[0]!r} is planned: give the rest in a second task"
        )
    steps = _steps(request, bound[:MAX_STEPS])
    made = finish(request, steps, tuple(reasons))
    return replace(made, warnings=(*reasons[1:], *made.warnings, *_unread(request, made.steps)))


def _unfit_for_plan(request: PlanRequest) -> str:
    """Return the reason for planning nothing. Empty if a plan is possible."""
    decision = request.decision
    if is_too_long(decision.query):
        size = f"{len(decision.query):,} characters, limit {MAX_CUT:,}"
        return f"the task is too long for a plan without a model: {size}; give a shorter task, or set TOOLROUTE_MODEL"
    if decision.stage is Stage.NONE or not decision.matches:
        return "no tool matches this task well enough; nothing is called"
    best = decision.matches[0].tool.key
    if decision.confidence < request.min_confidence:
        low = f"the confidence in {best} is {decision.confidence:.0%}, but a plan needs {request.min_confidence:.0%}"
        return f"{low}; nothing is called"
    tool = _recommended(decision).tool
    asked = affirmed(decision.query)
    negated = asked != decision.query and not _acting_parts(decision, asked)
    if negated and not reads_only(tool) and len(_clauses(decision)) < 2:
        why = f"the task begins with a negation, and {tool.key} may change something"
        return f"{why}; nothing is called"
    return ""


@dataclass(frozen=True, slots=True)
class _Clause:
    """Parts of the task that make one step: the part with the action, and parts that only add to it."""

    texts: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def text(self) -> str:
        return ". ".join(self.texts)

    def with_part(self, text: str, place: int) -> "_Clause":
        return _Clause((*self.texts, text), (*self.places, place))


def _clauses(decision: Decision) -> list[_Clause]:
    """Return the parts, grouped by the actions that begin them. A part without an action belongs to the action before
    it,
    or to the first one.

    A part without an action is a separate clause if it almost certainly asks to read something ("git status, then
    ...").
    """
    found: list[_Clause] = []
    ahead = _Clause((), ())
    actions = _actions(decision)
    for place, text in enumerate(decision.parts):
        probability, best = _best_for(decision, (place,))
        if begins_action(affirmed(text), actions) or (probability >= READING_PROBABILITY and reads_only(best.tool)):
            found.append(ahead.with_part(text, place))
            ahead = _Clause((), ())
        elif found:
            found[-1] = found[-1].with_part(text, place)
        else:
            ahead = ahead.with_part(text, place)
    return found


def _actions(decision: Decision) -> frozenset[str]:
    """Return the words that begin an action in this task."""
    return known_actions() | {action_of(match.tool) for match in decision.matches}


def _acting_parts(decision: Decision, text: str) -> list[str]:
    """Return the sentences of a text that begin with an action."""
    actions = _actions(decision)
    return [part for part in split_clauses(text, actions) or [text] if begins_action(affirmed(part), actions)]


def _merged(decision: Decision) -> list[str]:
    """Return the actions of the task's last part, if it has several. The last part of a long task contains all the
    rest.
    """
    acting = _acting_parts(decision, decision.parts[-1]) if decision.parts else []
    return acting if len(acting) > 1 else []


def _acting_text(decision: Decision, text: str) -> str:
    """Return the text for a step's arguments: the sentence with its action, without a negation.

    A text without an action gives arguments only if it is the whole task.
    """
    acting = _acting_parts(decision, text)
    return affirmed(acting[0] if acting else "" if decision.parts else text)


def _bind(request: PlanRequest) -> list[tuple[_Clause, Match | None, str]]:
    """Return each clause of the task with its probable match, or None, and the reason."""
    decision = request.decision
    clauses = _clauses(decision)
    if len(clauses) < 2:
        best = _recommended(decision)
        whole = _Clause((split_left_out(decision.query)[0],), ())
        return [(whole, best, best.why or "the best match")]
    bound: list[tuple[_Clause, Match | None, str]] = []
    for clause in clauses:
        probability, best = _best_for(decision, clause.places)
        if probability >= PART_SHARE * request.min_confidence:
            bound.append((clause, best, f"probability {probability:.0%} for this part; {best.why}"))
        else:
            bound.append((clause, None, "the probability of every match is too low for this part"))
    return bound


def _best_for(decision: Decision, places: Sequence[int]) -> tuple[float, Match]:
    """Return the highest probability for one of these parts, and its match."""

    def probability(match: Match) -> float:
        return max((match.for_parts[place] for place in places if match.for_parts), default=0.0)

    best = max(decision.matches, key=probability)
    return probability(best), best


def _recommended(decision: Decision) -> Match:
    keys = decision.recommended[:1]
    return next((match for match in decision.matches if match.tool.key in keys), decision.matches[0])


def _steps(request: PlanRequest, bound: Sequence[tuple[_Clause, Match | None, str]]) -> tuple[Step, ...]:
    """Return one step per clause. A step after other words than "and" or a comma waits for all steps before it."""
    steps: list[Step] = []
    before: tuple[str, ...] = ()
    task, past = request.decision.query, 0
    for number, (clause, match, why) in enumerate(bound, 1):
        start = task.find(clause.texts[0], past)
        joint = task[past:start].strip().lower() if start >= 0 else "."
        if steps and joint not in _SIDE_BY_SIDE:
            before = tuple(step.id for step in steps)
        past = max(past, task.find(clause.texts[-1], max(start, 0)) + len(clause.texts[-1]))
        blank = Step(id=f"s{number}", task=clause.text, tool="", depends_on=before, why=why)
        steps.append(_fill(request, blank, match) if match else blank)
    return tuple(steps)


def _fill(request: PlanRequest, step: Step, match: Match) -> Step:
    text = _acting_text(request.decision, split_left_out(step.task)[0])
    found = extract(match.tool.input_schema, text, given_for(step.id, match.tool, request.arguments))
    tokens = count_tokens(compact(found.values))
    return replace(
        step,
        tool=match.tool.key,
        arguments=found.values,
        missing=found.missing,
        argument_tokens=tokens,
        why="; ".join([step.why, *found.notes]),
    )


def _plan_again(request: PlanRequest, first: Plan) -> Plan:
    """Return the first plan. Its steps without a tool get the further Decision's best match, if it is good enough for a
    plan.
    """
    further = request.decision
    steps, unclear = first.steps, tuple[str, ...]()
    if not _unfit_for_plan(request):
        best = _recommended(further)
        steps = tuple(
            step if step.tool else _fill(request, replace(step, why=f"found by a second route; {best.why}"), best)
            for step in steps
        )
        unclear = _unclear(further, steps)
        steps = first.steps if unclear else steps
    warnings = (
        *first.warnings,
        *unclear,
        *_unused(request, steps),
        *_unfit(request, steps),
        *_unread(request, steps),
    )
    return replace(first, steps=steps, warnings=tuple(dict.fromkeys(warnings)))


def finish(request: PlanRequest, steps: tuple[Step, ...], reasons: tuple[str, ...]) -> Plan:
    """Return the plan. Its id is a digest of its content and the workflow, so attempts and resets give the same id.

    If a step uses another server in place of one that the task names, no step is planned.

    Args:
        request: The request.
        steps: The steps.
        reasons: The reasons of the plan.
    """
    unclear = _unclear(request.decision, steps)
    if unclear:
        steps, reasons = (), (*unclear, "nothing is called")
    own = digest_of(request.salt, request.decision.query, [[s.id, s.tool, s.arguments] for s in steps])
    # A step without a tool is routed again, and its tool may take the remaining arguments.
    unused = _unused(request, steps) if all(step.tool for step in steps) else ()
    warnings = (*unused, *_unfit(request, steps))
    return Plan(
        id=own, task=request.decision.query, steps=steps, reasons=reasons, warnings=warnings, needs_input=unclear
    )


def _unclear(decision: Decision, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return questions about the servers that a task names: servers without tools, and servers that no step uses."""
    named = decision.named_servers
    found = [
        f"the task names the server {own.said!r}, but its tools are not listed yet: run `toolroute tools sync`"
        for own in named
        if not own.server
    ]
    for step in steps:
        tool = decision.tool(step.tool)
        if tool is None:
            continue
        if any(server.server == tool.server and server.left_out for server in named):
            found.append(f"the task both asks for and excludes the server {tool.server!r}: state whether to use it")
        own = [server for server in named if server.server and server.said.lower() in step.task.lower()]
        if own and all(server.server != tool.server for server in own):
            found.append(
                f"the task names the server {own[0].said!r}, but no tool of that server matches; {tool.key} is a tool "
                "of another server"
            )
    return tuple(dict.fromkeys(found))


def _unused(request: PlanRequest, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return a warning about given arguments for which no step's tool has a parameter. Most of them are misspelt."""
    taken = set()
    for step in steps:
        tool = request.decision.tool(step.tool)
        known = parameters(tool)["properties"] if tool else None
        taken |= {name for own in step.arguments if own in (known or [own]) for name in (own, f"{step.id}.{own}")}
    left = ", ".join(name for name in request.arguments if name not in taken) if steps else ""
    return (f"the argument {left} was not used: no step's tool has a parameter of that name",) if left else ()


def _unread(request: PlanRequest, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return a warning about each step whose task has values, such as "60 days", that its arguments do not have."""
    warnings = []
    for step in steps:
        tool = request.decision.tool(step.tool)
        if tool is None:
            continue
        given = given_for(step.id, tool, request.arguments)
        if values := unread(step.task, tool, step.arguments, given):
            warnings.append(
                f"step {step.id}: the call of {tool.key} does not use {', '.join(values)} of the task: give it as an "
                f"argument ({step.id}.NAME=...), or set TOOLROUTE_MODEL"
            )
    return tuple(warnings)


def _unfit(request: PlanRequest, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return a warning about given arguments that a step's schema refuses. The check before the call will refuse them,
    too.
    """
    found: list[str] = []
    for step in steps:
        tool = request.decision.tool(step.tool)
        given = given_for(step.id, tool, request.arguments) if tool else {}
        if tool is None or not given:
            continue
        schema = {key: value for key, value in hoisted(parameters(tool)).items() if key not in WHOLE}
        try:
            check_arguments(replace(tool, input_schema=schema), {name: step.arguments[name] for name in given})
        except InvalidArguments as error:
            found.append(f"the arguments for step {step.id} do not match the tool's schema: {error}")
    return tuple(found)
