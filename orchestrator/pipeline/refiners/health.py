"""Health: how well kept a tool seems, by its labels, and how its calls went."""

import math
from datetime import UTC, datetime

from orchestrator.experience.calls import Calls
from orchestrator.records.tool import Tool

MANY = {"stars": 10_000, "downloads": 1_000_000}
"""Such numbers count as 1; smaller ones by their logarithm."""
FRESH_DAYS = 730
"""The days after which a release counts 0; one of today counts 1."""


SLOW_MS = 1_000
"""Milliseconds of a call that count half; none counts 1."""
_UNKNOWN = 2
"""Calls that are supposed to have failed, so that a few that worked prove little."""


def health(tool: Tool, calls: Calls | None = None) -> float:
    """Return the mean of what the labels `stars`, `downloads` and `last_release` (an ISO date) say, and of how often
    and how fast its calls worked; 0 to 1."""
    said = [_counted(tool.labels[name], most) for name, most in MANY.items() if name in tool.labels]
    if "last_release" in tool.labels:
        said.append(_fresh(tool.labels["last_release"]))
    if calls is not None and calls.calls:
        worked = (calls.calls - calls.failures) / (calls.calls + _UNKNOWN)
        said += [worked, *([] if calls.ms is None else [worked / (1 + calls.ms / SLOW_MS)])]
    return sum(said) / len(said) if said else 0.0


def _counted(text: str, most: int) -> float:
    try:
        return min(1.0, math.log1p(max(float(text), 0.0)) / math.log1p(most))
    except ValueError:
        return 0.0


def _fresh(text: str) -> float:
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    age = datetime.now(UTC) - (day if day.tzinfo else day.replace(tzinfo=UTC))
    return max(0.0, min(1.0, 1 - age.days / FRESH_DAYS))
