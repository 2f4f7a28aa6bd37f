"""The experience leg: past tasks like this one move its candidates, and bring the tools that they used."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from orchestrator.experience.lift import LEAST, lift, shipped
from orchestrator.experience.memory import Experience
from orchestrator.index.calibration import log_odds
from orchestrator.index.index import Index
from orchestrator.pipeline.state import State
from orchestrator.records.outcome import Name, Recalled
from orchestrator.records.relation import Edge
from orchestrator.records.tool import Tool


async def experience(state: State) -> State:
    """Return the state with the past tasks that are like this one, if any is.

    It stands among the first legs and the fallback legs: before the semantic leg it runs where embedding costs no call.
    """
    task = state.task
    if task.experience is None or state.recalled or state.settled or state.candidates is None:
        return state
    if (task.remote or task.leans) and not state.semantic_ran:
        return state
    vectors = state.vectors if state.vectors is not None else (await task.embed(task.understood.texts[:1]))[0]
    if vectors is None or not len(task.experience.tasks):
        return state
    tools = task.index.catalogue.tools
    candidates = [(tools[place].key, tools[place].hash) for place in state.candidates.whole.chosen.tolist()]
    recalled = task.experience.recall(vectors[0], candidates, lambda *name: is_allowed(state, name))
    return replace(state, recalled=recalled) if recalled else state


def used_together(experience: Experience | None, index: Index, tool: Tool) -> Iterable[Edge]:
    """Return the relations of a tool that the past tasks show."""
    if experience is None:
        return ()
    return experience.co_use.edges((tool.key, tool.hash), lambda *name: name in index.trusted)


def is_allowed(state: State, name: Name) -> bool:
    """Return whether a tool is there as it was, is not flagged, and neither filters nor the task leave it out."""
    place = state.task.index.trusted.get(name)
    return place is not None and state.allows(place)


def learnt(state: State) -> State:
    """Return the ranking as past tasks move it."""
    recalled = state.recalled
    if recalled is None:
        return state
    catalogue = state.task.index.catalogue
    brought = {key: None for near in recalled.tasks for key in near.used}
    places = [*state.order, *(p for key in brought if (p := catalogue.positions[key]) not in state.scores)]
    if not places:
        return state
    chances = np.array([state.scores.get(place, LEAST) for place in places])
    keys = [catalogue.tools[place].key for place in places]
    lifted = lift(chances, keys, recalled, shipped())
    moved = np.flatnonzero(lifted.shifts).tolist()
    if not moved:
        return state
    now = {places[row]: float(lifted.chances[row]) for row in moved}
    state = state.rescored(now).with_evidence("experience", now)
    state = state.noted(_notes(recalled, {places[row]: keys[row] for row in moved}))
    return replace(state, confidence=float(_shifted(state.confidence, lifted.confidence)))


def calibrate(state: State) -> State:
    """Correct the confidence by what became of the tenant's earlier ones; the gate's is, within its map."""
    experience = state.task.experience
    if experience is None or not state.semantic_ran or not 0 < state.confidence < 1:
        return state
    return replace(state, confidence=experience.claims.confidence(state.confidence))


def _shifted(chances: Any, by: Any) -> Any:
    """Return chances, or one, with their log-odds moved."""
    return 1 / (1 + np.exp(-(log_odds(chances) + by)))


def _notes(recalled: Recalled, moved: dict[int, str]) -> dict[int, str]:
    """Return how many of the past tasks like this one used each of these tools."""
    used = {key: sum(key in past.used for past in recalled.tasks) for key in moved.values()}
    likes = f"of {len(recalled.tasks)} past tasks like this"
    return {place: f"used in {used[key]} {likes}" for place, key in moved.items() if used[key]}
