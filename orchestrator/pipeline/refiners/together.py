"""Together: the tools that past tasks used with the best tools rise, behind the best one."""

from collections.abc import Iterator, Sequence

import numpy as np

from orchestrator.experience.co_use import Partner
from orchestrator.experience.memory import Experience
from orchestrator.pipeline.legs.experience import is_allowed
from orchestrator.pipeline.state import State

BEST, DOUBTS, BELIEVED = 5, 2, 0.5
"""The number of best tools whose partners rise, the number of assumed tasks without the partner, and the factor on the
resulting share. Compared on sets whose tasks use several tools (docs/decisions/experience.md)."""


def together(state: State) -> State:
    """Raise the tools that past tasks used with the best ones, where any past task is like this one."""
    past = state.task.experience
    if past is None or state.recalled is None or not state.scores:
        return state
    chances, scores, notes = dict[int, float](), dict[int, float](), dict[int, str]()
    behind_best = float(np.nextafter(max(state.scores.values()), 0.0))
    for best, place, own in _partners(state, past, state.order[:BEST]):
        chance = BELIEVED * state.scores[best] * own.tasks / (own.of + DOUBTS)
        if chance > chances.get(place, 0.0):
            before = state.scores.get(place, 0.0)
            chances[place] = chance
            if (now := min(1 - (1 - before) * (1 - chance), behind_best)) > before:
                scores[place] = now
            notes[place] = (
                f"used with {state.task.index.catalogue.tools[best].key} in {own.tasks} of {own.of} past tasks"
            )
    return state.rescored(scores).with_evidence("used_with", chances).noted(notes)


def _partners(state: State, past: Experience, first: Sequence[int]) -> Iterator[tuple[int, int, Partner]]:
    """Yield each of the best tools with each of its partners: both places, and their relation."""
    tools, positions = state.task.index.catalogue.tools, state.task.index.catalogue.positions
    for best in first:
        for own in past.co_use.usual((tools[best].key, tools[best].hash)):
            if is_allowed(state, own.name):
                yield best, positions[own.name[0]], own
