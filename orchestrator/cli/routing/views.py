"""Decisions, plans and runs for people."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.cli.shared.output import console, counted, dim, echo_text, lines, print_warnings, table
from orchestrator.common.lines import inline, one_line
from orchestrator.options import Options
from orchestrator.records.completion import NO_MODEL, Choice
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Near
from orchestrator.records.plan import MIN_CONFIDENCE, Plan, Step
from orchestrator.records.run import RunResult, StepOutcome, StepStatus
from orchestrator.records.tool import FOUND_BY, Kind, Match, Stage

_COLOUR = {
    Stage.ALWAYS: "cyan",
    Stage.EXPLICIT: "magenta",
    Stage.KEYWORD: "green",
    Stage.SEMANTIC: "blue",
    Stage.NONE: "red",
}
_STATUS = {StepStatus.DONE: "green", StepStatus.FAILED: "red", StepStatus.OUTCOME_UNKNOWN: "red"}
_OTHERS = 30
"""Columns that the figures, the kind and the reason need next to the longest name."""


def show_decision(
    decision: Decision,
    *,
    matches: int | None = None,
    to: Console | None = None,
    servers: Sequence[str] = (),
    past: Sequence[Near] | None = None,
) -> None:
    """Show a Decision on one screen.

    Args:
        decision: The Decision.
        matches: The most matches to show, None for all.
        to: Where to show it. Default: standard output.
        servers: The servers to connect for a plan, in place of the Decision's own.
        past: The past tasks like this one. With them all is shown: evidence, descriptions, other tools, timings.
    """
    out, shown = to or console(), decision.matches[:matches]
    out.print(_headline(decision))
    if shown:
        out.print(_matches(decision, shown, whole=past is not None, width=out.width))
    if decision.needs:
        out.print(dim(f"  needed, according to the model: {'; '.join(map(one_line, decision.needs))}"))
    if decision.catalogue.tools:  # Otherwise a warning names the remedy.
        out.print(_footer(decision, servers or decision.servers))
    print_warnings(out, decision.warnings)
    if past is not None:
        out.print(_rest(decision, past))


def _matches(decision: Decision, shown: Sequence[Match], *, whole: bool, width: int) -> Table:
    rows = table("", "prob.", "tool", "kind", "why", right=("prob.", "kind"))
    rows.columns[3].justify = "left"
    # On a narrow terminal names are folded, so that the reasons keep half of the line.
    rows.columns[2].no_wrap = max(len(match.tool.key) for match in shown) + _OTHERS <= width
    for match in shown:
        star = "*" if match.tool.key in decision.recommended else ""
        why = [one_line(match.why)]
        if whole:
            source = f"; from {match.source}" if match.source else ""
            why.append(f"{', '.join(f'{leg} {score:.2f}' for leg, score in match.evidence.items())}{source}")
            why.append(one_line(match.tool.description, 110))
        low = "dim" if decision.stage is Stage.NONE else ""
        rows.add_row(star, f"{match.score:.2f}", match.tool.key, str(match.tool.kind), lines(*why), style=low)
    return rows


def _rest(decision: Decision, past: Sequence[Near]) -> Text:
    """Write the past tasks like this one, the tools that are no matches, and the timings."""
    tasks = [f"   {one_line(near.query, 80) or '(no text kept)'}: {', '.join(near.used)}" for near in past]
    others = [f"   {item.tool}: {item.why}" for item in decision.rejected]
    timings = ", ".join(f"{stage} {ms:.2f}" for stage, ms in decision.timings_ms.items())
    return lines(
        *(["", "Past tasks like this", *tasks] if tasks else []),
        *(["", "Not among the matches", *others] if others else []),
        *("", f"milliseconds: {timings}"),
        f"catalogue {decision.catalogue.fingerprint}, tenant {decision.tenant}",
    )


def _headline(decision: Decision) -> Text:
    """Write the confidence, the search that found the first match, and the confidence after keyword search alone."""
    found, colour = FOUND_BY[decision.stage], _COLOUR[decision.stage]
    if decision.matches and "keyword" not in decision.matches[0].evidence:
        found = found.replace("keyword and ", "")
    line = Text(one_line(decision.query, 100), style="bold")
    line.append(f"\n  {found}", style=colour)
    if decision.stage is not Stage.NONE:
        line.append(f"; confidence {decision.confidence:.0%}", style="default not bold")
        if decision.confidence < MIN_CONFIDENCE:
            line.append(f", enough to suggest it; a plan needs {MIN_CONFIDENCE:.0%}", style="default not bold")
    elif decision.matches:
        line.append("; the nearest tools:", style="default not bold")
    if decision.semantic_ran and decision.stage is not Stage.NONE:
        alone, gate = decision.gate_confidence, Options().gate
        why = "; the semantic search also ran" if alone >= gate else f", below the gate of {gate:.0%}"
        line.append(f"\n  keyword search alone: confidence {alone:.0%}{why}", style="dim not bold")
    return line


def _footer(decision: Decision, servers: Sequence[str]) -> Text:
    tokens, tools = decision.tokens, decision.catalogue.tools
    connect = f"connect {', '.join(servers)}" if servers else "no server needed"
    saved = f"{min(tokens.saved, 0.999):.1%}" if tokens.after else "100%"
    parts = [
        *([] if decision.stage is Stage.NONE else [connect]),
        f"{tokens.after:,} of {tokens.before:,} tokens of definitions ({saved} saved)",
        f"{len(decision.matches)} of {counted(tools, 'tool')}",
        f"{decision.timings_ms.get('total', 0):.1f} ms",
        *([f"{took:,} tokens used by the model"] if (took := decision.usage.total) else []),
    ]
    if sources := Counter(match.source for match in decision.matches if match.source):
        parts.append(", ".join(f"{count} from {source}" for source, count in sources.items()))
    legend = ["  * recommended; prob.: probability that the tool is needed"] if decision.recommended else []
    return dim(f"  {'; '.join(parts)}", *legend)


def show_choice(choice: Choice) -> None:
    """Show a language model's choice for a Decision, with its reason."""
    out = console()
    line = dim(f"  model {choice.model}: ")
    line.append(inline(f"{choice.action} {choice.tool or ''}").rstrip(), style="bold default")
    line.append(f", confidence {choice.confidence:.0%}; {choice.usage.total:,} tokens", style="dim")
    out.print(line)
    for text in filter(None, (choice.answer, *choice.reasons)):
        out.print(lines(f"  {text}"))
    print_warnings(out, choice.warnings)


