"""Plans and runs for people: which steps, with what, how each ended, what was used, and the answer."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.cli.plain import counted, echo_text
from orchestrator.cli.show import console, show_decision, show_warnings
from orchestrator.records.completion import NO_MODEL
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, Step
from orchestrator.records.run import RunResult, StepOutcome, StepStatus
from orchestrator.records.tool import Match

_COLOURS = {
    StepStatus.DONE: "green",
    StepStatus.FAILED: "red",
    StepStatus.OUTCOME_UNKNOWN: "red",
    StepStatus.REFUSED: "yellow",
    StepStatus.NEEDS_INPUT: "yellow",
    StepStatus.NEEDS_APPROVAL: "yellow",
}


def show_plan(decision: Decision, plan: Plan) -> None:
    """The Decision's first matches and the steps made from them."""
    out = console()
    show_decision(decision, matches=3, to=out)
    out.print()
    _print_steps(out, plan, decision.matches, {})
    _print_model(out, plan, plan.warnings)
    if not plan.steps:
        out.print(Text("; ".join(plan.reasons), style="yellow"))
    if plan.choice and plan.choice.answer:
        echo_text(plan.choice.answer)


def show_run(result: RunResult) -> None:
    """The whole run on one screen, the answer last."""
    out = console()
    show_decision(result.decision, matches=3, to=out)
    out.print()
    _print_steps(out, result.plan, result.decision.matches, {outcome.step: outcome for outcome in result.steps})
    budget = result.budget
    used = f"{budget.settled:,} of {budget.max_total_tokens:,} tokens used"
    out.print(Text(f"  budget: {used}, room for {counted(budget.steps_left, 'more step')}", style="dim"))
    told = result.decision.warnings
    _print_model(out, result.plan, [warning for warning in result.warnings if warning not in told])
    show_warnings(out, budget.warnings)
    out.print()
    echo_text(result.answer)


def _print_steps(out: Console, plan: Plan, matches: Sequence[Match], outcomes: dict[str, StepOutcome]) -> None:
    if not plan.steps:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("step", "task", "tool", "with", "after", "ended" if outcomes else "lacks"):
        table.add_column(column, overflow="fold")
    for step in plan.steps:
        outcome = outcomes.get(step.id)
        ended = _ended(outcome) if outcome else Text(", ".join(step.missing), style="yellow")
        tool = Text(step.tool or "no match fits")
        table.add_row(step.id, Text(step.task), tool, _with(step), ", ".join(step.depends_on), ended)
    out.print(table)
    lacking = [(step, name) for step in plan.steps for name in step.missing]
    if wanted := [f"--arg {step.id}.{name}=..." for step, name in lacking]:
        out.print(Text(f"  give what is lacking: {' '.join(wanted)}", style="yellow"))
    sources = {(match.gives.tool, match.gives.parameter): match.tool.key for match in matches if match.gives}
    for step, name in lacking:
        if source := sources.get((step.tool, name)):
            out.print(Text(f"  {source} gives {step.id}.{name}", style="yellow"))


def _print_model(out: Console, plan: Plan, warnings: Sequence[str]) -> None:
    """Which model decided, how sure and at what price; `none` where the plan is the deterministic one."""
    if plan.choice:
        used = f"{plan.usage.total:,} tokens to decide and plan, {plan.usage.cached:,} of them cached"
        line = f"  model {plan.model}: {plan.choice.action}, {plan.choice.confidence:.0%} sure; {used}"
        out.print(Text(line, style="dim"))
    elif plan.model == NO_MODEL and plan.steps:
        out.print(Text("  model none: arguments are only what stands in the task", style="dim"))
    show_warnings(out, warnings)


def _with(step: Step) -> Text:
    known = [f"{name}={value!r}" for name, value in step.arguments.items()]
    return Text(", ".join([*known, *(f"{name} from {', '.join(step.depends_on)}" for name in step.late)]))


def _ended(outcome: StepOutcome) -> Text:
    said = Text(outcome.status.replace("_", " "), style=_COLOURS.get(outcome.status, "dim"))
    return said.append(f": {outcome.reason[:200]}", style="default") if outcome.reason else said
