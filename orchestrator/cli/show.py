"""Decisions for people: what won, by which stage, how sure, why, what to connect, what was saved."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from orchestrator.cli.plain import counted, one_line, plain
from orchestrator.options import Options
from orchestrator.records.completion import Choice
from orchestrator.records.decision import Decision
from orchestrator.records.tool import Match, Stage

_COLOURS = {
    Stage.ALWAYS: "cyan",
    Stage.EXPLICIT: "magenta",
    Stage.KEYWORD: "green",
    Stage.SEMANTIC: "blue",
    Stage.NONE: "red",
}


_BESIDE = 30
"""Columns that are left for the score, the kind and the reason beside the longest name."""


class _Plain(Console):
    """A Console whose own signs are the only ones that reach the terminal, and which reads no markup in texts."""

    def __init__(self, *, width: int | None = None) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, width=width)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))


def console() -> Console:
    """Standard output; wide enough for a table where no terminal says otherwise."""
    found = _Plain()
    return found if found.is_terminal else _Plain(width=120)


def show_decision(decision: Decision, *, matches: int | None = None, to: Console | None = None) -> None:
    """The Decision on one screen."""
    out = to or console()
    out.print(_headline(decision))
    table = Table(box=None, pad_edge=False, show_header=True, header_style="dim")
    longest = max((len(match.tool.key) for match in decision.matches[:matches]), default=0)
    table.add_column("", width=1)
    table.add_column("score", justify="right", no_wrap=True)
    # A narrow terminal would show names alone: there they are folded, and the reasons keep half of the line.
    table.add_column("tool", no_wrap=longest + _BESIDE <= out.width, overflow="fold")
    table.add_column("kind", style="dim", no_wrap=True)
    table.add_column("why")
    for match in decision.matches[:matches]:
        star = "*" if match.tool.key in decision.recommended else ""
        low = "dim" if decision.stage is Stage.NONE else ""
        table.add_row(
            star, f"{match.score:.2f}", one_line(match.tool.key), str(match.tool.kind), one_line(match.why), style=low
        )
    if decision.matches:
        out.print(table)
    out.print(_footer(decision))
    show_warnings(out, decision.warnings)


def show_choice(choice: Choice) -> None:
    """What a language model would do with the Decision, and why; or why none was heard."""
    out = console()
    line = Text(f"  model {choice.model}: ", style="dim")
    line.append(str(choice.action), style="bold default")
    line.append(f" {choice.tool}" if choice.tool else "", style="default")
    line.append(f", {choice.confidence:.0%} sure; {choice.usage.total:,} tokens", style="dim")
    out.print(line)
    for text in filter(None, (choice.answer, *choice.reasons)):
        out.print(Text(f"  {text}"))
    show_warnings(out, choice.warnings)


def show_warnings(out: Console, warnings: Iterable[str]) -> None:
    """What a person should know, a line each."""
    for warning in warnings:
        out.print(Text(one_line(f"! {warning}"), style="yellow"))


def show_explanation(decision: Decision) -> None:
    """The whole Decision: legs and words of every match, the rejected with reasons, the timings."""
    out = console()
    show_decision(decision, to=out)
    out.print()
    for rank, match in enumerate(decision.matches, start=1):
        out.print(Text(f"{rank}. {one_line(match.tool.key)}", style="bold"))
        out.print(Text(f"   {one_line(match.tool.description, 110)}", style="dim"))
        for line in _evidence(match):
            out.print(Text(f"   {line}"))
    if decision.rejected:
        out.print(Text("\nNot among the matches", style="bold"))
        for item in decision.rejected:
            out.print(Text(f"   {one_line(f'{item.tool}: {item.why}')}"))
    timings = ", ".join(f"{stage} {ms:.2f}" for stage, ms in decision.timings_ms.items())
    out.print(Text(f"\nmilliseconds: {timings}", style="dim"))
    out.print(Text(f"catalogue {decision.catalogue.fingerprint}, tenant {decision.tenant}", style="dim"))


def _headline(decision: Decision) -> Text:
    line = Text(one_line(decision.query, 100), style="bold")
    line.append(f"\n  settled by {decision.stage}", style=_COLOURS[decision.stage])
    line.append(f", {decision.confidence:.0%} sure", style="default not bold")
    if decision.stage is not Stage.ALWAYS:
        line.append(f" (keyword gate {decision.gate_confidence:.2f}: {_gate(decision)})", style="dim not bold")
    return line


def _gate(decision: Decision) -> str:
    passed = decision.gate_confidence >= Options().gate
    if decision.semantic_ran:
        return "passed, and both legs ran as asked" if passed else "closed, so the semantic leg ran"
    return "passed" if passed else "closed, and the keyword leg stood alone"


def _footer(decision: Decision) -> Text:
    connect = ", ".join(decision.servers) or "nothing"
    tokens = decision.tokens
    line = Text(f"  connect {connect}; ", style="dim")
    saved = f"{min(tokens.saved, 0.999):.1%}" if tokens.after else "all"
    line.append(f"{tokens.after:,} of {tokens.before:,} tokens of definitions ({saved} saved)", style="dim")
    line.append(f", {len(decision.matches)} of {counted(decision.catalogue.tools, 'tool')}", style="dim")
    if decision.coverage:
        line.append(f" ({decision.coverage:.0%} sure to hold all needed)", style="dim")
    line.append(f", {decision.timings_ms.get('total', 0):.1f} ms", style="dim")
    return line


def _evidence(match: Match) -> list[str]:
    legs = ", ".join(f"{leg} {score:.2f}" for leg, score in match.evidence.items()) or "no leg"
    return [f"{legs} -> {match.score:.2f}", *(f"{field}: {', '.join(words)}" for field, words in match.words.items())]
