"""Standing: near-duplicates give way, and tools whose texts were flagged neither lead nor settle anything."""

from dataclasses import replace

from orchestrator.index.documents import is_outdated
from orchestrator.routing.select import repeated
from orchestrator.routing.task import Found, Ranking, Task

MOST_FLAGGED = 0.65
"""The most that a flagged tool scores: below the gate."""


def spread_duplicates(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Move near-duplicates from other servers behind the other matches; a coverage set keeps its order."""
    if found.explicit.wanted or task.request.coverage is not None:
        return ranking
    window, rest = ranking.order[: task.most], ranking.order[task.most :]
    later = repeated(task.index.catalogue.tools, window)
    if not later:
        return ranking
    return replace(ranking, order=(*sorted(window, key=lambda position: position in later), *rest))


def demote_flagged(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Cap the scores of flagged tools, and put one that leads behind the first that is not flagged."""
    if not task.index.flags:
        return ranking
    tools, flags = task.index.catalogue.tools, task.index.flags
    flagged = [position for position in ranking.order if tools[position].key in flags]
    if not flagged:
        return ranking
    scores = {**ranking.scores, **{p: min(MOST_FLAGGED, ranking.scores[p]) for p in flagged}}
    order = list(ranking.order)
    confidence = ranking.confidence
    clean = next((p for p in order if tools[p].key not in flags and scores[p] > 0), None)
    if order[0] in flagged:
        confidence = min(confidence, MOST_FLAGGED if clean is None else scores[clean])
        if clean is not None:
            order.remove(clean)
            order.insert(0, clean)
    notes = ranking.noted({p: f"flagged: {'; '.join(flags[tools[p].key])}" for p in flagged})
    return replace(ranking, scores=scores, order=tuple(order), confidence=confidence, notes=notes)


def note_deprecated(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Note the tools that say they are deprecated."""
    if task.index.standing is None:
        return ranking
    tools = task.index.catalogue.tools
    old = [p for p in ranking.order[: task.most] if task.index.standing[p] < 1 and is_outdated(tools[p])]
    return replace(ranking, notes=ranking.noted(dict.fromkeys(old, "says that it is deprecated"))) if old else ranking
