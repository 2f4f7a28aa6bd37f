"""Together: what past tasks used with the best tools rises behind these, and behind tools that no task ever used."""

from collections.abc import Iterator, Sequence

import numpy as np

from orchestrator.experience.co_use import Partner
from orchestrator.experience.memory import Experience
from orchestrator.pipeline.legs.experience import is_allowed
from orchestrator.pipeline.state import State
from orchestrator.records.outcome import Recalled

BEST, DOUBTS, BELIEVED = 5, 2, 0.5
"""The best tools, whose partners rise; tasks that are taken to have gone without; and how far what remains is believed.
Compared on sets whose tasks use several tools (docs/decisions.md)."""
FIRST = 3
"""The first places, into which no single person's tasks bring a tool."""


def together(state: State) -> State:
    """Raise what the best tools were used with, where any past task is like this one."""
    past, recalled = state.task.experience, state.recalled
    if past is None or recalled is None:
        return state
    tools, order = state.task.index.catalogue.tools, state.order
    chances, scores, notes = dict[int, float](), dict[int, float](), dict[int, str]()
    for best, place, own in _partners(state, past, order):
        chance = BELIEVED * state.scores[best] * own.tasks / (own.of + DOUBTS)
        if chance > chances.get(place, 0.0):
            before = state.scores.get(place, 0.0)
            most = _ceiling(state, recalled, order, place, own)
            chances[place], scores[place] = chance, max(before, min(1 - (1 - before) * (1 - chance), most))
            notes[place] = f"used with {tools[best].key} in {own.tasks} of {own.of}"
    return state.rescored(scores).with_evidence("used_with", chances).noted(notes)


def _partners(state: State, past: Experience, order: Sequence[int]) -> Iterator[tuple[int, int, Partner]]:
    """Yield each of the best tools with each of its partners: both places, and what is known of the two."""
    tools, positions = state.task.index.catalogue.tools, state.task.index.catalogue.positions
    for best in order[:BEST]:
        for own in past.co_use.usual((tools[best].key, tools[best].hash)):
            if is_allowed(state, own.name):
                yield best, positions[own.name[0]], own


def _ceiling(state: State, recalled: Recalled, order: Sequence[int], place: int, own: Partner) -> float:
    """Return the most that a tool may score: behind the best; what one person alone taught, behind the first three."""
    first, tools = order[:BEST], state.task.index.catalogue.tools
    ahead = [first[0], *(first[FIRST - 1 : FIRST] if own.alone else ())]
    if place not in first:
        ahead += [other for other in first if tools[other].key not in recalled.proven]
    return float(np.nextafter(min(state.scores[other] for other in ahead), 0.0))
