"""Shows a Decision: its stages, the gate and the graph, as part of a page or as one file."""

from dataclasses import dataclass
from typing import Any

from orchestrator.ui import drawing
from orchestrator.ui.shown import Shown
from orchestrator.ui.templates import file

LEGS = {
    "always": "always-available",
    "explicit": "named server",
    "keyword": "keywords",
    "semantic": "meaning",
    "experience": "past tasks",
    "required": "required by another",
    "used_with": "used together",
}
"""What a person reads for each kind of evidence; a leg of somebody's own has its own name."""


MOST_SHOWN = 200
"""The maximum number of members of each list on a page. A request has at most 50 matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedStage:
    """A stage of a Decision: its result, and its duration or None if that is not measured."""

    name: str
    found: str
    ms: float | None = None


def view(shown: Shown, gate: float) -> dict[str, Any]:
    """Return what the templates show of a Decision; gate: the share from which on keywords settle a task."""
    hops = {one.tool: one.hops for one in shown.related}
    return {
        "shown": shown,
        "most": MOST_SHOWN,
        "first": frozenset(shown.recommended),
        "path": path(shown, gate),
        "longest": max((ms for name, ms in shown.timings_ms.items() if name != "total"), default=0) or 1,
        "gate": gate,
        "legs": LEGS,
        "graph": drawing.graph(shown.graph[:MOST_SHOWN], hops),
        "gate_outcome": _gate_outcome(shown, gate),
    }


def path(shown: Shown, gate: float) -> list[PassedStage]:
    """Return the stages in the order in which they ran, the gate behind the last of the first legs."""
    passed = [
        PassedStage(name=name, found=_found(name, shown), ms=ms)
        for name, ms in [*shown.timings_ms.items()][:MOST_SHOWN]
    ]
    last = next((n for n, one in enumerate(passed, start=1) if one.name == "keyword"), None)
    if last is not None:
        passed.insert(last, PassedStage(name="gate", found=_gate_outcome(shown, gate)))
    return [one for one in passed if one.name != "total"]


def _gate_outcome(shown: Shown, gate: float) -> str:
    """Return what came of the gate; some pipelines keep it closed however sure the keywords are."""
    if shown.semantic_ran:
        return "meaning was searched, too"
    return "keywords settled it" if shown.gate_confidence >= gate else "meaning was not searched"


def _found(stage: str, shown: Shown) -> str:
    if stage == "load":
        return f"{shown.catalogue.tools:,} tools"
    if stage == "understand":
        return f"{len(shown.parts)} parts" if shown.parts else "one task"
    if stage == "select":
        return f"kept {len(shown.matches)}, first {', '.join(shown.recommended[:MOST_SHOWN]) or 'none'}"
    by_leg = [(match.evidence[stage], match.tool) for match in shown.matches if match.evidence.get(stage)]
    if not by_leg:
        return "none of the matches" if stage in LEGS else ""  # Other legs give evidence under names of their own.
    chance, best = max(by_leg)
    return f"{len(by_leg)} of the matches, best {best} at {chance:.2f}"


def as_file(value: dict[str, Any], gate: float) -> str:
    """Return a Decision's page as one self-contained HTML file. `value` is the output of `explain -o json`."""
    return file("file.html", **view(Shown.of(value), gate))
