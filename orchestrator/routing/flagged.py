"""Flagged tools beside the others: found by what is left of their texts, never first, and told."""

from collections.abc import Container, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.index import Index
from orchestrator.index.text import terms
from orchestrator.records.tool import Match, Tool
from orchestrator.routing.forbidden import ACTION_TERMS

MOST = 0.65
"""The most that a flagged tool scores: below the gate, so it settles nothing."""
LEAST = 0.2
"""Below this it is not shown at all."""


def set_beside(
    index: Index,
    matches: Sequence[Match],
    *,
    asked: Container[str],
    vector: NDArray[np.float32] | None,
    filters: Mapping[str, str],
    unwanted: Container[str],
    forbidden: Container[int],
) -> list[Match]:
    """The matches, and behind the first of them the flagged tools that fit, by score; none of the others moves.

    asked: the query's terms; vector: what is asked, None where only words were looked at; unwanted: servers left out;
    forbidden: positions among the flagged tools of those that do what the task forbids.
    """
    cosines = index.flagged_cosines(vector) if vector is not None else np.zeros(len(index.flagged))
    placed = list(matches)
    for position, (tool, cosine) in enumerate(zip(index.flagged, cosines.tolist(), strict=True)):
        score = _score(tool, cosine, asked)
        if score < LEAST or position in forbidden or tool.server in unwanted or not _passes(tool, filters):
            continue
        why = f"flagged: {'; '.join(index.flags[tool.key])}"
        place = next((n for n, match in enumerate(placed) if n and match.score < score), len(placed))
        placed.insert(place, Match(tool=tool, score=min(score, placed[0].score) if placed else score, why=why))
    return placed


def _score(tool: Tool, cosine: float, asked: Container[str]) -> float:
    """By meaning, and by the share of its name's words that were asked for; no word at all halves it, and an action
    alone ("get") is none."""
    name = set(terms(tool.name))
    shared = {word for word in name if word in asked}
    share = len(shared) / len(name) if shared and (shared == name or shared - ACTION_TERMS) else 0.0
    by_meaning = max(0.0, 2 * cosine - 0.4) * (1.0 if share else 0.5)
    return min(MOST, max(by_meaning, MOST * share if share >= 0.5 else 0.0))


def _passes(tool: Tool, filters: Mapping[str, str]) -> bool:
    return filters.items() <= tool.filtered_by.items()


def flag_warnings(index: Index, matches: Sequence[Match]) -> list[str]:
    """What a person should know of each flagged tool among the matches."""
    if not index.flags:
        return []
    return [
        f"{match.tool.key} is flagged: {'; '.join(index.flags[match.tool.key])}; it is shown without that text"
        for match in matches
        if match.tool.key in index.flags
    ]
