"""The deterministic planner: a Decision's matches become steps. It never searches and never guesses.

A task of one clause becomes one step with the best recommended tool. A task of several clauses becomes a step a
clause, each bound to a match that shares its words and is likely right for it; a clause without one says so (its
`tool` stays empty).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.errors import InvalidArguments
from orchestrator.index.text import terms
from orchestrator.language.asides import conditions, without_conditions
from orchestrator.language.corrections import corrected
from orchestrator.language.modes import TELLS, UNSAID, done_by
from orchestrator.language.opposites import undone_by
from orchestrator.language.quoted import reported, unquoted
from orchestrator.language.sending import in_full
from orchestrator.language.statements import only_states
from orchestrator.language.verbs import may_act
from orchestrator.language.words import first_word
from orchestrator.planning.arguments import Extraction, extract, given_for
from orchestrator.planning.binding import UNNAMED, Binder, asked_in, lacks, shared_terms, term_weights
from orchestrator.planning.choices import nouns_of
from orchestrator.planning.drafts import check_so_far
from orchestrator.planning.effects import flags, unread
from orchestrator.planning.merging import Bound, merge_told, merge_weak
from orchestrator.planning.pieces import pieces
from orchestrator.planning.seams import Part, cut_task
from orchestrator.planning.unasked import asks_to_be_told, is_only_stated
from orchestrator.planning.waiting import put_off
from orchestrator.records.decision import Decision
from orchestrator.records.digests import digest_of
from orchestrator.records.plan import MAX_STEPS, Plan, PlanRequest, Step
from orchestrator.records.tool import Match, Stage, Tool

RESULT_TOKENS = 8_000
"""What a step reserves for its tool's result, besides its arguments."""

UNNAMED_HARMLESS = 0.4
"""The confidence that is enough where no word led to a tool that only tells something, or whose call waits for what the
task does not give. Chosen by `benchmarks.plans` (docs/decisions-reading.md)."""

CLOSE = 0.4
"""The share of the first match's score that a second one needs to take its place."""


_DO_IT = re.compile(r"(?i)\W*(?:please )?(?:do|go ahead|handle|sort)(?: so| that| it| this| them)?(?: please)?\W*")
"""An order whose deed was told before: "they asked us to cancel it, so please do"."""
_POINTS = re.compile(r"(?i)\b(?:it|its|they|them|that|this|these|those|him|his|her)\b")
_THE = re.compile(r"(?i)\bthe\b")
"""Behind what is told it points, too: "Order 12 is late. Cancel the order"."""


def plan(request: PlanRequest) -> Plan:
    """The steps for a Decision's task, in order; no steps, and the reason, where nothing was good enough."""
    if request.first is not None:
        return _plan_again(request, request.first)
    decision = request.decision
    task = corrected(decision.query)
    parts = cut_task(task)
    if not parts:
        return finish(request, (), ("the task says only what is not to be done; nothing is called",))
    if decision.stage is Stage.NONE or not decision.matches:
        return finish(request, (), ("no tool is good enough for this task; nothing is called",))
    needed = _needed(request)
    if decision.confidence < needed:
        best = decision.matches[0].tool.key
        sure = f"{best} is the best match, and only {decision.confidence:.0%} sure"
        return finish(request, (), (f"{sure} (needed: {needed:.0%}); nothing is called",))
    if first_word(task) == "either" and " or " in task and done_by(decision.matches[0].tool) != TELLS:
        return finish(request, (), ("the task leaves open which of two things is to be done; nothing is called",))
    binder = Binder(request)
    bound = _bind(binder, request, parts)
    if not bound:
        return finish(request, (), (f"{_why_nothing(binder, decision.matches[0].tool, task)}; nothing is called",))
    reasons = [f"{len(bound)} {'part' if len(bound) == 1 else 'parts'} in the task"]
    if len(bound) > MAX_STEPS:
        reasons.append(f"only the first {MAX_STEPS} of {len(bound)} parts are planned: give the rest as another task")
        bound = bound[:MAX_STEPS]
    made = finish(request, _steps(bound, request.arguments), tuple(reasons))
    left = (*reasons[1:], *_unchecked(task), *_at_once(bound))  # What is left out is no mere reason.
    return replace(made, warnings=(*left, *made.warnings))


def _why_nothing(binder: Binder, best: Tool, task: str) -> str:
    """Why a task has no step though a tool was found for it."""
    if binder.leaves(best):
        return f"{best.key} takes something away, and the task says nothing of the kind"
    if binder.holds_back(task, best):
        return f"{best.key} does the opposite of what the task begins with"
    return "the task tells of what was done, or asks about it, and asks for nothing else"


def _unchecked(task: str) -> tuple[str, ...]:
    """What to say of the conditions that the task tells: no step waits for one."""
    return tuple(f"no step checks {task[one.start : one.end]!r}: it is taken as given" for one in conditions(task))


