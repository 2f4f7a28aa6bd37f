"""The per-actor cap: how much of a tenant's past one person's tasks may be, for votes, relations and claims alike."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median_high
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from orchestrator.common.arrays import Integers, Mask

Task = TypeVar("Task")

FEW = 10
"""The number of one person's tasks that always count in full."""
HEAVY = 4
"""A person with this many times the tasks of the median person is a heavy user."""
IN_TURN = 2
"""The number of a person's nearest tasks that come before further tasks of the same person."""
BEFORE_ALONE = 3
"""The number of first tools by routing that the votes of a single person cannot overtake."""
BEHIND = 1e-6
"""The difference in log-odds between a tool and the tool before it. Rounding to a probability would lose
a smaller difference."""


def newest(
    tasks: Iterable[Task], actors: Sequence[str], most: int, per_actor: int | None = None
) -> list[Task]:
    """Return the tasks to keep, in their order. Each person's newest tasks are taken in turn.

    Args:
        tasks: The tasks, oldest first.
        actors: The person of each task.
        most: The total number of tasks to keep.
        per_actor: The number of tasks to keep for each person. Default: no limit.
    """
    if len(actors) <= most and per_actor is None:
        return list(tasks)
    turns = _turns(actors)
    limit = len(actors) if per_actor is None else per_actor
    positions = [position for position, turn in enumerate(turns) if turn <= limit]
    positions.sort(key=lambda position: (turns[position], -position))
    newest_positions = set(positions[:most])
    return [task for position, task in enumerate(tasks) if position in newest_positions]


def _turns(actors: Sequence[str]) -> list[int]:
    """Return each task's number among its person's tasks, 1 for the newest."""
    counts = Counter[str]()
    turns = list[int]()
    for actor in reversed(actors):
        counts[actor] += 1
        turns.append(counts[actor])
    return turns[::-1]


def oldest_of_most(actors: Sequence[str]) -> int:
    """Return the place of the task that is dropped: the oldest one of the person with the most tasks."""
    counts = Counter(actors)
    most = max(counts.values())
    return next(position for position, actor in enumerate(actors) if counts[actor] == most)


def usual(actors: Sequence[str]) -> int:
    """Return the number of one person's tasks that count where all are judged together: the median person's."""
    counts = Counter(actors).values()
    return max(FEW, median_high(counts) if counts else 0)


def heavy_actors(actors: Integers) -> frozenset[int]:
    """Return the people with HEAVY times as many tasks as the median person, of those with more than FEW."""
    counts = np.bincount(actors)
    above_few = np.sort(counts[counts > FEW])
    if not len(above_few):
        return frozenset()
    median = above_few[(len(above_few) - 1) // 2]
    return frozenset(np.flatnonzero(counts > HEAVY * median).tolist())


def is_repeated(actors: Integers) -> Mask:
    """Return True for each task beyond the IN_TURN nearest tasks of its person. The tasks are ordered nearest first."""
    # The tasks grouped by person:  a a a b b
    # the start of each group:      0 0 0 3 3
    # the turn within the group:    0 1 2 0 1
    order = np.argsort(actors, kind="stable")
    starts = np.flatnonzero(np.diff(actors[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(actors)))
    turn = np.empty(len(actors), np.int64)
    turn[order] = np.arange(len(actors)) - np.repeat(starts, sizes)
    return turn >= IN_TURN


def agreed(votes: Mapping[str, float]) -> float:
    """Return the sum of people's votes, each person's no greater than the second greatest."""
    if len(votes) < 2:
        return 0.0
    second = sorted(votes.values())[-2]
    return sum(min(vote, second) for vote in votes.values())


def evened(weights: NDArray[np.float64], actors: Integers) -> NDArray[np.float64]:
    """Return the near tasks' weights, one person's in all no more than the second person's, if there is one."""
    totals = np.bincount(actors, weights, minlength=2)
    second = np.sort(totals)[-2]
    if not second:
        return weights
    return np.asarray(weights * np.minimum(1.0, second / totals[actors]), np.float64)


def behind_first(
    lifts: NDArray[np.float64], agreed: NDArray[np.float64], odds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the votes' addition to log-odds: the agreed part in full, the rest up to a place behind the first tools.

    Args:
        lifts: The addition by votes.
        agreed: The part that several people agree on.
        odds: The log-odds by routing.
    """
    last_before = np.sort(odds)[::-1][:BEFORE_ALONE][-1]
    room = last_before - BEHIND - odds
    alone = np.minimum(lifts, np.maximum(0.0, room))
    return np.asarray(np.maximum(agreed, alone), np.float64)
