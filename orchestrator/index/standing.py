"""Standing: a tool that says it is deprecated comes behind what took its place.

By what its description says; a tool that its catalogue labels so keeps more (`stages/select.py`).
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from orchestrator.language.outdated import is_outdated
from orchestrator.records.tool import Tool

OUTDATED, REPLACED = 0.2, 0.02
"""What is left of the odds of a tool that says it is deprecated, and where it names another of its server."""
_INSTEAD = re.compile(r"(?i)\b(?:use|see|try|by|of|or|and)\s[`'\"]?([\w.-]*\w)")
"""The name of what is to be used instead."""


def standing(tools: Sequence[Tool], places: Mapping[str, slice]) -> NDArray[np.float64] | None:
    """What to multiply the odds of each tool with [tools]; None where none is deprecated.

    places: where each server's tools stand.
    """
    outdated = [place for place, tool in enumerate(tools) if is_outdated(tool.description)]
    if not outdated:
        return None
    left = np.ones(len(tools))
    for place in outdated:
        said = frozenset(_INSTEAD.findall(tools[place].description)) - {tools[place].name}
        beside = tools[places[tools[place].server]]
        left[place] = REPLACED if any(tool.name in said for tool in beside) else OUTDATED
    return left