def show_plan(decision: Decision, plan: Plan) -> None:
    """Show a Decision's first matches and the steps planned from them."""
    out = console()
    show_decision(decision, matches=3, to=out, servers=_needed(plan, decision))
    out.print()
    _print_steps(out, plan, decision.matches, {})
    _print_model(out, plan, plan.warnings)
    if not plan.steps:
        out.print(lines("; ".join(plan.reasons), style="yellow"))
    if plan.choice and plan.choice.answer:
        echo_text(plan.choice.answer)


def show_run(result: RunResult) -> None:
    """Show a whole run on one screen, the answer last."""
    out, budget = console(), result.budget
    show_decision(
        result.decision, matches=3, to=out, servers=_needed(result.plan, result.decision, *result.extra_routes)
    )
    out.print()
    _print_steps(out, result.plan, result.decision.matches, {outcome.step: outcome for outcome in result.steps})
    used = f"{budget.settled:,} of {budget.max_total_tokens:,} tokens used"
    out.print(dim(f"  budget: {used}, room for {counted(budget.steps_left, 'more step')}"))
    _print_model(out, result.plan, [text for text in result.warnings if text not in result.decision.warnings])
    print_warnings(out, budget.warnings)
    out.print()
    echo_text(result.answer)


def _print_steps(out: Console, plan: Plan, matches: Sequence[Match], outcomes: Mapping[str, StepOutcome]) -> None:
    if not plan.steps:
        return
    rows = table("", "")
    rows.show_header = False
    for step in plan.steps:
        outcome = outcomes.get(step.id)
        after = f" (after {', '.join(step.depends_on)})" if step.depends_on else ""
        rows.add_row(step.id, lines(f"{step.task}{after}", style="bold"))
        rows.add_row("", f"{step.tool or 'no tool matches'}{_with(step)}")
        if outcome:
            rows.add_row("", _ended(outcome))
    out.print(rows)
    sources = {(match.gives.tool, match.gives.parameter): match.tool.key for match in matches if match.gives}
    missing = {f"{step.id}.{name}": sources.get((step.tool, name)) for step in plan.steps for name in step.missing}
    if missing:
        wanted = " ".join(f"--arg {name}=..." for name in missing)
        found = (f"  {source} gives {name}" for name, source in missing.items() if source)
        out.print(lines(f"  missing: {wanted}", *found, style="yellow"))


def _needed(plan: Plan, *decisions: Decision) -> list[str]:
    """Return the MCP servers of the plan's steps."""
    tools = [tool for step in plan.steps for decision in decisions if (tool := decision.tool(step.tool))]
    return list(dict.fromkeys(tool.server for tool in tools if tool.kind is Kind.MCP))


def _with(step: Step) -> str:
    known = [f"{name}={value!r}" for name, value in step.arguments.items()]
    known += [f"{name} from {', '.join(step.depends_on)}" for name in step.late]
    return f" with {', '.join(known)}" if known else ""


def _ended(outcome: StepOutcome) -> Text:
    status = Text(outcome.status.replace("_", " "), style=_STATUS.get(outcome.status, "yellow"))
    return status.append(inline(f": {outcome.reason[:200]}"), style="default") if outcome.reason else status


def _print_model(out: Console, plan: Plan, warnings: Sequence[str]) -> None:
    if plan.choice:
        used = f"{plan.usage.total:,} tokens to decide and plan, {plan.usage.cached:,} of them cached"
        out.print(dim(f"  model {plan.model}: {plan.choice.action}, confidence {plan.choice.confidence:.0%}; {used}"))
    elif plan.model == NO_MODEL and plan.steps:
        out.print(dim("  no model: arguments are taken from the task's text only"))
    print_warnings(out, warnings)
