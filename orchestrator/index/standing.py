"""Standing: a tool that says it is deprecated comes behind what took its place."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from orchestrator.records.tool import Tool

OUTDATED, REPLACED = 0.2, 0.02
"""What is left of the odds of a tool that says it is deprecated, and where it names another tool of its server."""
_SAYS_SO = re.compile(
    r"(?i)\A\W{0,8}(?:deprecated|obsolete)\b(?!\s(?!by\b|since\b|in\b|as\b)[a-z])|[\[(]deprecated\b"
    r"|\bthis (?:tool|function|method|endpoint|api) (?:is|has been) (?:deprecated|obsolete)\b"
)


def is_outdated(tool: Tool) -> bool:
    """Return whether a tool's description says that the tool itself is deprecated."""
    return "e" in tool.description and _SAYS_SO.search(tool.description) is not None


def standing(tools: Sequence[Tool], outdated: Sequence[int], places: Mapping[str, slice]) -> NDArray[np.float64] | None:
    """Return what to multiply each tool's odds with [tools]; None where no tool is deprecated.

    outdated: the positions of those that are; places: where each server's tools stand.
    """
    if not outdated:
        return None
    left = np.ones(len(tools))
    for place in outdated:
        said = frozenset(re.findall(r"[\w.-]*\w", tools[place].description)) - {tools[place].name}
        named = any(tool.name in said for tool in tools[places[tools[place].server]])
        left[place] = REPLACED if named else OUTDATED
    return left
