"""The experience leg: past tasks like this one move its candidates, and bring the tools that they used."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.experience.actors import BEHIND, behind_first
from orchestrator.experience.memory import Experience
from orchestrator.experience.voting import LEAST, Values, damped, with_unseen
from orchestrator.index.calibration import log_odds
from orchestrator.index.index import Index
from orchestrator.pipeline.state import State
from orchestrator.records.outcome import Name, Recalled
from orchestrator.records.relation import Edge
from orchestrator.records.tool import Tool

MOST_ALONE = 0.69
"""The greatest probability of a tool that past tasks raise if only one person speaks for it. It is below the gate, so
nothing is called for it without a question."""


async def experience(state: State) -> State:
    """Return the state with similar past tasks, if there are any.

    This leg is among the first legs and the fallback legs. It runs before the semantic leg if embedding needs no call
    to an endpoint.
    """
    task = state.task
    if task.experience is None or state.recalled or state.settled or state.candidates is None:
        return state
    if (task.remote or task.leans) and not state.semantic_ran:
        return state
    vectors = state.vectors if state.vectors is not None else (await task.embed(task.understood.texts[:1]))[0]
    if vectors is None or not len(task.experience.tasks):
        return state
    recalled = task.experience.recall(vectors[0], lambda *name: is_allowed(state, name))
    return replace(state, recalled=recalled) if recalled else state


def used_together(experience: Experience | None, index: Index, tool: Tool) -> Iterable[Edge]:
    """Return the relations of a tool from past tasks.

    Args:
        experience: The tenant's past tasks.
        index: The tenant's index.
        tool: The tool's position.
    """
    if experience is None:
        return ()
    return experience.co_use.edges((tool.key, tool.hash), lambda *name: name in index.trusted)


def is_allowed(state: State, name: Name) -> bool:
    """Return True if a tool still has its definition, is not flagged, and is not excluded by filters or the task."""
    place = state.task.index.trusted.get(name)
    return place is not None and state.allows(place)


def learnt(state: State) -> State:
    """Return the ranking after the votes of past tasks.

    A tool that no task ever used keeps its own probability. It only moves up so that votes do not hide it.
    """
    past, recalled = state.task.experience, state.recalled
    if past is None or recalled is None or not any(recalled.lifts.values()):
        return state
    catalogue = state.task.index.catalogue
    brought = [catalogue.positions[key] for key in recalled.lifts]
    places = [*dict.fromkeys((*state.order, *brought))]
    tools = [catalogue.tools[place] for place in places]
    before = log_odds(np.maximum([state.scores.get(place, LEAST) for place in places], LEAST))
    lifts = np.array([recalled.lifts.get(tool.key, 0.0) for tool in tools])
    agreed = np.array([recalled.agreed.get(tool.key, 0.0) for tool in tools])
    unseen = np.array([not past.has_used((tool.key, tool.hash)) for tool in tools])
    voted = behind_first(lifts, agreed, before)
    after = damped(before + with_unseen(voted, before, unseen, agreed.max()), before.max())
    rows = np.argsort(-after, kind="stable")
    alone = np.array([tool.key in recalled.alone for tool in tools])
    limited = _limited(before, after, alone, rows)
    first = rows[0]
    if limited[first] < after[first]:
        state = replace(state, recalled=replace(recalled, decided_alone=tools[first].key))
    odds = np.where(voted != 0, limited, np.minimum(before, limited))
    moved = np.flatnonzero((voted != 0) | (odds != before)).tolist()
    scores = dict(zip((places[row] for row in moved), expit(odds[moved]).tolist(), strict=True))
    state = replace(state, scores={**state.scores, **scores}).with_evidence("experience", scores)
    state = state.moved(places[row] for row in rows.tolist() if places[row] in state.scores)
    state = state.noted(_notes(recalled, {places[row]: tools[row].key for row in moved}))
    return replace(state, confidence=float(expit(log_odds(state.confidence) + limited.max() - before.max())))


def _limited(before: Values, after: Values, alone: NDArray[np.bool_], rows: NDArray[np.int64]) -> Values:
    """Return the log-odds, of a tool for which one person speaks at most MOST_ALONE. The order is unchanged.

    Args:
        before: The log-odds by routing.
        after: The log-odds after the votes.
        alone: True for tools for which only one person speaks.
        rows: The rows, best first by `after`.
    """
    most = log_odds(np.array(MOST_ALONE))
    limits = np.where(alone, np.maximum(before, most), np.inf)
    ordered = np.minimum.accumulate(np.minimum(after, limits)[rows])
    limited = np.empty_like(after)
    limited[rows] = ordered - BEHIND * np.arange(len(rows)) * (ordered < after[rows])
    return limited


def calibrate(state: State) -> State:
    """Correct the confidence by the results of the tenant's earlier ones. The gate's confidence is corrected in its
    map.
    """
    experience = state.task.experience
    if experience is None or not state.semantic_ran or not 0 < state.confidence < 1:
        return state
    confidence = experience.claims.confidence(state.confidence)
    if state.recalled is not None and state.recalled.decided_alone:
        confidence = min(confidence, MOST_ALONE)
    return replace(state, confidence=confidence)


def expit(odds: Any) -> Any:
    """Return the probability of log-odds, or of an array of log-odds."""
    return 1 / (1 + np.exp(-odds))


def _notes(recalled: Recalled, moved: dict[int, str]) -> dict[int, str]:
    """Return the number of similar past tasks that used each of these tools."""
    notes = dict[int, str]()
    for place, key in moved.items():
        uses = sum(key in past.used for past in recalled.tasks)
        if uses:
            whose = ", by one person" if key in recalled.alone else ""
            notes[place] = f"used in {uses} of {len(recalled.tasks)} similar past tasks{whose}"
    return notes
