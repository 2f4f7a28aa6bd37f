"""Refiners that change the order of the tools.

`cover_clauses` brings a tool for each clause of the task to the front. `spread_duplicates` moves near-duplicates
behind other tools, `append_flagged` sets flagged tools among the others, never first, and `note_deprecated` marks tools
that call themselves deprecated.
"""

from collections.abc import Mapping, Sequence
from textwrap import shorten

import numpy as np

from orchestrator.index.calibration import supported
from orchestrator.index.documents import is_outdated
from orchestrator.index.flags import VOUCHED
from orchestrator.index.intent import action_stems
from orchestrator.index.relations.near_duplicates import are_twins
from orchestrator.pipeline.fusion import PART
from orchestrator.pipeline.scoring import Candidates, Chances
from orchestrator.pipeline.selection.select import first_of_servers, repeated
from orchestrator.pipeline.state import State, best_first

_NOTED = 60
"""The maximum number of a clause's characters in a note."""
WORTH_NOTING = 0.1
"""The least probability for a clause at which a tool that moved up for the clause gets a note."""
LEAST_FLAGGED, MOST_FLAGGED = 0.2, 0.65
"""The minimum probability at which a flagged tool is shown, and its maximum probability, which is below the gate."""


def cover_clauses(state: State) -> State:
    """Order the tools so that each clause has a tool among the first, and note the tools that moved up.

    The best tool of each named server, always-available tools, or otherwise the best tool, stay first.
    """
    candidates = state.candidates
    if candidates is None or len(candidates.clauses) < 2 or not state.scores:
        return state
    rivals = _without_floor(state)
    ahead = _staying_first(state, rivals)
    by_score = list(dict.fromkeys((*ahead, *best_first(rivals))))
    chances = candidates.of_clauses(np.array(by_score))
    scores = [rivals[position] for position in by_score]
    rows = in_turn(scores, chances, ahead=len(ahead), most=state.task.request.limit)
    order = [by_score[row] for row in rows]
    return state.moved(order).noted(_moved_up(state, candidates, by_score, order, chances))


def _staying_first(state: State, rivals: Mapping[int, float]) -> list[int]:
    """Return the best tool of each named server and the always-available tools, otherwise the best tool.

    Args:
        state: The state.
        rivals: The scores without the floor of lifted tools.
    """
    leading = first_of_servers(state)
    ahead = [position for position in state.order if position in leading or rivals[position] == 1.0]
    return ahead or [state.order[0]]


def _without_floor(state: State) -> dict[int, float]:
    """Return the scores, those of lifted tools as they were before."""
    floor = state.task.options.explicit_floor
    scores = dict(state.scores)
    if floor < 1:
        for position in state.lifted:
            scores[position] = max(0.0, scores[position] - floor) / (1 - floor)
    return scores


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
    order = list(range(ahead))
    remaining_scores = np.array(scores)
    remaining_scores[:ahead] = -np.inf
    unserved_shares = 1 - chances
    unserved = unserved_shares[:, :ahead].prod(axis=1)
    for _ in range(min(most, len(scores)) - ahead):
        gains = PART * (unserved @ chances)
        best = int(np.argmax(remaining_scores + gains))
        order.append(best)
        unserved *= unserved_shares[:, best]
        remaining_scores[best] = -np.inf
    rest = np.flatnonzero(np.isfinite(remaining_scores))
    return [*order, *rest.tolist()]


def _moved_up(
    state: State,
    candidates: Candidates,
    by_score: Sequence[int],
    order: Sequence[int],
    chances: Chances,
) -> dict[int, str]:
    """Return a note for each tool that is higher than in the ranking for the whole task."""
    of_task = candidates.of_task
    chances_for_task = supported(of_task.chances, of_task.support).tolist()
    for_task = dict(zip(of_task.positions.tolist(), chances_for_task, strict=True))
    by_task = sorted(by_score, key=lambda position: -for_task.get(position, state.scores[position]))
    rank_before = {position: rank for rank, position in enumerate(by_task)}
    rank_after = {position: rank for rank, position in enumerate(order)}
    best_clause = chances.argmax(axis=0).tolist()
    best_chance = chances.max(axis=0).tolist()
    parts = state.task.understood.parts
    notes = {}
    for row, position in enumerate(by_score):
        if rank_after[position] < rank_before[position] and best_chance[row] >= WORTH_NOTING:
            notes[position] = f'moved up for "{_short(parts[best_clause[row]].text)}"'
    return notes


def _short(text: str) -> str:
    # As `shorten` does, which takes as long as the rest of the refiner.
    flat = " ".join(text.split())
    return flat if len(flat) <= _NOTED else shorten(flat, _NOTED, placeholder="…")


