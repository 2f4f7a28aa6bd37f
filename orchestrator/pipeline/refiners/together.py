"""Together: the tools that past tasks used with the best tools rise, behind the best one."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from orchestrator.experience.co_use import Partner
from orchestrator.experience.memory import Experience
from orchestrator.pipeline.legs.experience import is_allowed
from orchestrator.pipeline.refiners.related import with_raised
from orchestrator.pipeline.state import Found, Ranking, Task

BEST, DOUBTS, BELIEVED = 5, 2, 0.5
"""The best tools, whose partners rise; tasks that are taken to have gone without; and how far what remains is believed.
Compared on sets whose tasks use several tools (docs/decisions.md)."""


def together(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Raise what the best tools were used with, where any past task is like this one."""
    if task.experience is None or found.recalled is None or ranking.by_rank:
        return ranking
    chances, scores, notes = dict[int, float](), dict[int, float](), dict[int, str]()
    behind_best = float(np.nextafter(max(ranking.scores.values(), default=0.0), 0.0))
    for best, place, own in _partners(task, task.experience, found, ranking):
        chance = BELIEVED * ranking.scores[best] * own.tasks / (own.of + DOUBTS)
        if chance > chances.get(place, 0.0):
            before = ranking.scores.get(place, 0.0)
            chances[place] = chance
            scores[place] = max(before, min(1 - (1 - before) * (1 - chance), behind_best))
            notes[place] = f"used with {task.index.catalogue.tools[best].key} in {own.tasks} of {own.of}"
    return replace(with_raised(ranking, scores, chances, "used_with"), notes=ranking.noted(notes))


def _partners(task: Task, past: Experience, found: Found, ranking: Ranking) -> Iterator[tuple[int, int, Partner]]:
    """Yield each of the best tools with each of its partners: both places, and what is known of the two."""
    tools = task.index.catalogue.tools
    for best in ranking.order[:BEST]:
        for own in past.co_use.usual((tools[best].key, tools[best].hash)):
            if is_allowed(task, found, own.name):
                yield best, task.index.catalogue.positions[own.name[0]], own
