"""A plan, and a run with its outcomes, as people read them.

s1  count the words in tasks.json
    files:count_words with path='tasks.json'
    done
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from orchestrator.cli.routing.decision_view import show_decision
from orchestrator.cli.shared.output import (
    Row,
    console,
    counted,
    dim,
    echo_text,
    lines,
    print_warnings,
    table,
)
from orchestrator.common.lines import inline
from orchestrator.records.completion import NO_MODEL
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, Step
from orchestrator.records.run import RunResult, StepOutcome, StepStatus
from orchestrator.records.tool import Match

if TYPE_CHECKING:
    from rich.console import Console

_COLOURS = {StepStatus.DONE: "green", StepStatus.FAILED: "red", StepStatus.OUTCOME_UNKNOWN: "red"}
_LONGEST_REASON = 200
"""The characters of a step's reason, so that a run fits on one screen. `-o json` has the whole reason."""


def show_plan(decision: Decision, plan: Plan) -> None:
    """Show a Decision's first matches and the steps planned from them."""
    screen = console()
    show_decision(decision, matches=3, to=screen, servers=_servers_of(plan, [decision]))
    screen.print()
    _print_steps(screen, plan, decision.matches, {})
    _print_model(screen, plan, plan.warnings)
    if not plan.steps:
        screen.print(lines("; ".join(plan.reasons), style="yellow"))
    if plan.choice and plan.choice.answer:
        echo_text(plan.choice.answer)


def show_run(result: RunResult) -> None:
    """Show a whole run on one screen, the answer last."""
    screen = console()
    decision = result.decision
    servers = _servers_of(result.plan, [decision, *result.extra_routes])
    show_decision(decision, matches=3, to=screen, servers=servers)
    screen.print()
    outcomes = {outcome.step: outcome for outcome in result.steps}
    _print_steps(screen, result.plan, decision.matches, outcomes)
    budget = result.budget
    used = f"{budget.settled:,} of {budget.max_total_tokens:,} tokens used"
    screen.print(dim(f"  budget: {used}, room for {counted(budget.steps_left, 'more step')}"))
    further = [warning for warning in result.warnings if warning not in decision.warnings]
    _print_model(screen, result.plan, further)
    print_warnings(screen, budget.warnings)
    screen.print()
    echo_text(result.answer)


def _servers_of(plan: Plan, decisions: Sequence[Decision]) -> list[str]:
    """Return the MCP servers of the plan's steps."""
    servers: dict[str, None] = {}
    for step in plan.steps:
        for decision in decisions:
            tool = decision.tool(step.tool)
            if tool and tool.kind.is_served:
                servers[tool.server] = None
    return list(servers)


def _print_steps(
    screen: "Console", plan: Plan, matches: Sequence[Match], outcomes: Mapping[str, StepOutcome]
) -> None:
    if not plan.steps:
        return
    rows: list[Row] = []
    for step in plan.steps:
        after = f" (after {', '.join(step.depends_on)})" if step.depends_on else ""
        rows.append((step.id, lines(f"{step.task}{after}", style="bold")))
        rows.append(("", f"{step.tool or 'no tool matches'}{_arguments(step)}"))
        if step.id in outcomes:
            rows.append(("", _ending(outcomes[step.id])))
    screen.print(table(("", ""), rows, show_header=False))
    _print_missing(screen, plan, matches)


def _arguments(step: Step) -> str:
    arguments = [f"{name}={value!r}" for name, value in step.arguments.items()]
    arguments += [f"{name} from {', '.join(step.depends_on)}" for name in step.late]
    return f" with {', '.join(arguments)}" if arguments else ""


def _ending(outcome: StepOutcome) -> Text:
    status = Text(outcome.status.in_words, style=_COLOURS.get(outcome.status, "yellow"))
    if outcome.reason:
        status.append(inline(f": {outcome.reason[:_LONGEST_REASON]}"), style="default")
    return status


def _print_missing(screen: "Console", plan: Plan, matches: Sequence[Match]) -> None:
    """Name the missing arguments, and the tools that give them."""
    sources: dict[tuple[str, str], str] = {}
    for match in matches:
        if match.gives:
            sources[match.gives.tool, match.gives.parameter] = match.tool.key
    options: list[str] = []
    givers: list[str] = []
    for step in plan.steps:
        for name in step.missing:
            options.append(f"--arg {step.id}.{name}=...")
            if source := sources.get((step.tool, name)):
                givers.append(f"  {source} gives {step.id}.{name}")
    if options:
        screen.print(lines(f"  missing: {' '.join(options)}", *givers, style="yellow"))


def _print_model(screen: "Console", plan: Plan, warnings: Sequence[str]) -> None:
    choice = plan.choice
    if choice:
        usage = plan.usage
        used = f"{usage.total:,} tokens to decide and plan, {usage.cached:,} of them cached"
        chosen = f"{choice.action}, confidence {choice.confidence:.0%}"
        screen.print(dim(f"  model {plan.model}: {chosen}; {used}"))
    elif plan.model == NO_MODEL and plan.steps:
        screen.print(dim("  no model: arguments are taken from the task's text only"))
    print_warnings(screen, warnings)
