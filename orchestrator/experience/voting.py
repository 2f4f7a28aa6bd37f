"""Voting: the nearest past tasks vote for the tools that they used, and one weight scales the votes.

A tool's vote is the share of the near tasks' weight that used it, each multiplied by the chance that routing had not
given the tool. So a past task that routing got right changes nothing. The weight converts votes to log-odds. Each
tenant has its own weight, chosen on its own past tasks (`best_weight`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.common.arrays import Mask
from orchestrator.experience.actors import newest
from orchestrator.index.calibration import log_odds
from orchestrator.records.outcome import Name

NEAREST = 10
"""The number of past tasks that vote."""
FAR = 0.2
"""The cosine that a past task must exceed to vote."""
DOUBT = 0.02
"""The weight of near tasks at which their votes count half."""
UNSEEN = 0.6
FIRST = 5
"""A tool that no task ever used, among the FIRST by routing, gets this share of the greatest vote.

Without it, tasks for such tools lose .010 of recall@5 in the mean of ten sets, with
it .001 (docs/decisions/experience.md).
"""
LEAST = 0.002
"""The probability of a tool that routing did not find, and the smallest probability of any tool."""
FOLLOWS = 0.15
"""The share of a rise in log-odds above routing's best tool that probabilities and confidence follow. The weights are
chosen for the order, and the whole rise would make the confidence too high."""
WEIGHTS = np.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
SAMPLE = 500
"""The number of past tasks, the newest of each person, by which the weight is chosen."""

Values = NDArray[np.float64]
"""Shape [candidates], or [tasks, candidates]."""


@dataclass(frozen=True, slots=True)
class PastTask:
    """One past task.

    Attributes:
        tools: The `uses` tools that it used, followed by the tools that it was offered and did not use.
        chances: The probabilities from routing at that time, without any Experience.
        chosen: A person or a model chose the used tools, not routing alone.
    """

    query: str
    actor: str
    tools: tuple[Name, ...]
    uses: int
    chances: NDArray[np.float32]
    chosen: bool

    @property
    def used(self) -> tuple[Name, ...]:
        return self.tools[: self.uses]


def nearness(cosines: NDArray[np.float32]) -> Values:
    """Return the weight of tasks with these cosines."""
    return np.asarray(np.maximum(0.0, cosines - FAR) ** 2, np.float64)


def votes_of(tasks: Sequence[PastTask], weights: Sequence[float]) -> dict[Name, dict[str, float]]:
    """Return each tool's votes by person, from near tasks with these weights. All votes for a tool sum to at most 1."""
    total = sum(weights) + DOUBT
    votes: dict[Name, dict[str, float]] = {}
    for task, weight in zip(tasks, weights, strict=True):
        share = weight / total
        actor = task.actor
        # The chances of the used tools come first.
        chances = task.chances.tolist()
        for name, chance in zip(task.used, chances, strict=False):
            by_actor = votes.setdefault(name, {})
            vote = share * (1 - chance)
            by_actor[actor] = by_actor.get(actor, 0.0) + vote
    return votes


def with_unseen(votes: Values, odds: Values, unseen: Mask, greatest: Values) -> Values:
    """Return the votes. Tools among the FIRST by log-odds that no task ever used get UNSEEN of the greatest vote.

    Args:
        votes: The votes.
        odds: The log-odds by routing.
        unseen: True for tools that no task used.
        greatest: The greatest vote.
    """
    last = min(FIRST, odds.shape[-1]) - 1
    first = odds >= -np.partition(-odds, last)[..., [last]]
    return np.where(unseen & first, np.maximum(votes, UNSEEN * greatest), votes)


def damped(odds: Values, most: float) -> Values:
    """Return log-odds whose part beyond `most` is multiplied by FOLLOWS. The order is unchanged."""
    return np.asarray(np.where(odds > most, most + FOLLOWS * (odds - most), odds), np.float64)


def best_weight(tasks: Sequence[PastTask], vectors: NDArray[np.float32]) -> float:
    """Return the weight with which past tasks rank each other's tools best, the smallest of equal ones.

    Each task of a sample is ranked twice. The first ranking has the votes of all other tasks. The second one has only
    the votes of tasks that used none of its tools, as if its tools were new. The measure is nDCG@5 over both rankings.

    Args:
        tasks: The past tasks, oldest first.
        vectors: Their unit vectors [dimension, tasks].
    """
    judges = _judges(tasks)
    if not judges or len(tasks) < 2:
        return 0.0
    users = _users(tasks)
    gains = np.zeros(len(WEIGHTS))
    for without_tools in (False, True):
        ballots = [
            _ballot(tasks, judge, near, users, without_tools=without_tools)
            for judge, near in _nearest(tasks, vectors, judges, users, without_tools=without_tools)
        ]
        odds, votes, used, unseen = _table(ballots)
        greatest = votes.max(axis=1, keepdims=True)
        votes = with_unseen(votes, odds, unseen, greatest)
        gains += [_ndcg(odds + weight * votes, used) for weight in WEIGHTS]
    best = np.argmax(gains.round(9))
    return float(WEIGHTS[best])


