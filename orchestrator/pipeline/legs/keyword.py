"""The keyword leg and the gate: BM25 evidence, and whether it is sure enough to answer alone."""

from dataclasses import replace

import numpy as np

from orchestrator.pipeline.legs.explicit import positions_of
from orchestrator.pipeline.scoring import Search
from orchestrator.pipeline.state import Found, Task
from orchestrator.records.request import RouteHint

LEAST_WIDTH = 30
"""Candidates of a leg, or three times the limit where that is more."""


def keyword(task: Task, found: Found) -> Found:
    """Return the keyword leg's candidates, and the chance that its best tool is right; nothing for a settled task."""
    if found.settled:
        return found
    search = search_of(task, found)
    candidates = words = search.by_keyword()
    if found.vectors is not None and task.index.vectors is not None:
        candidates = search.by_meaning(task.index.vectors, found.vectors, task.no_tool())
    return replace(found, search=search, candidates=candidates, gate_confidence=words.gate_confidence)


def search_of(task: Task, found: Found) -> Search:
    """Return the search for a task among the tools that are allowed and not flagged; nothing is computed yet."""
    flagged, allowed = task.index.flagged, found.allowed
    if flagged is not None:  # Nothing that they say moves another tool.
        allowed = ~flagged if allowed is None else allowed & ~flagged
    return Search(
        index=task.index,
        understood=task.understood,
        calibration=task.calibration,
        width=max(LEAST_WIDTH, 3 * task.most),
        allowed=allowed,
        named=positions_of(task, found.explicit.wanted),
    )


def gate(task: Task, found: Found) -> bool:
    """Return whether the keyword leg answers alone: its confidence reaches the gate, and its best tool may be meant.

    Sure of another server's tool, the keyword leg has not seen what the
    named server has that says it in other words. What no keyword leg has looked for is open.
    """
    if found.settled:
        return True
    if found.search is None or found.candidates is None:
        return False
    hint = task.request.route_hint
    if hint is not RouteHint.AUTO:
        return hint is RouteHint.KEYWORD
    if not len(task.index.catalogue):
        return True
    if found.gate_confidence < task.options.gate:
        return False
    named, whole = found.search.named, found.candidates.whole
    return named is None or not len(whole.chosen) or whole.chosen[np.argmax(whole.keyword)] in named
