"""The leg of always-available capabilities: few tools, found by their phrases, clause by clause, without a search."""

from dataclasses import replace

from orchestrator.index.always import AlwaysHit
from orchestrator.pipeline.clauses import masked
from orchestrator.pipeline.state import Found, Task
from orchestrator.records.findings import AlwaysMatch

ASKED_CLEARLY = 0.75
"""The least score of a capability that is asked for by a phrase of several words, where more is asked."""
ASKED_LOOSELY = 0.3
"""The same for a phrase of one word, which may mean something else ("Google Calendar")."""


def always(task: Task, found: Found) -> Found:
    """Return the capabilities that any clause asks for; `settled` where they are all that every clause asks for."""
    asked: dict[int, AlwaysMatch] = {}
    open_clauses = 0
    for clause in () if task.understood.asks_nothing else task.understood.clauses:
        hits = task.index.always.match(masked(clause.text))
        open_clauses += not any(hit.settles for hit in hits)
        for hit in hits:
            if hit.tool not in asked or _least(hit) > asked[hit.tool].score:
                asked[hit.tool] = AlwaysMatch(phrase=hit.phrase, score=_least(hit))
    return replace(found, always=asked, settled=bool(asked) and not open_clauses)


def always_for(task: Task, found: Found, part: str) -> dict[int, float]:
    """Return the capabilities that a part asks for with the least chance that each is right for it.

    Where a loose phrase is all that asks, another tool may be surer of the part.
    """
    hits = task.index.always.match(masked(part)) if found.always else ()
    return {
        hit.tool: _least(hit) if hit.clear else min(_least(hit), ASKED_CLEARLY)
        for hit in hits
        if hit.tool in found.always
    }


def _least(hit: AlwaysHit) -> float:
    return 1.0 if hit.settles else ASKED_CLEARLY if hit.clear else ASKED_LOOSELY
