"""Experience: one tenant's past tasks in process, and those of them that are like a new one."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from sys import intern

import numpy as np
from numpy.typing import NDArray

from orchestrator.common.arrays import Integers
from orchestrator.experience.actors import (
    agreed,
    evened,
    heavy_actors,
    is_repeated,
    newest,
    oldest_of_most,
)
from orchestrator.experience.calls import Calls, by_definition
from orchestrator.experience.co_use import CoUse
from orchestrator.experience.recalibrate import Claims
from orchestrator.experience.voting import FAR, NEAREST, PastTask, best_weight, nearness, votes_of
from orchestrator.index.semantic import ONE_THREAD
from orchestrator.records.outcome import Known, Name, Near, Outcome, Recalled, Use

HALF_LIFE_S = 90 * 86_400.0
"""The age in seconds, relative to the newest Outcome, at which a task counts half."""
_LOOKED = 4 * NEAREST
"""The number of nearest tasks that are sorted first. Only a person with very many tasks needs more."""
MOST_TASKS = 10_000
"""The newest past tasks. Each route compares its vector with all of them."""
GROWTH = 0.1
"""The growth of the past, as a share, after which the weight and the relations are computed again."""


@dataclass(frozen=True, kw_only=True)
class Experience:
    """One tenant's past tasks, oldest first, with their unit vectors [dimension, tasks].

    Adding a task makes a new Experience. Vectors are columns, because a product with one vector then takes two thirds
    of the time.

    Attributes:
        at: The time of each task, in seconds.
        uses: The calls of each tool, including those of failed tasks.
        weight: Converts votes to log-odds.
        co_use: The tools that tasks used together. It and `weight` are computed again after a growth by GROWTH.
        since: The number of tasks added after that.
    """

    vectors: NDArray[np.float32]
    tasks: tuple[PastTask, ...] = ()
    at: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    claims: Claims = field(default_factory=Claims)
    names: Mapping[Name, Name] = field(default_factory=dict)
    uses: Mapping[str, Sequence[Use]] = field(default_factory=dict)
    weight: float = 0.0
    co_use: CoUse = field(default_factory=lambda: CoUse(()))
    since: int = 0

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], vectors: NDArray[np.float32]) -> "Experience":
        """Return the Experience from these successful Outcomes with their vectors, at most MOST_TASKS."""
        order = sorted(range(len(outcomes)), key=lambda position: outcomes[position].at)
        worked = [position for position in order if outcomes[position].worked]
        actors = [outcomes[position].actor for position in worked]
        newest_tasks = newest(worked, actors, MOST_TASKS)
        tasks = [outcomes[position] for position in newest_tasks]
        names: dict[Name, Name] = {}
        experience = cls(
            vectors=np.ascontiguousarray(vectors[newest_tasks].T, np.float32),
            tasks=tuple(_past(task, names) for task in tasks),
            at=np.array([task.at for task in tasks]),
            claims=Claims().plus(tasks),
            names=names,
            uses=by_definition((outcomes[position] for position in order), {}),
        )
        return experience._judged()

    def plus(self, outcome: Outcome, vector: NDArray[np.float32]) -> "Experience":
        """Return this with one more successful Outcome. If it has more than MOST_TASKS, the oldest task of the person
        with the most tasks is dropped.
        """
        uses = by_definition([outcome], self.uses)
        if not outcome.worked:
            return replace(self, uses=uses)
        names = dict(self.names)
        dropped = len(self.tasks)
        if dropped >= MOST_TASKS:
            dropped = oldest_of_most([*(task.actor for task in self.tasks), outcome.actor])
        before = slice(dropped)
        after = slice(dropped + 1, None)
        experience = Experience(
            vectors=np.hstack([self.vectors[:, before], self.vectors[:, after], vector[:, None]]),
            tasks=(*self.tasks[before], *self.tasks[after], _past(outcome, names)),
            at=np.hstack([self.at[before], self.at[after], outcome.at]),
            claims=self.claims.plus([outcome]),
            names=names,
            uses=uses,
            weight=self.weight,
            co_use=self.co_use,
            since=self.since + 1,
        )
        has_grown = experience.since > GROWTH * len(experience.tasks)
        return experience._judged() if has_grown else experience

    def _judged(self) -> "Experience":
        """Return this with the weight and the relations that its tasks teach."""
        co_use = CoUse((task.actor, task.used) for task in self.tasks)
        return replace(self, weight=best_weight(self.tasks, self.vectors), co_use=co_use, since=0)

    def calls(self, key: str, digest: str) -> Calls:
        """Return the calls of a tool with its present definition."""
        return Calls.of(self.uses.get(f"{key} {digest}", ()))

    def was_called(self, key: str, digest: str) -> bool:
        """Return True if a tool was called with its present definition."""
        return bool(self.uses.get(f"{key} {digest}"))

    @cached_property
    def _actors(self) -> Integers:
        """The number of each task's person. Tasks without a name belong to one person."""
        numbers: dict[str, int] = {}
        return np.array(
            [numbers.setdefault(task.actor, len(numbers)) for task in self.tasks], np.int64
        )

    @cached_property
    def _heavy(self) -> frozenset[int]:
        return heavy_actors(self._actors)

    def _cosines(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of each task with this vector, in parts that no second thread is started for."""
        most = max(1, ONE_THREAD // len(vector))
        cosines = np.empty(len(self.tasks), np.float32)
        for start in range(0, len(cosines), most):
            part = slice(start, start + most)
            np.matmul(vector, self.vectors[:, part], out=cosines[part])
        return cosines

    def recall(
        self, vector: NDArray[np.float32], is_known: Known, asker: str = ""
    ) -> Recalled | None:
        """Return the past tasks similar to this vector with the effect of their votes, or None without similar tasks.

        If similar tasks come from several people, or from a heavy user, a person's third and further tasks come last.
        One person's tasks then weigh no more than the second person's. `agreed` is the part of a person's votes that
        another person shares.

        Args:
            vector: The task's vector.
            is_known: Returns True for tools whose votes count.
            asker: The person who asks.
        """
        if len(vector) != len(self.vectors):
            return None
        cosines = self._cosines(vector)
        # Tasks that are hardly alike would only add noise to the votes.
        near = np.flatnonzero(cosines > FAR)
        if not len(near):
            return None
        actors = self._actors[near]
        is_capped = bool((actors != actors[0]).any() or actors[0] in self._heavy)
        near = _nearest(cosines, near, self._actors if is_capped else None)
        weights = self._weights(cosines, near)
        if is_capped:
            weights = evened(weights, self._actors[near])
        past = [self.tasks[position] for position in near.tolist()]
        votes = votes_of(past, weights.tolist())
        votes = {name: people for name, people in votes.items() if is_known(*name)}
        lifts: dict[str, float] = {}
        shared: dict[str, float] = {}
        for (key, _), people in votes.items():
            lifts[key] = self.weight * sum(people.values())
            shared[key] = self.weight * agreed(people) if is_capped else lifts[key]
        return Recalled(
            tasks=_near_tasks(past, cosines[near].tolist(), votes),
            lifts=lifts,
            agreed=shared,
            alone=frozenset(
                name[0] for name, people in votes.items() if _is_alone(name, people, past, asker)
            ),
        )

    def _weights(self, cosines: NDArray[np.float32], near: Integers) -> NDArray[np.float64]:
        """Return the weights of near tasks, by their cosine and their age."""
        newest_at = min(self.at.max(), time.time())
        ages = np.maximum(0.0, newest_at - self.at[near])
        return np.asarray(nearness(cosines[near]) * 0.5 ** (ages / HALF_LIFE_S), np.float64)

    def has_used(self, name: Name) -> bool:
        """Return True if any task used this tool with its present definition."""
        return name in self.co_use.names


def _near_tasks(
    tasks: Sequence[PastTask], cosines: Sequence[float], votes: Collection[Name]
) -> tuple[Near, ...]:
    """Return the near tasks, with the tools that they vote for."""
    near = list[Near]()
    for task, cosine in zip(tasks, cosines, strict=True):
        used = tuple(name[0] for name in task.used if name in votes)
        near.append(Near(cosine=cosine, query=task.query, used=used))
    return tuple(near)


def _is_alone(name: Name, people: Collection[str], past: Sequence[PastTask], asker: str) -> bool:
    """Return True if only a single task used a tool, or only tasks of one person who is not the asker.

    Tasks without a person come from the program or the operator that owns the past, so they count as the asker's.
    """
    if len(people) > 1:
        return False
    is_trusted = "" in people or asker in people
    return not is_trusted or sum(name in task.used for task in past) == 1


def _past(outcome: Outcome, names: dict[Name, Name]) -> PastTask:
    """Return the task with each tool's name held once for all tasks."""
    offers = {offer.tool: offer for offer in outcome.offered}
    used = dict.fromkeys(use.tool for use in outcome.worked if use.tool in offers)
    # The used tools come first.
    in_order = [offers[key] for key in dict.fromkeys([*used, *offers])]
    tools = list[Name]()
    for offer in in_order:
        name = (intern(offer.tool), intern(offer.hash))
        tools.append(names.setdefault(name, name))
    return PastTask(
        query=outcome.query,
        actor=intern(outcome.actor),
        tools=tuple(tools),
        uses=len(used),
        chances=np.array([offer.chance for offer in in_order], np.float32),
        chosen=outcome.chosen,
    )


def _nearest(cosines: NDArray[np.float32], near: Integers, actors: Integers | None) -> Integers:
    """Return the NEAREST tasks, nearest first. With actors, their tasks are taken in turn."""
    # A third of all tasks are somewhat alike: sorting these would take longest.
    for most in (_LOOKED, len(near)):
        first = near
        if most < len(near):
            first = near[np.argpartition(-cosines[near], most)[:most]]
        first = first[np.argsort(-cosines[first], kind="stable")]
        if actors is None:
            break
        repeated = is_repeated(actors[first])
        first = first[np.argsort(repeated, kind="stable")]
        if len(repeated) - repeated.sum() >= NEAREST:
            break
    return first[:NEAREST]
