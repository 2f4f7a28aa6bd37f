"""Shows a Decision: its stages, the gate and the graph, as part of a page or as one file."""

import re
from dataclasses import dataclass
from typing import Any

from orchestrator.ui import drawing
from orchestrator.ui.decision_view import Shown
from orchestrator.ui.templates import file

LEGS = {
    "always": "always-available",
    "explicit": "named server",
    "keyword": "keyword search",
    "semantic": "semantic search",
    "experience": "past tasks",
    "required": "required by another",
    "used_with": "used together",
}
"""The name of each leg on the pages. A leg of your own pipeline keeps its name."""


_NUMBER = re.compile(r"^\w+ \d\.\d\d, ")
MOST_SHOWN = 200
"""The number of entries of each list that a page shows. A request returns at most 50 matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedStage:
    """A stage of a Decision: its result, and its duration or None if that is not measured."""

    name: str
    found: str
    ms: float | None = None


def view(shown: Shown, gate: float) -> dict[str, Any]:
    """Return the values that the templates show for a Decision.

    Args:
        shown: The Decision.
        gate: The keyword confidence, 0 to 1, from which on no semantic search is needed.
    """
    hops = {related.tool: related.hops for related in shown.related}
    durations = [ms for stage, ms in shown.timings_ms.items() if stage != "total"]
    return {
        "shown": shown,
        "most": MOST_SHOWN,
        "first": frozenset(shown.recommended),
        "path": path(shown, gate),
        "longest": max(durations, default=0) or 1,
        "gate": gate,
        "legs": LEGS,
        "kinds": {match.kind for match in shown.matches},
        "clauses": [
            (clause, _best_for(shown, number))
            for number, clause in enumerate(shown.parts[:MOST_SHOWN])
        ],
        "rejected": _by_reason(shown),
        "graph": drawing.graph(shown.graph[:MOST_SHOWN], hops),
        "gate_outcome": _gate_outcome(shown, gate),
    }


def _best_for(shown: Shown, clause: int) -> str:
    """Return the key of the best match for one clause, or an empty text."""
    probabilities = [
        (match.for_parts[clause], match.tool)
        for match in shown.matches
        if len(match.for_parts) > clause
    ]
    probability, tool = max(probabilities, default=(0.0, ""))
    return tool if probability > 0 else ""


def _by_reason(shown: Shown) -> dict[str, list[str]]:
    """Return the rejected tools by reason, without the number that differs for each tool."""
    by_reason: dict[str, list[str]] = {}
    for rejected in shown.rejected[:MOST_SHOWN]:
        reason = _NUMBER.sub("", rejected.why)
        by_reason.setdefault(reason, []).append(rejected.tool)
    return by_reason


def path(shown: Shown, gate: float) -> list[PassedStage]:
    """Return the stages in the order in which they ran, with the gate after the keyword leg."""
    stages = []
    for name, ms in list(shown.timings_ms.items())[:MOST_SHOWN]:
        if name == "total":
            continue
        stages.append(PassedStage(name=name, found=_result_of(name, shown), ms=ms))
        if name == "keyword":
            stages.append(PassedStage(name="gate", found=_gate_outcome(shown, gate)))
    return stages


def _gate_outcome(shown: Shown, gate: float) -> str:
    """Return the outcome of the gate in words. Some pipelines never run the semantic leg."""
    if shown.semantic_ran:
        return "semantic search ran as well"
    return (
        "keyword search was enough" if shown.gate_confidence >= gate else "no semantic search ran"
    )


def _result_of(stage: str, shown: Shown) -> str:
    """Return the result of a stage in words. A leg of the user's has none, because its evidence has another name."""
    if stage == "load":
        return f"{shown.catalogue.tools:,} tools"
    if stage == "understand":
        return f"{len(shown.parts)} clauses" if shown.parts else "one clause"
    if stage == "select":
        recommended = ", ".join(shown.recommended[:MOST_SHOWN]) or "none"
        return f"{len(shown.matches)} matches, use first: {recommended}"
    by_leg = [
        (match.evidence[stage], match.tool) for match in shown.matches if match.evidence.get(stage)
    ]
    if not by_leg:
        return "found none of the matches" if stage in LEGS else ""
    probability, best = max(by_leg)
    return f"found {len(by_leg)} of the matches, best: {best} with {probability:.2f}"


def as_file(value: dict[str, Any], gate: float) -> str:
    """Return a Decision's page as one self-contained HTML file. `value` is the output of `explain -o json`."""
    return file("file.html", **view(Shown.of(value), gate))
