"""Figures of the remembered tasks: how often routing was right, by week, and the calls of each tool."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from orchestrator.experience.calls import Calls, uses_by
from orchestrator.experience.recalibrate import LATEST, Claims
from orchestrator.index.guarantee import guarantees
from orchestrator.records.outcome import Outcome

CURVE = (20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
"""The limits, as numbers of tasks, of the learning curve's sections."""


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the JSON of `toolroute experience stats` for these Outcomes, oldest first.

    `right` is the share of tasks that used the first match. `curve` has the same by the number of earlier tasks.
    `guarantees` has the confidence from which a promised share of recommended tools is right.
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
        "guarantees": [asdict(own) for own in guarantees(_claimed(outcomes))],
        "tools": {key: asdict(Calls.of(own)) for key, own in uses_by(lambda use: use.tool, outcomes).items()},
    }


def _right(outcomes: Sequence[Outcome]) -> float | None:
    claims = [claim.right for outcome in outcomes if outcome.worked and (claim := outcome.both or outcome.words)]
    return round(sum(claims) / len(claims), 4) if claims else None


def _claimed(outcomes: Sequence[Outcome]) -> list[tuple[float, bool]]:
    """Return the confidences that routing states by now for the latest tasks, and which came true."""
    claims = Claims().plus(outcomes)
    known = [task for task in outcomes if task.worked and task.chosen][-LATEST:]
    by_both = [(claims.confidence(task.both.chance), task.both.right) for task in known if task.both]
    by_words = [(claims.gate(task.words.chance), task.words.right) for task in known if task.words and not task.both]
    return [*by_both, *by_words]
