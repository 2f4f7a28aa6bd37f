"""Experience: one tenant's past tasks in process, and those of them that are like a new one."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from sys import intern

import numpy as np
from numpy.typing import NDArray

from orchestrator.experience.calls import Calls, by_definition
from orchestrator.experience.co_use import CoUse, Used
from orchestrator.experience.recalibrate import Claims
from orchestrator.experience.shares import FEW, newest, oldest_of_most
from orchestrator.index.embed import ONE_THREAD
from orchestrator.records.outcome import Known, Name, Near, Outcome, Recalled, Use

NEAREST, FAR = 10, 0.2
"""The past tasks that speak for a new one, and the cosine up to which one says nothing. Chosen on the development sets
by `python -m research.experience`."""
HALF_LIFE_S = 90 * 86_400.0
"""The age, counted from the newest Outcome, at which a task counts half."""
OF_ACTOR = 2
"""The nearest tasks of one person that come before further ones of theirs, where several people's are near."""
LOUD = 4
"""How many times the tasks of the median person somebody has whose tasks are heard as if others' were near, too."""
ALONE = 0.05
"""The weight of one person's tasks where nobody else's are near."""
_LOOKED = 4 * NEAREST
"""How many of the nearest are sorted first: enough for all but one person's many."""
MOST_TASKS = 10_000


@dataclass(frozen=True, slots=True)
class _Past:
    """One task. `tools` are those it used, then those it was offered and passed over; `chances` are theirs."""

    query: str
    actor: str
    tools: tuple[Name, ...]
    used: int
    chances: NDArray[np.float32]

    @property
    def did(self) -> Used:
        return self.actor, self.tools[: self.used]

    def near(self, weight: float, cosine: float, there: Collection[Name]) -> Near:
        chances = list(zip(self.tools, self.chances.tolist(), strict=True))
        used = {name[0]: chance for name, chance in chances[: self.used] if name in there}
        # Where nothing that it used is there as it was, one that was passed over may do that now.
        passed = {name[0]: chance for name, chance in chances[self.used :] if name in there} if used else {}
        return Near(weight=weight, cosine=cosine, actor=self.actor, query=self.query, used=used, passed=passed)


