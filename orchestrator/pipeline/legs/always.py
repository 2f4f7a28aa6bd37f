"""The leg of always-available capabilities: few tools, found by their phrases, clause by clause, without a search."""

from dataclasses import replace

from orchestrator.index.always import AlwaysHit
from orchestrator.pipeline.clauses import masked
from orchestrator.pipeline.state import State
from orchestrator.records.findings import AlwaysMatch

ASKED_CLEARLY = 0.75
"""The minimum probability of a capability that a phrase of several words asks for, in a task that also asks for
something else."""
ASKED_LOOSELY = 0.3
"""The same for a phrase of one word, which may have another meaning ("Google Calendar")."""


def always(state: State) -> State:
    """Return the capabilities that any clause asks for. `settled` is True if they cover every clause."""
    if state.task.understood.asks_nothing or state.task.index.always.is_empty:
        return state
    matches: dict[int, AlwaysMatch] = {}
    covers_all = True
    for clause in state.task.understood.clauses:
        hits = _usable_hits(state, clause.text)
        covers_all = covers_all and any(hit.settles for hit in hits)
        for hit in hits:
            best_match = matches.get(hit.tool)
            if best_match is None or _least(hit) > best_match.score:
                matches[hit.tool] = AlwaysMatch(phrase=hit.phrase, score=_least(hit))
    if not matches:
        return state
    return replace(state, always=matches, settled=covers_all)


def _usable_hits(state: State, clause: str) -> list[AlwaysHit]:
    """Return the capabilities that a clause asks for and that are allowed and not flagged."""
    index = state.task.index
    hits = index.always.match(masked(clause))
    return [hit for hit in hits if state.allows(hit.tool) and hit.tool not in index.flag_reasons]


def always_for(state: State, clause: str) -> dict[int, float]:
    """Return the capabilities that a clause asks for, with the lower bound of their probability for it.

    If only a loose phrase matches, another tool may have a higher probability for the clause.
    """
    least: dict[int, float] = {}
    if not state.always:
        return least
    for hit in state.task.index.always.match(masked(clause)):
        if hit.tool in state.always:
            least[hit.tool] = _least(hit) if hit.clear else min(_least(hit), ASKED_CLEARLY)
    return least


def _least(hit: AlwaysHit) -> float:
    if hit.settles:
        return 1.0
    return ASKED_CLEARLY if hit.clear else ASKED_LOOSELY
