"""Standing: near-duplicates give way, and tools whose texts were flagged neither lead nor settle anything."""

from dataclasses import replace

from orchestrator.index.documents import is_outdated
from orchestrator.routing.select import repeated
from orchestrator.routing.task import Found, Ranking, Task

LEAST_FLAGGED, MOST_FLAGGED = 0.2, 0.65
"""The least with which a flagged tool is shown, and the most that it scores: below the gate."""


def spread_duplicates(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Move near-duplicates from other servers behind the other matches; a coverage set keeps its order."""
    if found.explicit.wanted or task.request.coverage is not None:
        return ranking
    window, rest = ranking.order[: task.most], ranking.order[task.most :]
    later = repeated(task.index.catalogue.tools, window)
    if not later:
        return ranking
    return replace(ranking, order=(*sorted(window, key=lambda position: position in later), *rest))


def append_flagged(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Set the flagged tools that fit among the others, never first: they were searched apart, so no score moves."""
    flagged = task.index.flagged
    if flagged is None or found.search is None:
        return ranking
    allowed = flagged if found.allowed is None else flagged & found.allowed
    search, side = replace(found.search, allowed=allowed), task.index.vectors
    apart = search.by_keyword() if found.vectors is None or side is None else search.by_both(side, found.vectors)
    chances = dict(zip(apart.whole.chosen.tolist(), apart.whole.chances.tolist(), strict=True))
    fit = {place: min(MOST_FLAGGED, chance) for place, chance in chances.items() if chance >= LEAST_FLAGGED}
    if not fit:
        return ranking
    order, tools = list(ranking.order), task.index.catalogue.tools
    for place in sorted(fit, key=fit.__getitem__, reverse=True):
        behind = (at for at, other in enumerate(order) if at and ranking.scores.get(other, 0.0) < fit[place])
        order.insert(next(behind, len(order)), place)
    return replace(
        ranking,
        order=tuple(order),
        scores={**ranking.scores, **fit},
        evidence={**ranking.evidence, **{place: {} for place in fit}},
        notes=ranking.noted({place: f"flagged: {'; '.join(task.index.flags[tools[place].key])}" for place in fit}),
    )


def note_deprecated(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Note the tools that say they are deprecated."""
    if task.index.standing is None:
        return ranking
    tools = task.index.catalogue.tools
    old = [p for p in ranking.order[: task.most] if task.index.standing[p] < 1 and is_outdated(tools[p])]
    return replace(ranking, notes=ranking.noted(dict.fromkeys(old, "says that it is deprecated"))) if old else ranking