@dataclass(frozen=True, kw_only=True)
class Experience:
    """One tenant's past tasks, oldest first, with their vectors [dimension, tasks] of length 1.

    `at`: when each was done, in seconds. `uses` are the calls of each tool, of tasks that failed, too. Adding makes a
    new Experience. Vectors stand in columns, which a product with one vector reads in two thirds of the time.
    """

    vectors: NDArray[np.float32]
    tasks: tuple[_Past, ...] = ()
    at: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    claims: Claims = field(default_factory=Claims)
    names: Mapping[Name, Name] = field(default_factory=dict)
    uses: Mapping[str, Sequence[Use]] = field(default_factory=dict)

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], vectors: NDArray[np.float32]) -> "Experience":
        """Return what these Outcomes teach, with a vector each: those that worked, at most MOST_TASKS."""
        order = sorted((n for n, task in enumerate(outcomes) if task.worked), key=lambda n: outcomes[n].at)
        order = [order[place] for place in newest([outcomes[n].actor for n in order], MOST_TASKS)]
        names: dict[Name, Name] = {}
        kept = [outcomes[place] for place in order]
        return cls(
            vectors=np.ascontiguousarray(vectors[order].T, np.float32),
            tasks=tuple(_past(outcome, names) for outcome in kept),
            at=np.array([outcome.at for outcome in kept]),
            claims=Claims().plus(kept),
            names=names,
            uses=by_definition(sorted(outcomes, key=lambda outcome: outcome.at), {}),
        )

    def plus(self, outcome: Outcome, vector: NDArray[np.float32]) -> "Experience":
        """Return this with one more Outcome that worked; beyond MOST_TASKS the oldest of who has most goes."""
        uses = by_definition([outcome], self.uses)
        if not outcome.worked:
            return replace(self, uses=uses)
        names = dict(self.names)
        full = len(self.tasks) >= MOST_TASKS
        gone = oldest_of_most([*(task.actor for task in self.tasks), outcome.actor]) if full else len(self.tasks)
        rest = slice(gone), slice(gone + 1, None)
        now = Experience(
            vectors=np.hstack([*(self.vectors[:, part] for part in rest), vector[:, None]]),
            tasks=(*self.tasks[:gone], *self.tasks[gone + 1 :], _past(outcome, names)),
            at=np.hstack([*(self.at[part] for part in rest), outcome.at]),
            claims=self.claims.plus([outcome]),
            names=names,
            uses=uses,
        )
        if "co_use" in self.__dict__:  # Made again of all tasks it would delay the next answer.
            left = self.tasks[gone].did if full else None
            now.__dict__["co_use"] = self.co_use.moved(now.tasks[-1].did, left)
        return now

    def calls(self, key: str, digest: str) -> Calls:
        """Return how the calls of a tool went since it is defined as it is."""
        return Calls.of(self.uses.get(f"{key} {digest}", ()))

    @cached_property
    def co_use(self) -> CoUse:
        """The tools that tasks used together."""
        return CoUse(task.did for task in self.tasks)

    @cached_property
    def _actors(self) -> NDArray[np.int64]:
        """The number of each task's person; tasks without a name are one person's."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(task.actor, len(numbers)) for task in self.tasks], np.int64)

    @cached_property
    def _loud(self) -> frozenset[int]:
        """Those with LOUD times as many tasks as others have, of those with more than a few."""
        counts = np.bincount(self._actors)
        several = np.sort(counts[counts > FEW])
        return frozenset(
            np.flatnonzero(counts > LOUD * several[(len(several) - 1) // 2]).tolist() if len(several) else ()
        )

    def _cosines(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of each task with this vector, in parts that no second thread is started for."""
        most = max(1, ONE_THREAD // len(vector))
        cosines = np.empty(len(self.tasks), np.float32)
        for start in range(0, len(cosines), most):
            np.matmul(vector, self.vectors[:, start : start + most], out=cosines[start : start + most])
        return cosines

    def recall(self, vector: NDArray[np.float32], candidates: Collection[Name], known: Known) -> Recalled | None:
        """Return the past tasks that are like the one with this vector; None where none is.

        candidates: the tools of which it is to be said if any task used them.
        """
        if len(vector) != len(self.vectors):
            return None
        cosines = self._cosines(vector)
        near = np.flatnonzero(cosines > FAR)
        if not len(near):
            return None
        actors = self._actors[near]
        shared = bool((actors != actors[0]).any() or actors[0] in self._loud)
        near = _nearest(cosines, near, self._actors if shared else None)
        ages = np.maximum(0.0, min(self.at.max(), time.time()) - self.at[near])
        weights = (cosines[near] - FAR) ** 2 * 0.5 ** (ages / HALF_LIFE_S)
        if shared:
            weights = _evened(weights, self._actors[near])
        past = [self.tasks[place] for place in near.tolist()]
        said = {name for task in past for name in task.tools}
        there = {name for name in said if known(*name)}
        found = zip(past, weights.tolist(), cosines[near].tolist(), strict=True)
        return Recalled(
            tasks=tuple(task.near(weight, cosine, there) for task, weight, cosine in found),
            proven=frozenset(key for key, _ in self.co_use.names & (there | {*candidates})),
            shared=shared,
        )


def _past(outcome: Outcome, names: dict[Name, Name]) -> _Past:
    """Return the task with each tool's name held once for all tasks."""
    offered = {offer.tool: offer for offer in outcome.offered}
    worked = dict.fromkeys(use.tool for use in outcome.worked if use.tool in offered)
    # Of a task that failed, or whose tool routing itself chose, nothing is known about what else would have fitted.
    passed = [key for key in offered if key not in worked] if worked and outcome.chosen else []
    tools = [(intern(key), intern(offered[key].hash)) for key in (*worked, *passed)]
    chances = np.array([offered[key].chance for key in (*worked, *passed)], np.float32)
    held = tuple(names.setdefault(name, name) for name in tools)
    return _Past(outcome.query, intern(outcome.actor), held, len(worked), chances)


def _nearest(
    cosines: NDArray[np.float32], near: NDArray[np.int64], actors: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Return the NEAREST of these tasks; with actors, each one's first OF_ACTOR before all further ones of theirs."""
    found, among = cosines[near], _LOOKED
    while True:
        first = near
        if among < len(near):  # A third of all tasks are somewhat alike: sorting these would take longest.
            first = near[found >= np.partition(found, len(near) - among)[len(near) - among]]
        first = first[np.argsort(-cosines[first], kind="stable")]
        if actors is None:
            return first[:NEAREST]
        own = _within(actors[first], OF_ACTOR)
        if own.sum() >= NEAREST or len(first) == len(near):
            return np.concatenate([first[own], first[~own]])[:NEAREST]
        among *= 8


def _evened(weights: NDArray[np.float64], actors: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weights, those of one person in all no more than another's, or ALONE."""
    totals = np.bincount(actors, weights)
    most = max(ALONE, float(np.sort(np.append(totals, 0.0))[-2]))
    return np.asarray(weights * np.minimum(1.0, most / np.maximum(totals, 1e-12))[actors])


def _within(groups: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Return which places are among the first `most` of their group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    within = np.empty(len(groups), np.bool_)
    within[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups)))) < most
    return within
