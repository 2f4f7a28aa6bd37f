"""Clauses: a task of several clauses gets tools for each clause, not only for the clause with the most matches."""

from collections.abc import Sequence
from textwrap import shorten

import numpy as np

from orchestrator.index.calibration import supported
from orchestrator.pipeline.fusion import PART
from orchestrator.pipeline.scoring import Chances
from orchestrator.pipeline.state import State

_NOTED = 60
"""The maximum number of a clause's characters in a note."""
WORTH_NOTING = 0.1
"""The least probability for a clause at which a tool that moved up for the clause gets a note."""


def cover_clauses(state: State) -> State:
    """Order the tools so that each clause has a tool among the first, and note the tools that moved up.

    The best tool of each named server, always-available tools, or otherwise the best tool, stay first.
    """
    candidates, task = state.candidates, state.task
    if candidates is None or len(candidates.clauses) < 2 or not state.scores:
        return state
    floor, tools = task.options.explicit_floor, task.index.catalogue.tools
    rivals = dict(state.scores)
    rivals |= {place: max(0.0, rivals[place] - floor) / (1 - floor) for place in state.lifted if floor < 1}
    leading = {tools[place].server: place for place in reversed(state.lifted)}.values()
    ahead = [place for place in state.order if place in leading or rivals[place] == 1.0] or [state.order[0]]
    by_score = [*ahead, *sorted((place for place in state.order if place not in ahead), key=lambda p: -rivals[p])]
    chances = candidates.of_clauses(np.array(by_score))
    places = in_turn([rivals[place] for place in by_score], chances, ahead=len(ahead), most=task.most)
    order = [by_score[place] for place in places]
    return state.moved(order).noted(_moved(state, by_score, order, chances))


def in_turn(scores: Sequence[float], chances: Chances, *, ahead: int, most: int) -> list[int]:
    """Return the places of `scores` in their new order.

    The first `ahead` are unchanged. Then follow up to `most` tools, each with the highest score and the highest
    probability for clauses that no earlier tool serves. The others keep their order.

    Args:
        scores: The scores, best first.
        chances: The probabilities, shape [clauses, places].
        ahead: The number of unchanged first places.
        most: The maximum number of moved tools.
    """
    left = np.array(scores)
    left[:ahead] = -np.inf
    order, unserved = list(range(ahead)), np.prod(1 - chances[:, :ahead], axis=1)
    for _ in range(min(most, len(scores)) - ahead):
        place = int(np.argmax(left + PART * (unserved @ chances)))
        order.append(place)
        unserved *= 1 - chances[:, place]
        left[place] = -np.inf
    return [*order, *np.flatnonzero(np.isfinite(left)).tolist()]


def _moved(state: State, by_score: Sequence[int], order: Sequence[int], chances: Chances) -> dict[int, str]:
    """Return a note for each tool that is higher than in the ranking for the whole task."""
    if state.candidates is None:
        return {}
    whole = state.candidates.whole
    own = dict(zip(whole.positions.tolist(), supported(whole.chances, whole.support).tolist(), strict=True))
    by_whole = sorted(by_score, key=lambda place: -own.get(place, state.scores[place]))
    before, now = ({place: rank for rank, place in enumerate(some)} for some in (by_whole, order))
    best, surest = chances.argmax(axis=0).tolist(), chances.max(axis=0).tolist()
    parts = state.task.understood.parts
    return {
        position: f'moved up for "{_short(parts[best[place]].text)}"'
        for place, position in enumerate(by_score)
        if now[position] < before[position] and surest[place] >= WORTH_NOTING
    }


def _short(text: str) -> str:
    flat = " ".join(text.split())  # As `shorten` does, which takes as long as the rest of the refiner.
    return flat if len(flat) <= _NOTED else shorten(flat, _NOTED, placeholder="…")