def spread_duplicates(state: State) -> State:
    """Move near-duplicates from other servers behind the other matches."""
    graph = state.task.index.graph
    if not graph.has_namesakes or (state.explicit.mentions and state.explicit.wanted):
        return state
    limit = state.task.request.limit
    state = _with_twin(state)
    namesakes = graph.with_namesakes(state.order[:limit])
    if len(namesakes) < 2:
        return state
    state = _accepted_first(state, namesakes)
    leading = state.order[:limit]
    duplicates = repeated(
        state.task.index.tools, [position for position in leading if position in namesakes]
    )
    if not duplicates:
        return state
    first = [position for position in leading if position not in duplicates]
    return state.moved([*first, *(position for position in leading if position in duplicates)])


def _with_twin(state: State) -> State:
    """Show a twin of the first tool that the search did not find.

    An imitation can add the words of tasks to its text. The imitated tool may lack them, and the imitation would be
    recommended alone.
    """
    index = state.task.index
    most = state.task.request.limit
    window = state.order[:most]
    if not window or most < 2:
        return state
    twins = index.graph.twins(window[0])
    if not twins or not set(twins).isdisjoint(window):
        return state
    usable = [
        position
        for position in twins
        if state.allows(position) and position not in index.flag_reasons
    ]
    if not usable:
        return state
    state = state.reordered((*window[: most - 1], usable[0]))
    return state.noted({usable[0]: f"the same tool as {index.keys[window[0]]}"})


def _accepted_first(state: State, namesakes: Sequence[int]) -> State:
    """Put a tool that was vouched for or used before ahead of twins that were not, in the twin's place.

    Args:
        state: The state.
        namesakes: The shown tools that share their name with another tool, in order.
    """
    index = state.task.index
    order = list(state.order[: state.task.request.limit])
    moved = False
    for position in namesakes:
        if not _is_accepted(state, position):
            continue
        for earlier in order[: order.index(position)]:
            is_twin = earlier in namesakes and are_twins(
                index.tools[earlier], index.tools[position]
            )
            if is_twin and not _is_accepted(state, earlier):
                order.remove(position)
                order.insert(order.index(earlier), position)
                moved = True
                break
    return state.moved(order) if moved else state


def _is_accepted(state: State, position: int) -> bool:
    tool = state.task.index.tools[position]
    return tool.labels.get(VOUCHED) == "yes" or state.task.was_called(tool)


def append_flagged(state: State) -> State:
    """Set the flagged tools that fit among the others, never first: they were not searched, so no score moves."""
    index = state.task.index
    if index.flagged is None or state.candidates is None:
        return state
    scores: dict[int, float] = {}
    for position in _flagged_candidates(state):
        chance = _flagged_chance(state, position)
        if chance >= LEAST_FLAGGED and state.allows(position):
            scores[position] = min(MOST_FLAGGED, chance)
    if not scores:
        return state
    first = state.order[:1]
    notes = {position: f"flagged: {'; '.join(index.flag_reasons[position])}" for position in scores}
    return state.rescored(scores).moved(first).noted(notes)


def _flagged_candidates(state: State) -> list[int]:
    """Return the flagged tools with a word of the task in their name, or with a cosine to it."""
    by_term = state.task.index.flagged_by_term
    positions = set(state.near_flagged)
    for term in state.task.understood.terms.keys() & by_term.keys():
        positions |= by_term[term]
    return sorted(positions)


def _flagged_chance(state: State, position: int) -> float:
    """Return the probability that a flagged tool fits, from its cosine and the share of its name's words in the task.

    Without a shared word it is halved. A shared action ("get") does not count.
    """
    by_meaning = max(0.0, 2 * state.near_flagged.get(position, 0.0) - 0.4)
    name = state.task.index.name_terms(position)
    shared = name & state.task.understood.terms.keys()
    has_thing = shared == name or not shared <= action_stems()
    if not shared or not has_thing:
        return by_meaning / 2
    share = len(shared) / len(name)
    by_name = MOST_FLAGGED * share if share >= 0.5 else 0.0
    return max(by_meaning, by_name)


def note_deprecated(state: State) -> State:
    """Add a note to tools that call themselves deprecated."""
    index = state.task.index
    factors = index.deprecation_factor
    if factors is None:
        return state
    deprecated = [
        position for position in state.order[: state.task.request.limit] if factors[position] < 1
    ]
    outdated = [position for position in deprecated if is_outdated(index.tools[position])]
    return state.noted(dict.fromkeys(outdated, "its description calls it deprecated"))
