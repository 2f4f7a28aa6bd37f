"""Figures of the remembered tasks: how often routing was right, by week, and the calls of each tool."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from orchestrator.experience.calls import Calls, uses_by
from orchestrator.experience.guarantee import guarantees
from orchestrator.experience.recalibrate import LATEST, Claims
from orchestrator.records.outcome import Outcome

CURVE = (20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
"""The limits, as numbers of tasks, of the learning curve's sections."""


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the JSON of `toolroute experience stats` for these Outcomes, oldest first.

    `right` is the share of tasks that used the first match. `curve` has the same by the number of earlier tasks.
    `guarantees` has the confidence from which a promised share of recommended tools is right.
    """
    return {
        "tasks": len(outcomes),
        "right": _right(outcomes),
        "weeks": _by_week(outcomes),
        "curve": _curve(outcomes),
        "guarantees": [asdict(guarantee) for guarantee in guarantees(_claimed(outcomes))],
        "tools": {
            key: asdict(Calls.of(uses))
            for key, uses in uses_by(lambda use: use.tool, outcomes).items()
        },
    }


def _by_week(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    weeks: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        at = datetime.fromtimestamp(outcome.at, UTC)
        tasks = weeks.setdefault(at.strftime("%G-W%V"), [])
        tasks.append(outcome)
    rows = list[dict[str, Any]]()
    for week, tasks in weeks.items():
        row = {"week": week, "tasks": len(tasks), "right": _right(tasks)}
        rows.append(row)
    return rows


def _curve(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    limits = [0, *(limit for limit in CURVE if limit < len(outcomes)), len(outcomes)]
    sections = pairwise(limits) if outcomes else ()
    return [{"tasks": end, "right": _right(outcomes[start:end])} for start, end in sections]


def _right(outcomes: Sequence[Outcome]) -> float | None:
    claims = [outcome.both or outcome.words for outcome in outcomes if outcome.worked]
    right = [claim.right for claim in claims if claim]
    return round(sum(right) / len(right), 4) if right else None


def _claimed(outcomes: Sequence[Outcome]) -> list[tuple[float, bool]]:
    """Return the confidences that routing states by now for the latest tasks, and which came true."""
    claims = Claims().plus(outcomes)
    latest = [task for task in outcomes if task.worked and task.chosen][-LATEST:]
    by_both = [
        (claims.confidence(task.both.chance), task.both.right) for task in latest if task.both
    ]
    by_words = [
        (claims.gate(task.words.chance), task.words.right)
        for task in latest
        if task.words and not task.both
    ]
    return [*by_both, *by_words]
