"""Figures of what is remembered: how often routing was right, by week, and how each tool's calls went."""

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

from orchestrator.records.outcome import Outcome, Use

CURVE = (20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
"""The numbers of tasks between which the learning curve counts."""


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return what `toolroute experience stats -o json` prints of these Outcomes, oldest first.

    `right`: the share of tasks whose best tool by routing was used; `curve`: the same by the number of tasks before.
    """
    weeks: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        year, week, _ = datetime.fromtimestamp(outcome.at, UTC).isocalendar()
        weeks.setdefault(f"{year}-W{week:02}", []).append(outcome)
    starts = [start for start in (0, *CURVE) if start < len(outcomes)]
    ends = [*starts[1:], len(outcomes)] if starts else []
    return {
        "tasks": len(outcomes),
        "right": _right(outcomes),
        "weeks": [{"week": week, "tasks": len(own), "right": _right(own)} for week, own in weeks.items()],
        "curve": [
            {"tasks": end, "right": _right(outcomes[start:end])} for start, end in zip(starts, ends, strict=True)
        ],
        "tools": {key: _usage(own) for key, own in _calls(outcomes).items()},
    }


def _right(outcomes: Sequence[Outcome]) -> float | None:
    claims = [claim.right for outcome in outcomes if outcome.worked and (claim := outcome.both or outcome.words)]
    return round(sum(claims) / len(claims), 4) if claims else None


def _calls(outcomes: Sequence[Outcome]) -> dict[str, list[Use]]:
    """Return each tool's calls, the most called first."""
    calls: dict[str, list[Use]] = {}
    for outcome in outcomes:
        for use in outcome.used:
            calls.setdefault(use.tool, []).append(use)
    return dict(sorted(calls.items(), key=lambda item: -len(item[1])))


def _usage(calls: Sequence[Use]) -> dict[str, Any]:
    times = [use.ms for use in calls if use.ms is not None]
    failures = sum(not use.ok for use in calls)
    return {"calls": len(calls), "failures": failures, "ms": round(median(times), 1) if times else None}
