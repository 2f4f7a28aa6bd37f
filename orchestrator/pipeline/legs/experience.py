"""The experience leg: past tasks like this one move its candidates, and bring the tools that they used."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from orchestrator.experience.memory import Experience
from orchestrator.experience.voting import LEAST, behind_first, damped, with_unseen
from orchestrator.index.calibration import log_odds
from orchestrator.index.index import Index
from orchestrator.pipeline.state import Found, Ranking, Task, best_first
from orchestrator.records.outcome import Name, Recalled
from orchestrator.records.relation import Edge
from orchestrator.records.tool import Tool


async def experience(task: Task, found: Found) -> Found:
    """Return the findings with the past tasks that are like this one, if any is.

    It stands among the cheap legs and the dear: before the semantic one it runs where embedding costs no call.
    """
    if task.experience is None or found.recalled or found.settled or found.candidates is None:
        return found
    if (task.remote or task.leans) and not found.semantic_ran:
        return found
    vectors = found.vectors if found.vectors is not None else (await task.embed(task.understood.texts[:1]))[0]
    if vectors is None or not len(task.experience.tasks):
        return found
    recalled = task.experience.recall(vectors[0], lambda *name: is_allowed(task, found, name))
    return replace(found, recalled=recalled) if recalled else found


def used_together(experience: Experience | None, index: Index, tool: Tool) -> Iterable[Edge]:
    """Return the relations of a tool that the past tasks show."""
    if experience is None:
        return ()
    return experience.co_use.edges((tool.key, tool.hash), lambda *name: name in index.trusted)


def is_allowed(task: Task, found: Found, name: Name) -> bool:
    """Return whether a tool is there as it was, is not flagged, and neither filters nor the task leave it out."""
    place = task.index.trusted.get(name)
    return place is not None and found.allows(place)


def learnt(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Return the ranking as past tasks move it; an order by ranks stays as it is."""
    recalled = found.recalled
    if task.experience is None or recalled is None or ranking.by_rank or not any(recalled.lifts.values()):
        return ranking
    catalogue = task.index.catalogue
    brought = [catalogue.positions[key] for key in recalled.lifts]
    places = [*dict.fromkeys((*ranking.order, *brought))]
    tools = [catalogue.tools[place] for place in places]
    before = log_odds(np.maximum([ranking.scores.get(place, LEAST) for place in places], LEAST))
    best = before.max()
    lifts = np.array([recalled.lifts.get(tool.key, 0.0) for tool in tools])
    alone = np.array([tool.key in recalled.alone for tool in tools])
    unseen = np.array([not task.experience.has_used((tool.key, tool.hash)) for tool in tools])
    lifts = with_unseen(behind_first(lifts, before, alone), before, unseen, among=~alone)
    after = damped(before + lifts, best)
    rows = np.flatnonzero(lifts).tolist()
    now = dict(zip((places[row] for row in rows), expit(after[rows]).tolist(), strict=True))
    scores = {**ranking.scores, **now}
    whole = np.array([ranking.whole.get(place, LEAST) for place in now])
    held = {place: {**ranking.evidence.get(place, {}), "experience": score} for place, score in now.items()}
    return replace(
        ranking,
        order=best_first(scores),
        scores=scores,
        own=scores,
        whole={**ranking.whole, **dict(zip(now, expit(log_odds(whole) + lifts[rows]).tolist(), strict=True))},
        evidence={**ranking.evidence, **held},
        confidence=float(expit(log_odds(ranking.confidence) + after.max() - best)),
        notes=ranking.noted(_notes(recalled, {places[row]: tools[row].key for row in rows})),
    )


def calibrate(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Correct the confidence by what became of the tenant's earlier ones; the gate's is, within its map."""
    if task.experience is None or not found.semantic_ran or not 0 < ranking.confidence < 1:
        return ranking
    return replace(ranking, confidence=task.experience.claims.confidence(ranking.confidence))


def expit(odds: Any) -> Any:
    """Return the chance of log-odds, or of an array of them."""
    return 1 / (1 + np.exp(-odds))


def _notes(recalled: Recalled, moved: dict[int, str]) -> dict[int, str]:
    """Return how many of the past tasks like this one used each of these tools."""
    used = {key: sum(key in past.used for past in recalled.tasks) for key in moved.values()}
    likes = f"of {len(recalled.tasks)} past tasks like this"
    return {place: f"used in {used[key]} {likes}" for place, key in moved.items() if used[key]}
