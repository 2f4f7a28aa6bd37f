"""Floors: what was said outright, by a server's name or an always-available phrase, stands above what was found."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from orchestrator.pipeline.state import Found, Ranking, Task, best_first

OWN_EVIDENCE = 0.2
"""A tool of a named server is lifted when its probability is at least this share of that server's best."""
MOST_LIFTED = 5
"""Tools of a named server that are lifted: one with 80 tools that all fit a little must not fill the answer."""


def lift_named(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Lift the best tools of each named server that have evidence of their own above the floor."""
    if not found.explicit.wanted or found.search is None or found.candidates is None:
        return ranking
    tools, floor = task.index.catalogue.tools, task.options.explicit_floor
    worth = {position: ranking.whole.get(position, score) for position, score in ranking.scores.items()}
    lifted: dict[int, float] = {}
    leading: list[int] = []
    for server in found.explicit.wanted:
        own = [position for position in worth if tools[position].server == server]
        own = [position for position in own if _has_own_evidence(task, position, ranking.evidence[position])]
        own = sorted(own, key=lambda position: -worth[position])[:MOST_LIFTED]
        # Within the floor the order by evidence stays.
        strong = [position for position in own if worth[position] >= OWN_EVIDENCE * worth[own[0]]]
        lifted |= {position: floor + (1 - floor) * worth[position] for position in strong}
        leading += strong[:1]
    if not lifted:
        return ranking
    mask = np.isin(found.candidates.whole.chosen, list(lifted))
    scores = {**ranking.scores, **lifted}
    evidence = {**ranking.evidence, **{p: {**ranking.evidence[p], "explicit": floor} for p in lifted}}
    said = {m.server: m.said for m in reversed(found.explicit.mentions) if not m.unwanted}
    return replace(
        ranking,
        scores=scores,
        evidence=evidence,
        order=best_first(scores),
        confidence=max(ranking.confidence, found.search.confidence(found.candidates, mask)),
        leading=tuple(leading),
        lifted=frozenset(lifted),
        notes=ranking.noted({p: f'server named by "{said[tools[p].server]}"' for p in lifted}),
        best_of_parts=tuple(tools[p].key for p in leading) if len(leading) > 1 else (),
    )


def _has_own_evidence(task: Task, position: int, evidence: Mapping[str, float]) -> bool:
    """Return whether the tool means what is asked, or says a word of it that its server's name does not."""
    keyword = task.index.keyword
    if evidence.get("semantic", 0.0) >= task.options.floor:
        return True
    server = keyword.server_terms[int(keyword.server_of[position])]
    columns = keyword.postings.columns(term for term in task.understood.terms if term not in server)
    return bool((columns.documents == position).any())


def floor_always(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Give the always-available capabilities that are asked for their least scores."""
    if not found.always:
        return ranking
    scores, evidence = dict(ranking.scores), dict(ranking.evidence)
    for position, asked in found.always.items():
        scores[position] = max(asked.score, scores.get(position, 0.0))
        evidence[position] = {**evidence.get(position, {}), "always": 1.0}
    order = best_first(scores)
    notes = {position: f'always available, asked for by "{asked.phrase}"' for position, asked in found.always.items()}
    return replace(
        ranking,
        scores=scores,
        evidence=evidence,
        order=order,
        own={**scores, **{p: ranking.own[p] for p in ranking.lifted}},
        confidence=1.0 if scores[order[0]] == 1.0 else ranking.confidence,
        notes=ranking.noted(notes),
    )
