"""A Decision, as people read it.

open an issue about the broken login
  found by keyword search; confidence 93%
   prob.  tool                 kind  why
*   0.94  github:create_issue  mcp   name: issue; description: open
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from orchestrator.cli.shared.output import (
    Row,
    console,
    counted,
    dim,
    lines,
    print_warnings,
    table,
)
from orchestrator.common.lines import one_line
from orchestrator.options import Options
from orchestrator.records.decision import MIN_CONFIDENCE, Decision
from orchestrator.records.outcome import Near
from orchestrator.records.tool import FOUND_BY, Match, Stage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_COLOURS = {
    Stage.ALWAYS: "cyan",
    Stage.EXPLICIT: "magenta",
    Stage.KEYWORD: "green",
    Stage.SEMANTIC: "blue",
    Stage.NONE: "red",
}
_PLAIN = "default not bold"
"""What follows the name of a search in its own colour is not in that colour."""
_OTHER_COLUMNS = 30
"""Columns that the figures, the kind and the reason need next to the longest name."""


def show_decision(
    decision: Decision,
    *,
    matches: int | None = None,
    to: "Console | None" = None,
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
    screen = to or console()
    screen.print(_headline(decision))
    first = decision.matches[:matches]
    if first:
        screen.print(_matches(decision, first, in_full=past is not None, width=screen.width))
    if decision.needs:
        needs = "; ".join(map(one_line, decision.needs))
        screen.print(dim(f"  needed, according to the model: {needs}"))
    if decision.catalogue.tools:  # Otherwise a warning names the remedy.
        screen.print(_footer(decision, servers or decision.servers))
    print_warnings(screen, decision.warnings)
    if past is not None:
        screen.print(_rest(decision, past))


def _headline(decision: Decision) -> Text:
    """Write the confidence, the search that found the first match, and the confidence after keyword search alone."""
    found_by = FOUND_BY[decision.stage]
    if decision.matches and "keyword" not in decision.matches[0].evidence:
        found_by = found_by.replace("keyword and ", "")
    line = Text(one_line(decision.query, 100), style="bold")
    line.append(f"\n  {found_by}", style=_COLOURS[decision.stage])
    if decision.stage is Stage.NONE:
        line.append("; the nearest tools:" if decision.matches else "", style=_PLAIN)
        return line
    line.append(f"; confidence {decision.confidence:.0%}", style=_PLAIN)
    if decision.confidence < MIN_CONFIDENCE:
        line.append(f", enough to suggest it; a plan needs {MIN_CONFIDENCE:.0%}", style=_PLAIN)
    if decision.semantic_ran:
        alone = decision.gate_confidence
        gate = Options().gate
        reason = f", below the gate of {gate:.0%}"
        if alone >= gate:
            reason = "; the semantic search also ran"
        text = f"\n  keyword search alone: confidence {alone:.0%}{reason}"
        line.append(text, style="dim not bold")
    return line


def _matches(decision: Decision, matches: Sequence[Match], *, in_full: bool, width: int) -> "Table":
    rows: list[Row] = []
    for match in matches:
        tool = match.tool
        star = "*" if tool.key in decision.recommended else ""
        reasons = [one_line(match.why)]
        if in_full:
            reasons += _evidence(match)
        probability = f"{match.probability:.2f}"
        rows.append((star, probability, tool.key, str(tool.kind), lines(*reasons)))
    style = "dim" if decision.stage is Stage.NONE else ""
    rendered = table(("", "prob.", "tool", "kind", "why"), rows, numbers=("prob.",), style=style)
    # On a narrow terminal names are folded, so that the reasons keep half of the line.
    longest = max(len(match.tool.key) for match in matches)
    rendered.columns[2].no_wrap = longest + _OTHER_COLUMNS <= width
    rendered.columns[3].no_wrap = True
    return rendered


def _evidence(match: Match) -> list[str]:
    """Return the score of each search with the source of the tool, and its description."""
    scores = ", ".join(f"{leg} {score:.2f}" for leg, score in match.evidence.items())
    source = f"; from {match.source}" if match.source else ""
    return [f"{scores}{source}", one_line(match.tool.description, 110)]


def _footer(decision: Decision, servers: Sequence[str]) -> Text:
    tokens = decision.tokens
    # Rounded to 100 %, it would look as if the model got no definition.
    saved = f"{min(tokens.saved, 0.999):.1%}" if tokens.after else "100%"
    parts = [
        f"{tokens.after:,} of {tokens.before:,} tokens of definitions ({saved} saved)",
        f"{len(decision.matches)} of {counted(decision.catalogue.tools, 'tool')}",
        f"{decision.timings_ms.get('total', 0):.1f} ms",
    ]
    if decision.stage is not Stage.NONE:
        parts.insert(0, f"connect {', '.join(servers)}" if servers else "no server needed")
    if decision.usage.total:
        parts.append(f"{decision.usage.total:,} tokens used by the model")
    sources = Counter(match.source for match in decision.matches if match.source)
    if sources:
        parts.append(", ".join(f"{count} from {source}" for source, count in sources.items()))
    footer = [f"  {'; '.join(parts)}"]
    if decision.recommended:
        footer.append("  * recommended; prob.: probability that the tool is needed")
    return dim(*footer)


def _rest(decision: Decision, past: Sequence[Near]) -> Text:
    """Write the past tasks like this one, the tools that are no matches, and the timings."""
    text: list[str] = []
    if past:
        text += ["", "Past tasks like this"]
        for near in past:
            task = one_line(near.query, 80) or "(no text kept)"
            text.append(f"   {task}: {', '.join(near.used)}")
    if decision.rejected:
        text += ["", "Not among the matches"]
        text += [f"   {rejected.tool}: {rejected.why}" for rejected in decision.rejected]
    timings = ", ".join(f"{stage} {ms:.2f}" for stage, ms in decision.timings_ms.items())
    text += ["", f"milliseconds: {timings}"]
    text.append(f"catalogue {decision.catalogue.fingerprint}, tenant {decision.tenant}")
    return lines(*text)
