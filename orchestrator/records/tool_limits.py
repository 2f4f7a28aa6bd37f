"""A tool's own limits, as labels of its catalogue or its server's entry state them."""

from dataclasses import dataclass
from typing import Any

from orchestrator.errors import InvalidConfig
from orchestrator.records.tool import Tool

TIMEOUT, RETRIES, TASK_QUEUE = "timeout_s", "retries", "task_queue"
SHORTEST_S, MOST_S, MOST_RETRIES = 0.001, 10_000_000_000, 1_000
"""Temporal counts in milliseconds; far beyond the most, a timer that cannot be set would leave a workflow stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """What a tool says of its own calls; None where it says nothing, and the caller's settings hold.

    `timeout_s` is for one attempt; of a child workflow, for all of it.
    """

    timeout_s: float | None = None
    retries: int | None = None
    task_queue: str | None = None

    @classmethod
    def of(cls, tool: Tool) -> "ToolLimits":
        """Return the limits in the tool's labels. Raises InvalidConfig for a value that is no limit."""
        return cls(
            timeout_s=_number(tool, TIMEOUT, float, SHORTEST_S, MOST_S, f"seconds, from {SHORTEST_S} to {MOST_S:,}"),
            retries=_number(tool, RETRIES, int, 0, MOST_RETRIES, f"a whole number from 0 to {MOST_RETRIES:,}"),
            task_queue=tool.labels.get(TASK_QUEUE),
        )


def _number(tool: Tool, label: str, kind: type, least: float, most: float, wanted: str) -> Any:
    given = tool.labels.get(label)
    if given is None:
        return None
    try:
        value = kind(given)
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise InvalidConfig(f"{tool.key}: the label {label}={given!r} is no limit: give {wanted}")
    return value
