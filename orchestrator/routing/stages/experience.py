"""The experience leg: past tasks like this one move its candidates, and bring the tools that they used."""

from dataclasses import replace

import numpy as np

from orchestrator.experience.lift import LEAST, lift, shipped
from orchestrator.experience.memory import Name
from orchestrator.index.calibration import log_odds
from orchestrator.routing.task import Found, Ranking, Task, best_first


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
    tools = task.index.catalogue.tools
    candidates = [(tools[place].key, tools[place].hash) for place in found.candidates.whole.chosen.tolist()]
    recalled = task.experience.recall(vectors[0], candidates, lambda *name: _known(task, found, name))
    return replace(found, recalled=recalled) if recalled else found


def _known(task: Task, found: Found, name: Name) -> bool:
    """Return whether a tool is in the catalogue as it was, and is neither flagged nor left out."""
    place = task.index.catalogue.positions.get(name[0])
    if place is None or task.index.catalogue.tools[place].hash != name[1]:
        return False
    flagged = task.index.flagged is not None and task.index.flagged[place]
    return not flagged and (found.allowed is None or bool(found.allowed[place]))


def learnt(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Return the ranking as past tasks move it; an order by ranks stays as it is."""
    recalled = found.recalled
    if recalled is None or ranking.by_rank:
        return ranking
    catalogue = task.index.catalogue
    brought = {key: None for near in recalled.tasks for key in near.used}
    places = [*ranking.order, *(p for key in brought if (p := catalogue.positions[key]) not in ranking.scores)]
    if not places:
        return ranking
    before = {place: ranking.scores.get(place, LEAST) for place in places}
    chances = np.array([*before.values()])
    lifted = lift(chances, [catalogue.tools[place].key for place in places], recalled, shipped())
    scores = dict(zip(places, lifted.chances.tolist(), strict=True))
    moved = {place: score for place, score in scores.items() if score != before[place]}
    if not moved:
        return ranking
    shifts = {place: float(log_odds(score) - log_odds(before[place])) for place, score in moved.items()}
    scores = {place: score for place, score in scores.items() if place in ranking.scores or place in moved}
    odds = float(log_odds(ranking.confidence)) + lifted.confidence
    return replace(
        ranking,
        order=best_first(scores),
        scores=scores,
        own=scores,
        whole={**ranking.whole, **{p: _shifted(ranking.whole.get(p, LEAST), by) for p, by in shifts.items()}},
        evidence={
            place: {**ranking.evidence.get(place, {}), **({"experience": scores[place]} if place in moved else {})}
            for place in scores
        },
        confidence=1 / (1 + float(np.exp(-odds))),
        notes=ranking.noted(_notes(task, found, moved)),
    )


def calibrate(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Correct the confidence by what became of the tenant's earlier ones; the gate's is, within its map."""
    if task.experience is None or not found.semantic_ran or not 0 < ranking.confidence < 1:
        return ranking
    return replace(ranking, confidence=task.experience.claims.confidence(ranking.confidence))


def _shifted(chance: float, by: float) -> float:
    return 1 / (1 + float(np.exp(-(log_odds(chance) + by))))


def _notes(task: Task, found: Found, moved: dict[int, float]) -> dict[int, str]:
    """Return how many of the past tasks like this one used each tool that they moved."""
    near = found.recalled.tasks if found.recalled else ()
    notes = {}
    for place in moved:
        used = sum(task.index.catalogue.tools[place].key in past.used for past in near)
        if used:
            notes[place] = f"used in {used} of {len(near)} past tasks like this"
    return notes