def _at_once(bound: Sequence[Bound]) -> Iterator[str]:
    """What to say of the parts that put something off: no step waits for a time."""
    for item in bound:
        if item.match is not None and (said := put_off(item.part.text, item.match.tool)):
            yield f"no step waits for {said!r}: {item.match.tool.key} takes no time and is called at once"


def _needed(request: PlanRequest) -> float:
    """How sure routing must be before anything is called: surer where no word of the task led to the best match, above
    all where a mistake would change something at once."""
    best, task = request.decision.matches[0], corrected(request.decision.query)
    if any(best.words.values()):
        return request.min_confidence
    harmless = done_by(best.tool) == TELLS or lacks(best, task, request.arguments)
    return max(request.min_confidence, UNNAMED_HARMLESS if harmless else UNNAMED)


def _plan_again(request: PlanRequest, first: Plan) -> Plan:
    """The first plan, its unbound steps bound to the matches of one further Decision where they fit it."""
    steps: list[Step] = []
    further = request.decision
    binder = Binder(request)
    weak = further.stage is Stage.NONE or not further.matches or further.confidence < _needed(request)
    for step in first.steps:
        best = None if step.tool or weak else binder.best(step.task)
        if best is None:
            steps.append(step)
            continue
        match, why = best
        steps.append(_fill(replace(step, why=f"found by a further route; {why}"), match, request.arguments))
    warnings = (*first.warnings, *_unused(request, steps), *_unfit(request, steps))
    return replace(first, steps=tuple(steps), warnings=tuple(dict.fromkeys(warnings)))


def _bind(binder: Binder, request: PlanRequest, parts: Sequence[Part]) -> list[Bound]:
    decision, given = request.decision, request.arguments
    if len(parts) == 1:
        return _whole(binder, decision, parts[0], given)
    task = corrected(decision.query)
    others = tuple(task[start:end] for start, end in reported(task))
    bound: list[Bound] = []
    for part, behind in zip_longest(parts, parts[1:]):
        best, alone = binder.best(part.text), bool(binder.searched(part.text))
        tells = best is None and (binder.only_tells(part.text) or part.text.endswith(others))
        if tells and in_full(part.text, names=()) == part.text and not _is_pointed_at(part, behind):
            continue
        if tells:
            part = replace(part, joint=part.joint if part.strong else "")  # Its values are no other tool's.
        if best is not None:
            bound.append(Bound(part, *best, alone))
        elif alone or (part.strong and len(set(terms(part.text))) > 1):
            bound.append(Bound(part, None, "no match of this Decision shares its words and is likely enough", alone))
        else:
            bound.append(Bound(replace(part, joint="weak" if part.joint else ""), None, "nothing of its own"))
    apart = merge_weak(bound)
    told, bound = len(bound) < len(parts), merge_told(apart)
    if told or len(bound) < len(apart):
        return bound
    if len(bound) == 1 or all(item.match is None for item in bound):
        whole = _whole(binder, decision, Part(unquoted(task)), given)
        return whole if all(item.match is None or _is_ordered(item.match, parts) for item in whole) else []
    return bound


def _is_pointed_at(part: Part, behind: Part | None) -> bool:
    """Whether a part only tells how things are, and the order behind it speaks of what is in it: "... merge it"."""
    if behind is None or not only_states(part.text) or _DO_IT.fullmatch(behind.text):
        return False
    acts = may_act(first_word(behind.text)) or undone_by(first_word(behind.text))
    return bool(acts) and bool(_POINTS.search(behind.text)) and not pieces(behind.text)


def _is_ordered(match: Match, parts: Sequence[Part]) -> bool:
    """Whether a tool shares words with a part that orders something, where other parts only tell or ask."""
    before = ["".join(f"{part.seam}{part.text}" for part in parts[:place]) for place in range(len(parts))]
    told = [
        only_states(part.text, said) or asks_to_be_told(part.text) for part, said in zip(parts, before, strict=True)
    ]
    orders = [part.text for part, tells in zip(parts, told, strict=True) if not tells]
    if len(orders) == len(parts) or done_by(match.tool) >= UNSAID:
        return True
    if any(_DO_IT.fullmatch(text) for text in orders):
        return True
    return not term_weights(match).keys().isdisjoint(asked_in(" ".join(orders)))


def _whole(binder: Binder, decision: Decision, part: Part, given: dict[str, Any]) -> list[Bound]:
    """The task as one step, or none where no match does what it asks for."""
    best = _best_of_all(decision, part, given)
    if best.match is not None and binder.refuses(part.text, best.match.tool):
        other = binder.best(part.text)
        if other and other[0].score < binder.needed:
            other = None  # Nothing led to it but a word.
        if other and binder.holds_back(part.text, best.match.tool) and not binder.may_replace(other[0].tool, part.text):
            other = None
        return [Bound(part, *other)] if other else []
    if best.match is None:
        return [best]
    tool = best.match.tool
    return [] if is_only_stated(part.text, tool) or binder.is_beside(part.text, tool) else [best]


