"""Voting: the past tasks nearest to a new one vote for the tools that they used, and one weight counts the votes.

A tool's vote is the share of the near tasks' weight that used it, each by the chance that routing had not given the
tool there. So a past task teaches nothing where routing was right already. The weight turns votes into log-odds. Each
tenant has its own, chosen on its own past (`best_weight`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.experience.actors import newest
from orchestrator.index.calibration import log_odds
from orchestrator.records.outcome import Name

NEAREST, FAR = 10, 0.2
"""The number of past tasks that vote, and the cosine up to which a past task does not."""
DOUBT = 0.02
"""The weight of near tasks at which their votes count half."""
UNSEEN, FIRST = 0.6, 5
"""A tool that no task ever used, among the FIRST by routing, gets this share of the greatest vote.

Without it, tasks for such tools lose .010 of recall@5 in the mean of ten sets, with it .001 (docs/decisions.md).
"""
LEAST = 0.002
"""The chance of a tool that routing did not find, and the least of any."""
FOLLOWS = 0.15
"""The part of a rise in log-odds beyond routing's best tool that scores and confidence follow: weights are chosen for
the order, and stated in full they would be too sure."""
WEIGHTS = np.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
SAMPLE = 500
"""The number of past tasks by which the weight is chosen: each person's newest."""

Values = NDArray[np.float64]
"""Shape [candidates], or [tasks, candidates]."""


@dataclass(frozen=True, slots=True)
class PastTask:
    """One past task. `tools` are the `uses` tools that it used, then those that it was offered and passed over.

    `chances` are those that routing gave the tools then, without any Experience. `chosen`: a person or a model chose
    what was used, not routing alone.
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
    """Return how much tasks with these cosines count."""
    return np.asarray(np.maximum(0.0, cosines - FAR) ** 2, np.float64)


def votes_of(tasks: Sequence[PastTask], weights: Sequence[float]) -> dict[Name, dict[str, float]]:
    """Return each tool's votes by person, of near tasks that count so much; all votes for a tool are 1 at most."""
    total, votes = sum(weights) + DOUBT, dict[Name, dict[str, float]]()
    for task, weight in zip(tasks, weights, strict=True):
        for name, chance in zip(task.used, task.chances.tolist(), strict=False):
            own = votes.setdefault(name, {})
            own[task.actor] = own.get(task.actor, 0.0) + weight * (1 - chance) / total
    return votes


def with_unseen(votes: Values, odds: Values, unseen: NDArray[np.bool_], greatest: Values) -> Values:
    """Return the votes, with UNSEEN of the greatest for those tools of the FIRST by log-odds that no task ever used."""
    last = min(FIRST, odds.shape[-1]) - 1
    first = odds >= -np.partition(-odds, last)[..., [last]]
    return np.where(unseen & first, np.maximum(votes, UNSEEN * greatest), votes)


def damped(odds: Values, most: float) -> Values:
    """Return log-odds of which what is beyond `most` counts by FOLLOWS; the order stays."""
    return np.asarray(np.where(odds > most, most + FOLLOWS * (odds - most), odds), np.float64)


def best_weight(tasks: Sequence[PastTask], vectors: NDArray[np.float32]) -> float:
    """Return the weight by which the past tasks would have ranked each other's tools best, the least of equal ones.

    Each of a sample is ranked by the others' votes, twice: by those of all others, and by those of the tasks that used
    none of its tools, as if its tools were new. nDCG@5 of both counts alike.

    Args:
        tasks: The past tasks, oldest first.
        vectors: Their vectors [dimension, tasks] of length 1.
    """
    judges = [place for place, task in enumerate(tasks) if task.chosen and task.used]
    judges = [judges[place] for place in newest([tasks[place].actor for place in judges], SAMPLE)]
    if not judges or len(tasks) < 2:
        return 0.0
    gains = np.zeros(len(WEIGHTS))
    for without_tools in (False, True):
        odds, votes, own, unseen = _ballots(tasks, vectors, judges, without_tools=without_tools)
        votes = with_unseen(votes, odds, unseen, votes.max(axis=1, keepdims=True))
        gains += [_ndcg(odds + weight * votes, own) for weight in WEIGHTS]
    return float(WEIGHTS[np.argmax(gains.round(9))])


def _ballots(
    tasks: Sequence[PastTask], vectors: NDArray[np.float32], judges: Sequence[int], *, without_tools: bool
) -> tuple[Values, Values, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each judged task [judges, candidates] log-odds, votes, the tools that it used, and the unseen ones.

    The task itself is left out; `without_tools`: so are all tasks that used one of its tools.
    """
    users: dict[Name, list[int]] = {}
    for place, task in enumerate(tasks):
        for name in task.used:
            users.setdefault(name, []).append(place)
    cosines = vectors[:, judges].T @ vectors
    for row, judge in zip(cosines, judges, strict=True):
        row[[judge, *(place for name in tasks[judge].used for place in users[name] if without_tools)]] = -1.0
    near = np.argpartition(-cosines, min(NEAREST, len(tasks)) - 1, axis=1)[:, :NEAREST]
    weights = nearness(np.take_along_axis(cosines, near, axis=1))
    rows = list[list[tuple[float, float, bool, bool]]]()
    for judge, others, counts in zip(judges, near.tolist(), weights.tolist(), strict=True):
        task, given = tasks[judge], votes_of([tasks[other] for other in others], counts)
        votes = {name: sum(own.values()) for name, own in given.items()}
        chances = {**dict.fromkeys(votes, 0.0), **dict(zip(task.tools, task.chances.tolist(), strict=True))}
        uses = {name: len(users.get(name, ())) for name in chances}
        uses |= {name: 0 if without_tools else uses[name] - 1 for name in task.used}
        used = {*task.used}
        rows.append([(chance, votes.get(name, 0.0), name in used, not uses[name]) for name, chance in chances.items()])
    width = max(FIRST, *map(len, rows))
    no_tool = (-1.0, 0.0, False, False)
    table = np.array([[*row, *[no_tool] * (width - len(row))] for row in rows], np.float64)
    chance, vote, own, unseen = (table[:, :, column] for column in range(4))
    odds = np.where(chance < 0, -np.inf, log_odds(np.maximum(chance, LEAST)))
    return odds, vote, own.astype(bool), unseen.astype(bool)


def _ndcg(odds: Values, own: NDArray[np.bool_]) -> float:
    """Return nDCG@5 of these rankings."""
    order = np.argsort(-odds, axis=1, kind="stable")[:, :FIRST]
    worth = 1 / np.log2(np.arange(len(order[0])) + 2)
    best = np.cumsum(worth)[np.minimum(own.sum(axis=1), FIRST) - 1]
    return float((np.take_along_axis(own, order, axis=1) @ worth / best).mean())
