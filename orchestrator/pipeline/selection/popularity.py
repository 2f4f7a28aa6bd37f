"""How much a tool is used and maintained, by its labels. It decides where no tool matches the task."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from orchestrator.records.tool import Tool

MANY = {"stars": 10_000, "downloads": 1_000_000}
"""The numbers of stars and of downloads that count as 1. Smaller numbers count by their logarithm."""
FRESH_DAYS = 730
"""The age in days at which a release counts 0. A release of today counts 1."""
_AGES = {"stable": 0, "emerging": 1, "": 2, "deprecated": 3}
"""The order of maturities, for a task without any match."""


def by_popularity(tools: Sequence[Tool]) -> list[int]:
    """Return the positions by usage, maintenance and age, for a task without any match."""

    def popularity(position: int) -> tuple[float, float, int]:
        labels = tools[position].labels
        age = _AGES.get(labels.get("maturity", ""), _AGES[""])
        return -_number(labels.get("usage", "0")), -maintenance(tools[position]), age

    return sorted(range(len(tools)), key=popularity)


def maintenance(tool: Tool) -> float:
    """Return a tool's maintenance from 0 to 1, by its labels `stars`, `downloads` and `last_release` (an ISO date)."""
    labels = tool.labels
    shares = []
    for name, many in MANY.items():
        if name in labels:
            count = max(_number(labels[name]), 0.0)
            shares.append(min(1.0, math.log1p(count) / math.log1p(many)))
    if "last_release" in labels:
        shares.append(_freshness(labels["last_release"]))
    return sum(shares) / len(shares) if shares else 0.0


def _freshness(text: str) -> float:
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    if day.tzinfo is None:
        day = day.replace(tzinfo=UTC)
    age = datetime.now(UTC) - day
    return max(0.0, min(1.0, 1 - age.days / FRESH_DAYS))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
