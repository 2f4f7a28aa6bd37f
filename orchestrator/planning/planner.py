"""The planner without a model: at most one step per clause, bound to a match. It never searches and never guesses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.common.digests import digest_of
from orchestrator.common.json_input import shortened
from orchestrator.errors import InvalidArguments
from orchestrator.index.intent import action_of, begins_action, known_actions, reads_only
from orchestrator.pipeline.clauses import (
    MAX_CUT,
    affirmed,
    is_too_long,
    split_clauses,
    split_left_out,
)
from orchestrator.planning.arguments import check_so_far, extract, given_for
from orchestrator.planning.unread import unread
from orchestrator.records.decision import Decision
from orchestrator.records.plan import MAX_STEPS, Plan, PlanRequest, Step
from orchestrator.records.tool import Match, Stage, Tool

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
    reason = _unfit_for_plan(request)
    if reason:
        return finish(request, (), (reason,))
    bound = _bind(request)
    noun = "part" if len(bound) == 1 else "parts"
    warnings = []
    if len(bound) > MAX_STEPS:
        warnings.append(
            f"only the first {MAX_STEPS} of {len(bound)} parts are planned: give the rest in a second task"
        )
    last_actions = _actions_of_last_part(request.decision)
    if last_actions:
        warnings.append(
            f"the last step has {len(last_actions)} parts, and only {last_actions[0]!r} is planned: give the rest in a "
            "second task"
        )
    steps = _steps(request, bound[:MAX_STEPS])
    finished = finish(request, steps, (f"{len(bound)} {noun} in the task", *warnings))
    return replace(
        finished, warnings=(*warnings, *finished.warnings, *_unread(request, finished.steps))
    )


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
    affirmed_text = affirmed(decision.query)
    negated = affirmed_text != decision.query and not _acting_parts(decision, affirmed_text)
    if negated and not reads_only(tool) and len(_clauses(decision)) < 2:
        why = f"the task begins with a negation, and {tool.key} may change something"
        return f"{why}; nothing is called"
    return ""


@dataclass(frozen=True, slots=True)
class _Clause:
    """Parts of the task that make one step: the part with the action, and parts that only add to it.

    Attributes:
        texts: The texts of the parts.
        positions: Their positions in `Decision.parts`.
    """

    texts: tuple[str, ...]
    positions: tuple[int, ...]

    @property
    def text(self) -> str:
        return ". ".join(self.texts)

    def with_part(self, text: str, position: int) -> "_Clause":
        return _Clause((*self.texts, text), (*self.positions, position))


@dataclass(frozen=True, slots=True)
class _BoundClause:
    """A clause with its probable match. `match` is None if no match is probable enough, and `why` is the reason."""

    clause: _Clause
    match: Match | None
    why: str


def _clauses(decision: Decision) -> list[_Clause]:
    """Return the parts, grouped by the actions that begin them.

    A part without an action belongs to the action before it, or to the first one. It is a separate clause if it almost
    certainly asks to read something ("git status, then ...").
    """
    clauses: list[_Clause] = []
    before_first_action = _Clause((), ())
    actions = _actions(decision)
    for position, text in enumerate(decision.parts):
        probability, best = _best_for(decision, (position,))
        asks_to_read = probability >= READING_PROBABILITY and reads_only(best.tool)
        if begins_action(affirmed(text), actions) or asks_to_read:
            clauses.append(before_first_action.with_part(text, position))
            before_first_action = _Clause((), ())
        elif clauses:
            clauses[-1] = clauses[-1].with_part(text, position)
        else:
            before_first_action = before_first_action.with_part(text, position)
    return clauses


def _actions(decision: Decision) -> frozenset[str]:
    """Return the words that begin an action in this task."""
    return known_actions() | {action_of(match.tool) for match in decision.matches}


def _acting_parts(decision: Decision, text: str) -> list[str]:
    """Return the sentences of a text that begin with an action."""
    actions = _actions(decision)
    parts = split_clauses(text, actions) or [text]
    return [part for part in parts if begins_action(affirmed(part), actions)]


def _actions_of_last_part(decision: Decision) -> list[str]:
    """Return the acting sentences of the task's last part if it has several.

    The last part of a long task contains all the rest.
    """
    if not decision.parts:
        return []
    acting = _acting_parts(decision, decision.parts[-1])
    return acting if len(acting) > 1 else []


def _acting_text(decision: Decision, text: str) -> str:
    """Return the text for a step's arguments: the sentence with its action, without a negation.

    A text without an action gives arguments only if it is the whole task.
    """
    acting = _acting_parts(decision, text)
    if acting:
        return affirmed(acting[0])
    is_whole_task = not decision.parts
    return affirmed(text) if is_whole_task else ""


def _bind(request: PlanRequest) -> list[_BoundClause]:
    """Return each clause of the task with its probable match."""
    decision = request.decision
    clauses = _clauses(decision)
    # A task with one action is bound by its recommendation, which knows more than its best part.
    if len(clauses) < 2:
        task, _ = split_left_out(decision.query)
        best = _recommended(decision)
        only_clause = _Clause((task,), ())
        return [_BoundClause(only_clause, best, best.why or "the best match")]
    bound = []
    for clause in clauses:
        probability, best = _best_for(decision, clause.positions)
        match: Match | None = best
        why = f"probability {probability:.0%} for this part; {best.why}"
        if probability < PART_SHARE * request.min_confidence:
            match = None
            why = "the probability of every match is too low for this part"
        bound.append(_BoundClause(clause, match, why))
    return bound


def _best_for(decision: Decision, positions: Sequence[int]) -> tuple[float, Match]:
    """Return the highest probability for one of the parts at these positions, and its match."""

    def probability(match: Match) -> float:
        if not match.for_parts:
            return 0.0
        return max((match.for_parts[position] for position in positions), default=0.0)

    best = max(decision.matches, key=probability)
    return probability(best), best


def _recommended(decision: Decision) -> Match:
    keys = decision.recommended[:1]
    return next(
        (match for match in decision.matches if match.tool.key in keys), decision.matches[0]
    )


def _steps(request: PlanRequest, bound: Sequence[_BoundClause]) -> tuple[Step, ...]:
    """Return one step per clause. A step after other words than "and" or a comma waits for all steps before it."""
    task = request.decision.query
    steps: list[Step] = []
    depends_on: tuple[str, ...] = ()
    end_of_last = 0
    for number, item in enumerate(bound, 1):
        first_text = item.clause.texts[0]
        last_text = item.clause.texts[-1]
        start = task.find(first_text, end_of_last)
        words_between = "."
        if start >= 0:
            words_between = task[end_of_last:start].strip().lower()
        if steps and words_between not in _SIDE_BY_SIDE:
            depends_on = tuple(step.id for step in steps)
        end = task.find(last_text, max(start, 0)) + len(last_text)
        end_of_last = max(end_of_last, end)
        step = Step(
            id=f"s{number}",
            task=item.clause.text,
            tool="",
            depends_on=depends_on,
            why=item.why,
        )
        if item.match:
            step = _with_tool(request, step, item.match)
        steps.append(step)
    return tuple(steps)


def _with_tool(request: PlanRequest, step: Step, match: Match) -> Step:
    """Return the step with the match's tool, and with the arguments that its text or the caller gives."""
    included, _ = split_left_out(step.task)
    text = _acting_text(request.decision, included)
    extraction = extract(
        match.tool.input_schema, text, given_for(step.id, match.tool, request.arguments)
    )
    return replace(
        step,
        tool=match.tool.key,
        arguments=extraction.values,
        missing=extraction.missing,
        argument_tokens=count_tokens(compact(extraction.values)),
        why="; ".join([step.why, *extraction.notes]),
    )


