"""The experience leg: past tasks like this one move its candidates, and bring the tools that they used."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from orchestrator.common.arrays import Integers, Mask
from orchestrator.experience.actors import BEHIND, behind_first
from orchestrator.experience.memory import Experience
from orchestrator.experience.voting import LEAST, Values, damped, with_unseen
from orchestrator.index.calibration import expit, log_odds
from orchestrator.index.embedders.embedder import Vectors
from orchestrator.index.index import Index
from orchestrator.index.relations.graph import More
from orchestrator.pipeline.state import State
from orchestrator.records.outcome import Name, Recalled

MOST_ALONE = 0.69
"""The greatest probability of a tool that past tasks raise if only one person speaks for it. It is below the gate, so
nothing is called for it without a question."""


def experience(state: State) -> State | Awaitable[State]:
    """Return the state with similar past tasks, if there are any.

    This leg is among the first legs and the fallback legs. It runs before the semantic leg if embedding needs no call
    to an endpoint.
    """
    task = state.task
    if task.experience is None or state.recalled or state.settled or state.candidates is None:
        return state
    if (task.remote or task.leans) and not state.semantic_ran:
        return state
    if state.vectors is not None:
        return _recalled(state, task.experience, state.vectors)
    embedded = task.embed_at_once(task.understood.texts[:1])
    if embedded is None:
        return _recalled_after_embedding(state, task.experience)
    return _recalled(state, task.experience, embedded[0])


async def _recalled_after_embedding(state: State, past: Experience) -> State:
    vectors, _ = await state.task.embed(state.task.understood.texts[:1])
    return await state.task.compute(lambda: _recalled(state, past, vectors))


def _recalled(state: State, past: Experience, vectors: Vectors | None) -> State:
    if vectors is None or not len(past.tasks):
        return state
    actor = state.task.request.actor
    recalled = past.recall(vectors[0], lambda *name: is_allowed(state, name), actor)
    return replace(state, recalled=recalled) if recalled else state


def used_together(experience: Experience | None, index: Index) -> More | None:
    """Return a function from a tool to its relations from past tasks, or None without past tasks.

    Args:
        experience: The tenant's past tasks.
        index: The tenant's index.
    """
    if experience is None:
        return None
    co_use = experience.co_use
    return lambda tool: co_use.edges((tool.key, tool.hash), lambda *name: name in index.trusted)


def is_allowed(state: State, name: Name) -> bool:
    """Return True if a tool still has its definition, is not flagged, and is not excluded by filters or the task."""
    position = state.task.index.trusted.get(name)
    return position is not None and state.allows(position)


def learnt(state: State) -> State:
    """Return the ranking after the votes of past tasks.

    A tool that no task ever used keeps its probability. It only moves up so that votes do not hide it.
    """
    past = state.task.experience
    recalled = state.recalled
    if past is None or recalled is None or not any(recalled.lifts.values()):
        return state
    positions = _with_brought(state, recalled)
    keys = [state.task.index.keys[position] for position in positions]
    chances = np.array([state.scores.get(position, LEAST) for position in positions])
    before = log_odds(np.maximum(chances, LEAST))
    votes = _votes(past, recalled, _names(state, positions), before)
    after = damped(before + votes.with_new_tools, before.max())
    ranking = np.argsort(-after, kind="stable")
    alone = np.array([key in recalled.alone for key in keys])
    limited = _limited(before, after, alone, ranking)
    first = ranking[0]
    if limited[first] < after[first]:
        recalled = replace(recalled, decided_alone=keys[first])
    changed = _changed(positions, votes.by_tool, before, limited)
    rise = limited.max() - before.max()
    state = replace(
        state,
        recalled=recalled,
        scores={**state.scores, **changed},
        confidence=float(expit(log_odds(state.confidence) + rise)),
    )
    order = [positions[row] for row in ranking.tolist()]
    state = state.moved(position for position in order if position in state.scores)
    return state.with_evidence("experience", changed).noted(_notes(state, recalled, changed))


def _with_brought(state: State, recalled: Recalled) -> list[int]:
    """Return the candidates, and the tools that past tasks bring."""
    positions = state.task.index.catalogue.positions
    brought = [positions[key] for key in recalled.lifts]
    return list(dict.fromkeys((*state.scores, *brought)))


def _names(state: State, positions: Sequence[int]) -> list[Name]:
    """Return the keys and hashes of tools."""
    index = state.task.index
    return [(index.keys[position], index.tools[position].hash) for position in positions]


class _Votes(NamedTuple):
    """The additions to the log-odds of each tool: by its own votes, and with the additions that new tools get."""

    by_tool: Values
    with_new_tools: Values


def _votes(past: Experience, recalled: Recalled, names: Sequence[Name], before: Values) -> _Votes:
    keys = [key for key, _ in names]
    lifts = np.array([recalled.lifts.get(key, 0.0) for key in keys])
    agreed = np.array([recalled.agreed.get(key, 0.0) for key in keys])
    unseen = np.array([not past.has_used(name) for name in names])
    by_tool = behind_first(lifts, agreed, before)
    return _Votes(by_tool, with_unseen(by_tool, before, unseen, agreed.max()))


def _limited(before: Values, after: Values, alone: Mask, ranking: Integers) -> Values:
    """Return the log-odds. A tool that only one person's tasks raise gets at most MOST_ALONE. The order is unchanged.

    Args:
        before: The log-odds by routing.
        after: The log-odds after the votes.
        alone: True for tools that only one person's tasks raise.
        ranking: The rows, best first by `after`.
    """
    most_alone = log_odds(np.array(MOST_ALONE))
    limits = np.where(alone, np.maximum(before, most_alone), np.inf)
    ranked = after[ranking]
    ranked_limits = limits[ranking]
    allowed = np.minimum.accumulate(np.minimum(ranked, ranked_limits))
    # Tools at the same limit would be equal, and a later stage that sorts would lose their order.
    steps = BEHIND * np.arange(len(ranking))
    is_lowered = allowed < ranked
    limited = np.empty_like(after)
    limited[ranking] = np.where(is_lowered, allowed - steps, allowed)
    return limited


def _changed(
    positions: Sequence[int], votes: Values, before: Values, limited: Values
) -> dict[int, float]:
    """Return the probabilities of the tools that got a vote, or that a limit lowers.

    Args:
        positions: The tools.
        votes: Their votes. Without a vote, a tool does not become more probable.
        before: Their log-odds by routing.
        limited: Their log-odds after the votes.
    """
    has_vote = votes != 0
    odds = np.where(has_vote, limited, np.minimum(before, limited))
    chances = expit(odds).tolist()
    rows = np.flatnonzero(has_vote | (odds != before))
    return {positions[row]: chances[row] for row in rows.tolist()}


def calibrate(state: State) -> State:
    """Correct the confidence by the results of the tenant's earlier ones. The gate's confidence is corrected
    in its map.
    """
    experience = state.task.experience
    if experience is None or not state.semantic_ran or not 0 < state.confidence < 1:
        return state
    confidence = experience.claims.confidence(state.confidence)
    if state.recalled is not None and state.recalled.decided_alone:
        confidence = min(confidence, MOST_ALONE)
    return replace(state, confidence=confidence)


def _notes(state: State, recalled: Recalled, changed: Mapping[int, float]) -> dict[int, str]:
    """Return the number of similar past tasks that used each of these tools."""
    notes = {}
    for position in changed:
        key = state.task.index.keys[position]
        uses = sum(key in past.used for past in recalled.tasks)
        if uses:
            whose = ", by one person" if key in recalled.alone else ""
            notes[position] = f"used in {uses} of {len(recalled.tasks)} similar past tasks{whose}"
    return notes