def _judges(tasks: Sequence[PastTask]) -> list[int]:
    """Return the positions of the sample's tasks."""
    judges = [position for position, task in enumerate(tasks) if task.chosen and task.used]
    actors = [tasks[judge].actor for judge in judges]
    return newest(judges, actors, SAMPLE)


class _Candidate(NamedTuple):
    """A tool that a judged task ranks: its probability by routing, its vote, and whether the task, or none, used it."""

    chance: float
    vote: float
    used: bool
    unseen: bool


_NO_CANDIDATE = _Candidate(-1.0, 0.0, used=False, unseen=False)


def _users(tasks: Sequence[PastTask]) -> dict[Name, list[int]]:
    """Return the positions of the tasks that used each tool."""
    users: dict[Name, list[int]] = {}
    for position, task in enumerate(tasks):
        for name in task.used:
            users.setdefault(name, []).append(position)
    return users


def _nearest(
    tasks: Sequence[PastTask],
    vectors: NDArray[np.float32],
    judges: Sequence[int],
    users: Mapping[Name, Sequence[int]],
    *,
    without_tools: bool,
) -> Iterator[tuple[int, dict[int, float]]]:
    """Yield each judged task with the weights of the tasks nearest to it, by position.

    The task itself is excluded. With `without_tools`, all tasks that used one of its tools are excluded, too.
    """
    cosines = vectors[:, judges].T @ vectors
    for row, judge in zip(cosines, judges, strict=True):
        row[judge] = -1.0
        if without_tools:
            for name in tasks[judge].used:
                row[users[name]] = -1.0
    near = np.argpartition(-cosines, min(NEAREST, len(tasks)) - 1, axis=1)[:, :NEAREST]
    weights = nearness(np.take_along_axis(cosines, near, axis=1))
    for judge, positions, near_weights in zip(judges, near.tolist(), weights.tolist(), strict=True):
        yield judge, dict(zip(positions, near_weights, strict=True))


def _ballot(
    tasks: Sequence[PastTask],
    judge: int,
    near: Mapping[int, float],
    users: Mapping[Name, Sequence[int]],
    *,
    without_tools: bool,
) -> list[_Candidate]:
    """Return the tools that a judged task was offered or that its nearest tasks vote for."""
    task = tasks[judge]
    votes = votes_of([tasks[position] for position in near], [*near.values()])
    chances = dict.fromkeys(votes, 0.0) | dict(zip(task.tools, task.chances.tolist(), strict=True))
    used = frozenset(task.used)
    candidates = list[_Candidate]()
    for name, chance in chances.items():
        other_users = len(users.get(name, ())) - (name in used)
        is_unseen = other_users == 0 or (without_tools and name in used)
        vote = sum(votes.get(name, {}).values())
        candidates.append(_Candidate(chance, vote, name in used, is_unseen))
    return candidates


def _table(
    ballots: Sequence[Sequence[_Candidate]],
) -> tuple[Values, Values, Mask, Mask]:
    """Return log-odds, votes, used tools and unseen tools [judged tasks, candidates]."""
    width = max(FIRST, *map(len, ballots))
    shape = len(ballots), width, len(_NO_CANDIDATE)
    table = np.full(shape, _NO_CANDIDATE, np.float64)
    for row, ballot in zip(table, ballots, strict=True):
        row[: len(ballot)] = ballot
    chances, votes, used, unseen = np.moveaxis(table, 2, 0)
    is_candidate = chances >= 0
    candidate_odds = log_odds(np.maximum(chances, LEAST))
    odds = np.where(is_candidate, candidate_odds, -np.inf)
    return odds, votes, used.astype(bool), unseen.astype(bool)


def _ndcg(odds: Values, used: Mask) -> float:
    """Return nDCG@5 of these rankings."""
    order = np.argsort(-odds, axis=1, kind="stable")[:, :FIRST]
    worth = 1 / np.log2(np.arange(len(order[0])) + 2)
    best = np.cumsum(worth)[np.minimum(used.sum(axis=1), FIRST) - 1]
    gains = np.take_along_axis(used, order, axis=1) @ worth
    return float((gains / best).mean())