def _plan_again(request: PlanRequest, first: Plan) -> Plan:
    """Return the first plan. Its steps without a tool get the best match of the further Decision, if it is good enough.

    If that would use another server than the task names, the first plan's steps stay, with a warning.
    """
    decision = request.decision
    steps = first.steps
    unclear: tuple[str, ...] = ()
    if not _unfit_for_plan(request):
        best = _recommended(decision)
        why = f"found by a second route; {best.why}"
        completed = tuple(
            step if step.tool else _with_tool(request, replace(step, why=why), best)
            for step in first.steps
        )
        unclear = _unclear(decision, completed)
        steps = first.steps if unclear else completed
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
        steps = ()
        reasons = (*unclear, "nothing is called")
    # A step without a tool is routed again, and its tool may take the remaining arguments.
    has_all_tools = all(step.tool for step in steps)
    unused = _unused(request, steps) if has_all_tools else ()
    content = [[step.id, step.tool, step.arguments] for step in steps]
    return Plan(
        id=digest_of(request.salt, request.decision.query, content),
        task=request.decision.query,
        steps=steps,
        reasons=reasons,
        warnings=(*unused, *_unfit(request, steps)),
        needs_input=unclear,
    )


def _unclear(decision: Decision, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return questions about the servers that a task names: servers without tools, and servers that no step uses."""
    questions = [
        f"the task names the server {server.said!r}, but its tools are not listed yet: run `toolroute tools sync`"
        for server in decision.named_servers
        if not server.server
    ]
    for step in steps:
        tool = decision.tool(step.tool)
        if tool is not None:
            questions += _unclear_servers(decision, step, tool)
    return tuple(dict.fromkeys(questions))


def _unclear_servers(decision: Decision, step: Step, tool: Tool) -> list[str]:
    """Return the questions about one step's server."""
    questions = []
    left_out = {server.server for server in decision.named_servers if server.left_out}
    if tool.server in left_out:
        questions.append(
            f"the task both asks for and excludes the server {tool.server!r}: state whether to use it"
        )
    task = step.task.lower()
    named_servers = [
        server for server in decision.named_servers if server.server and server.said.lower() in task
    ]
    if named_servers and tool.server not in {server.server for server in named_servers}:
        questions.append(
            f"the task names the server {named_servers[0].said!r}, but no tool of that server matches; {tool.key} is a "
            "tool of another server"
        )
    return questions


def _unused(request: PlanRequest, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return a warning about given arguments for which no step's tool has a parameter. Most of them are misspelt."""
    if not steps:
        return ()
    used = set()
    for step in steps:
        tool = request.decision.tool(step.tool)
        properties = parameters(tool)["properties"] if tool else {}
        for name in step.arguments:
            if not properties or name in properties:
                used |= {name, f"{step.id}.{name}"}
    unused = ", ".join(name for name in request.arguments if name not in used)
    if not unused:
        return ()
    return (f"the argument {unused} was not used: no step's tool has a parameter of that name",)


def _unread(request: PlanRequest, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return a warning about each step whose task has words, such as "60 days", that its call does not use."""
    warnings = []
    for step in steps:
        tool = request.decision.tool(step.tool)
        if tool is None:
            continue
        arguments = given_for(step.id, tool, request.arguments)
        text = _text_of(step, request.decision, is_only_step=len(steps) == 1)
        if values := unread(text, tool, step.arguments, arguments):
            warnings.append(
                f"step {step.id}: the call of {tool.key} does not use these words of the task: {shortened(values)}; "
                f"give them as an argument ({step.id}.NAME=...) or in a sentence of their own, or set TOOLROUTE_MODEL"
            )
    return tuple(warnings)


def _text_of(step: Step, decision: Decision, *, is_only_step: bool) -> str:
    """Return the text of a step without the names of servers. A single step has the whole query."""
    text = decision.query if is_only_step else step.task
    for server in decision.named_servers:
        text = text.replace(server.said, " ")
    return text


def _unfit(request: PlanRequest, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return a warning about given arguments that a step's schema refuses.

    The check before the call will refuse them, too.
    """
    warnings = []
    for step in steps:
        tool = request.decision.tool(step.tool)
        step_arguments = given_for(step.id, tool, request.arguments) if tool else {}
        if tool is None or not step_arguments:
            continue
        try:
            check_so_far(tool, {name: step.arguments[name] for name in step_arguments})
        except InvalidArguments as error:
            warnings.append(
                f"the arguments for step {step.id} do not match the tool's schema: {error}"
            )
    return tuple(warnings)
