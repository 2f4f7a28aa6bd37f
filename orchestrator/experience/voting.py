"""Voting: the past tasks nearest to a new one vote for the tools that they used, and one weight counts the votes.

A tool's vote is the share of the near tasks' weight that used it, each by the chance that routing had not given the
tool there. So a past task teaches nothing where routing was right already. The weight turns votes into log-odds. Each
tenant has its own, chosen on its own past (`best_weight`).
"""

from collections import Counter
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
BEFORE_ALONE = 3
"""The first tools by routing, ahead of which votes of one person that nobody shares bring no tool."""
BEHIND = 1e-6
"""How far log-odds of a tool are kept behind another's: less may be lost where they become a chance."""
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


def behind_first(lifts: Values, agreed: Values, odds: Values) -> Values:
    """Return what votes add to log-odds: the agreed part in full, the rest up to a place behind the first tools."""
    room = np.sort(odds)[::-1][min(BEFORE_ALONE, len(odds)) - 1] - BEHIND - odds
    return np.asarray(np.maximum(agreed, np.minimum(lifts, np.maximum(0.0, room))), np.float64)


def damped(odds: Values, most: float) -> Values:
    """Return log-odds of which what is beyond `most` counts by FOLLOWS; the order stays."""
    return np.asarray(np.where(odds > most, most + FOLLOWS * (odds - most), odds), np.float64)


def best_weight(tasks: Sequence[PastTask], vectors: NDArray[np.float32]) -> float:
    """Return the weight by which the past tasks would have ranked each other's tools best, the least of equal ones.

    Each of a sample is ranked by the others' votes, twice: as it is, and as if no task had ever used its tools, which
    stands for tools that are new. Both count alike, as do recall@5 and hit@1.

    Args:
        tasks: The past tasks, oldest first.
        vectors: Their vectors [dimension, tasks] of length 1.
    """
    judges = [place for place, task in enumerate(tasks) if task.chosen and task.used]
    judges = [judges[place] for place in newest([tasks[place].actor for place in judges], SAMPLE)]
    if not judges or len(tasks) < 2:
        return 0.0
    odds, votes, own, unseen = _ballots(tasks, vectors, judges)
    total = own.sum(axis=1)
    gains = np.zeros(len(WEIGHTS))
    for counted, new in ((votes, unseen), (np.where(own, 0.0, votes), unseen | own)):
        given = with_unseen(counted, odds, new, counted.max(axis=1, keepdims=True))
        gains += [_gain(odds + weight * given, own, total) for weight in WEIGHTS]
    return float(WEIGHTS[np.argmax(gains.round(9))])


def _ballots(
    tasks: Sequence[PastTask], vectors: NDArray[np.float32], judges: Sequence[int]
) -> tuple[Values, Values, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each judged task [judges, candidates] log-odds, votes, the tools that it used, and the unseen ones."""
    uses = Counter(name for task in tasks for name in task.used)
    cosines = vectors[:, judges].T @ vectors
    cosines[np.arange(len(judges)), judges] = -1.0
    near = np.argpartition(-cosines, min(NEAREST, len(tasks)) - 1, axis=1)[:, :NEAREST]
    weights = nearness(np.take_along_axis(cosines, near, axis=1))
    rows = list[list[tuple[float, float, bool, bool]]]()
    for judge, others, counts in zip(judges, near.tolist(), weights.tolist(), strict=True):
        task, given = tasks[judge], votes_of([tasks[other] for other in others], counts)
        votes = {name: sum(own.values()) for name, own in given.items()}
        used = {*task.used}
        chances = {**dict.fromkeys(votes, 0.0), **dict(zip(task.tools, task.chances.tolist(), strict=True))}
        known = [(chance, votes.get(name, 0.0), name in used, uses[name]) for name, chance in chances.items()]
        rows.append([(chance, vote, own, count <= own) for chance, vote, own, count in known])
    width = max(FIRST, *map(len, rows))
    no_tool = (-1.0, 0.0, False, False)
    table = np.array([[*row, *[no_tool] * (width - len(row))] for row in rows], np.float64)
    chance, vote, own, unseen = (table[:, :, column] for column in range(4))
    odds = np.where(chance < 0, -np.inf, log_odds(np.maximum(chance, LEAST)))
    return odds, vote, own.astype(bool), unseen.astype(bool)


def _gain(odds: Values, own: NDArray[np.bool_], total: NDArray[np.int64]) -> float:
    """Return recall@5 and hit@1 of these rankings, added."""
    order = np.argsort(-odds, axis=1, kind="stable")[:, :FIRST]
    found = np.take_along_axis(own, order, axis=1)
    return float((found.sum(axis=1) / total + found[:, 0]).mean())
