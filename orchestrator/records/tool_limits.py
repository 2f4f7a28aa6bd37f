"""The limits of a tool's calls, from the labels of its catalogue or of its server's entry."""

from dataclasses import dataclass
from typing import Annotated

from orchestrator.common.fields import Give, Seconds, value_of
from orchestrator.records.tool import Tool

TIMEOUT, RETRIES, TASK_QUEUE = "timeout_s", "retries", "task_queue"
MOST_RETRIES = 1_000
"""More tries are no retries but a loop, and each is an event of a workflow history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """The limits of a tool's calls. None: the caller's settings apply.

    Attributes:
        timeout_s: Seconds for one attempt. For a child workflow, seconds for all attempts.
        retries: The number of further attempts.
        task_queue: The task queue of the worker that makes the calls.
    """

    timeout_s: Seconds | None = None
    retries: (
        Annotated[int, Give(f"a whole number from 0 to {MOST_RETRIES:,}", ge=0, le=MOST_RETRIES)]
        | None
    ) = None
    task_queue: str | None = None

    @classmethod
    def of(cls, tool: Tool) -> "ToolLimits":
        """Return the limits in the tool's labels.

        Raises:
            InvalidConfig: A label has a value that is no limit.
        """
        limits = {
            name: value_of(cls, name, tool.labels[name], f"{tool.key}: the label {name}")
            for name in (TIMEOUT, RETRIES, TASK_QUEUE)
            if name in tool.labels
        }
        return cls(**limits)