def _best_of_all(decision: Decision, part: Part, given: dict[str, Any]) -> Bound:
    """The recommended tool; a close second only where all that it requires is in the text and the first's is not."""
    key = decision.recommended[0] if decision.recommended else decision.matches[0].tool.key
    first = next((match for match in decision.matches if match.tool.key == key), decision.matches[0])
    if lacks(first, part.text, given):
        asked = asked_in(part.text)
        for match in decision.matches:
            required = (match.tool.input_schema or {}).get("required")
            alike = done_by(match.tool) * done_by(first.tool) >= 0  # To look an order up cancels none.
            close = match.score >= CLOSE * first.score and match.gives is None and alike
            if required and close and shared_terms(asked, term_weights(match)) and not lacks(match, part.text, given):
                return Bound(part, match, f"all that it requires is in the text, and not what {key} requires")
    return Bound(part, first, first.why or "the best match")


def _steps(bound: Sequence[Bound], given: dict[str, Any]) -> tuple[Step, ...]:
    """A step waits for all steps before the last "then"; parts joined by "and" run side by side."""
    steps: list[Step] = []
    before: tuple[str, ...] = ()
    beside: list[str] = []
    for number, item in enumerate(bound, 1):
        if item.part.sequential and beside:
            before, beside = tuple(beside), []
        blank = Step(id=f"s{number}", task=item.part.text, tool="", depends_on=before, why=item.why)
        steps.append(_fill(blank, item.match, given, item.order) if item.match else blank)
        beside.append(blank.id)
    return tuple(steps)


def _fill(step: Step, match: Match, given: dict[str, Any], order: str = "") -> Step:
    """order: the text in the step's task that orders; what is told beside it gives only what that points at."""
    found = _found(match.tool, step.task, order, given_for(step.id, match.tool, given))
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


def _found(tool: Tool, task: str, order: str, given: dict[str, Any]) -> Extraction:
    """The values that a part has for a tool; of a condition, and of what is told beside an order, only what is missing
    else, where the rest points at it."""
    rest, nouns = without_conditions(order or task), nouns_of(tool)
    found = extract(tool.input_schema, rest, given, nouns)
    points = _POINTS.search(rest) or (task.endswith(order) and _THE.search(order))
    if rest != task and found.missing and points:
        whole = extract(tool.input_schema, task, given, nouns)
        more = {name: value for name, value in whole.values.items() if name in found.missing}
        missing = tuple(name for name in found.missing if name not in more)
        found = replace(found, values={**found.values, **more}, missing=missing)
    switched = {name: value for name, value in flags(tool, rest).items() if name not in found.values}
    values = {**found.values, **switched}
    missing = tuple(name for name in found.missing if name not in switched)
    notes = (*found.notes, *(f"{name}: by the verb" for name in switched))
    return Extraction(values=values, missing=(*missing, *unread(tool, rest, values)), notes=notes)


def finish(request: PlanRequest, steps: tuple[Step, ...], reasons: tuple[str, ...]) -> Plan:
    """The plan with an id made of its content and the workflow: the same over attempts, resets and continuations."""
    own = digest_of(request.salt, request.decision.query, [[s.id, s.tool, s.arguments] for s in steps])
    # A step without a tool asks for a further route, whose tool may take what is left.
    unused = _unused(request, steps) if all(step.tool for step in steps) else ()
    warnings = (*unused, *_unfit(request, steps))
    return Plan(id=own, task=request.decision.query, steps=steps, reasons=reasons, warnings=warnings)


def _unused(request: PlanRequest, steps: Sequence[Step]) -> tuple[str, ...]:
    """What to say of given arguments that no step takes, or one whose tool has no such parameter: most are misspelt."""
    taken = set()
    for step in steps:
        tool = request.decision.tool(step.tool)
        known = (tool.input_schema or {}).get("properties") if tool else None
        taken |= {name for own in step.arguments if own in (known or [own]) for name in (own, f"{step.id}.{own}")}
    left = ", ".join(name for name in request.arguments if name not in taken) if steps else ""
    return (f"no step takes the given {left}",) if left else ()


def _unfit(request: PlanRequest, steps: Sequence[Step]) -> tuple[str, ...]:
    """What to say of given arguments that the schema of a step's tool refuses: so would the check before the call."""
    told: list[str] = []
    for step in steps:
        tool = request.decision.tool(step.tool)
        given = given_for(step.id, tool, request.arguments) if tool else {}
        try:
            if tool and given:
                check_so_far(tool, {name: step.arguments[name] for name in given if name in step.arguments})
        except InvalidArguments as error:
            told.append(f"what is given for {step.id} does not fit {error}")
    return tuple(told)
