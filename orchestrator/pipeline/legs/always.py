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
    found: dict[int, AlwaysMatch] = {}
    open_clauses = 0
    understood, index = state.task.understood, state.task.index
    for clause in () if understood.asks_nothing else understood.clauses:
        hits = [hit for hit in index.always.match(masked(clause.text)) if state.allows(hit.tool)]
        hits = [hit for hit in hits if index.catalogue.tools[hit.tool].key not in index.flags]
        open_clauses += not any(hit.settles for hit in hits)
        for hit in hits:
            if hit.tool not in found or _least(hit) > found[hit.tool].score:
                found[hit.tool] = AlwaysMatch(phrase=hit.phrase, score=_least(hit))
    return replace(state, always=found, settled=bool(found) and not open_clauses)


def always_for(state: State, clause: str) -> dict[int, float]:
    """Return the capabilities that a clause asks for, with the lower bound of their probability for it.

    If only a loose phrase matches, another tool may have a higher probability for the clause.
    """
    hits = state.task.index.always.match(masked(clause)) if state.always else ()
    return {
        hit.tool: _least(hit) if hit.clear else min(_least(hit), ASKED_CLEARLY)
        for hit in hits
        if hit.tool in state.always
    }


def _least(hit: AlwaysHit) -> float:
    return 1.0 if hit.settles else ASKED_CLEARLY if hit.clear else ASKED_LOOSELY
