"""Standing: near-duplicates give way, and tools whose texts were flagged neither lead nor settle anything."""

from dataclasses import replace

from orchestrator.index.documents import is_outdated
from orchestrator.index.intent import action_stems
from orchestrator.index.text import terms
from orchestrator.pipeline.select import repeated
from orchestrator.pipeline.state import Found, Ranking, Task

LEAST_FLAGGED, MOST_FLAGGED = 0.2, 0.65
"""The least with which a flagged tool is shown, and the most that it scores: below the gate."""


def spread_duplicates(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Move near-duplicates from other servers behind the other matches."""
    if found.explicit.wanted:
        return ranking
    window, rest = ranking.order[: task.most], ranking.order[task.most :]
    later = repeated(task.index.catalogue.tools, window)
    if not later:
        return ranking
    return replace(ranking, order=(*sorted(window, key=lambda position: position in later), *rest))


def append_flagged(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Set the flagged tools that fit among the others, never first: they were not searched, so no score moves."""
    flagged = task.index.flagged
    if flagged is None or found.search is None:
        return ranking
    allowed = flagged if found.allowed is None else flagged & found.allowed
    chances = {place: _flagged_chance(task, found, place) for place in allowed.nonzero()[0].tolist()}
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


def _flagged_chance(task: Task, found: Found, place: int) -> float:
    """Return how likely a flagged tool fits, by meaning and by the share of its name's words that the task says.

    No shared word halves it, and an action alone ("get") is no shared word.
    """
    name = frozenset(terms(task.index.catalogue.tools[place].name))
    shared = name & task.understood.terms.keys()
    share = len(shared) / len(name) if shared and (shared == name or shared - action_stems()) else 0.0
    by_meaning = max(0.0, 2 * found.near_flagged.get(place, 0.0) - 0.4) * (1.0 if share else 0.5)
    return max(by_meaning, MOST_FLAGGED * share if share >= 0.5 else 0.0)


def note_deprecated(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Note the tools that say they are deprecated."""
    if task.index.deprecation_factor is None:
        return ranking
    tools = task.index.catalogue.tools
    old = [p for p in ranking.order[: task.most] if task.index.deprecation_factor[p] < 1 and is_outdated(tools[p])]
    return replace(ranking, notes=ranking.noted(dict.fromkeys(old, "says that it is deprecated"))) if old else ranking
