"""A tenant's Outcomes and their vectors in the store. An Outcome is a point named by its id, so it counts once."""

import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from orchestrator.errors import FAULTS, InvalidConfig, InvalidInput
from orchestrator.experience.actors import newest
from orchestrator.experience.memory import MOST_TASKS
from orchestrator.index.embed import Embedder, vectors_of
from orchestrator.records.outcome import Claim, Offer, Outcome, Use
from orchestrator.store.backend import EXPERIENCE, Backend
from orchestrator.store.points import Points, Record, Vectors, has_vector
from orchestrator.store.vectors import collection_of

logger = logging.getLogger(__name__)
_KIND, _HEAD = "tool_experience", "tool_experience__head"
_SPACE = uuid.UUID("0d1b8f3e-5f5e-4a7e-9c54-2f6a1d1c7b90")
_BATCH = 256
_LOOKED_S, _ADDED = 86_400.0, 64
"""Old or surplus Outcomes are removed once a day and after this number of new ones, because it reads all Outcomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOutcomes:
    """A tenant's Outcomes.

    Attributes:
        outcomes: The Outcomes, oldest first.
        vectors: Their vectors, shape [outcomes, dimension].
        damaged: The number of Outcomes that cannot be read.
    """

    outcomes: tuple[Outcome, ...]
    vectors: Vectors
    damaged: int = 0


class Outcomes:
    """The Outcomes of all tenants. All methods block, and may be called from any thread."""

    def __init__(self, backend: Backend, embedder: Callable[[], Embedder]) -> None:
        self._backend = backend
        self._embedder = embedder

    def collections(self, dimension: int) -> dict[str, int]:
        """Return the names of the collections of Outcomes, each with the length of its vectors."""
        return {_HEAD: 0, collection_of(_KIND, self._embedder()): dimension}

    def stamp(self, tenant: str) -> str:
        """Return a text that differs after every write. Empty if only a read can show a change."""
        return self._backend.stamp(tenant, EXPERIENCE)

    def read(self, tenant: str) -> StoredOutcomes:
        """Return all Outcomes of the tenant. If another embedder embedded them, they are embedded again from their
        texts.
        """
        collection = collection_of(_KIND, self._embedder())

        def ask(points: Points) -> tuple[str, list[Record]]:
            named = _head(points, tenant).get("collection", collection)
            return named, list(points.find(named, vectors=True))

        named, records = self._backend.read(tenant, ask, EXPERIENCE)
        whole = [record for record in records if has_vector(record)]
        found = {record.id: outcome for record in whole if (outcome := _outcome(record.payload)) is not None}
        order = sorted(found, key=lambda point: (found[point].at, point))
        vectors = {record.id: record.vector for record in records}
        kept = tuple(found[point] for point in order)
        rows = np.array([vectors[point] for point in order], np.float32).reshape(len(order), -1 if order else 0)
        if named != collection and order:
            kept, rows = self._moved(tenant, named, kept)
        return StoredOutcomes(outcomes=kept, vectors=rows, damaged=len(records) - len(found))

    def add(self, tenant: str, outcomes: Sequence[Outcome], vectors: Vectors, days: int) -> None:
        """Store Outcomes. From time to time, remove old ones and keep the newest MOST_TASKS of each person's.

        Args:
            tenant: The tenant.
            outcomes: The new Outcomes.
            vectors: Their vectors, shape [outcomes, dimension].
            days: Days after which an Outcome is removed.
        """
        collection, now = collection_of(_KIND, self._embedder()), time.time()
        oldest = now - days * 86_400
        young = [place for place, outcome in enumerate(outcomes) if outcome.at >= oldest]
        with self._backend.writing(tenant, EXPERIENCE) as points:
            head = _head(points, tenant)
            added, looked = head.get("added", 0) + len(young), head.get("looked", now)
            if due := added > _ADDED or now > looked + _LOOKED_S:
                added, looked = 0, now
            self._put(points, tenant, collection, [outcomes[place] for place in young], vectors[young])
            points.put(_HEAD, {_id("head", tenant): {"collection": collection, "added": added, "looked": looked}})
            if due:
                _thin_out(points, collection, oldest)

    def forget(self, tenant: str, which: Callable[[Outcome], bool]) -> int:
        """Remove the Outcomes for which the function returns True, and return their number. A folder then has
        nothing of them.

        If an Outcome cannot be read, for example that of a newer toolroute, only its actor and its time are known.
        """
        with self._backend.writing(tenant, EXPERIENCE) as points:
            named = _head(points, tenant).get("collection", _KIND)
            gone = [r.id for r in points.find(named) if which(_outcome(r.payload) or _outline(r))]
            if gone:
                points.delete(named, gone)
            return len(gone)

    def forget_all(self, tenant: str) -> int:
        """Remove all Outcomes, damaged or not. Return their number, if it can be read."""

        def count(points: Points) -> int:
            return len([*points.find(_head(points, tenant).get("collection", _KIND), payload=False)])

        try:
            known = self._backend.read(tenant, count, EXPERIENCE)
        except InvalidConfig:
            known = None
        self._backend.drop(tenant, EXPERIENCE)
        if known is None:
            logger.warning("tenant %r: past tasks that could not be read were removed", tenant)
        return known or 0

    def _moved(self, tenant: str, before: str, outcomes: Sequence[Outcome]) -> tuple[tuple[Outcome, ...], Vectors]:
        """Embed Outcomes with the embedder in use and store them in its collection. Outcomes without a text are
        removed.
        """
        embedder = self._embedder()
        kept = tuple(outcome for outcome in outcomes if outcome.query)
        if lost := len(outcomes) - len(kept):
            logger.warning(
                "%d past tasks of tenant %r were removed: they have no text that the new embedder can read",
                lost,
                tenant,
            )
        vectors = vectors_of(embedder, [outcome.query for outcome in kept])
        with self._backend.writing(tenant, EXPERIENCE) as points:
            collection = collection_of(_KIND, embedder)
            self._put(points, tenant, collection, kept, vectors)
            points.put(_HEAD, {_id("head", tenant): {"collection": collection}})
            points.drop(before)  # Another process may do the same at the same time.
        return kept, vectors

    def _put(self, points: Points, tenant: str, collection: str, outcomes: Sequence[Outcome], vectors: Vectors) -> None:
        points.create(_HEAD)
        points.create(collection, vectors.shape[1])
        for start in range(0, len(outcomes), _BATCH):
            own = outcomes[start : start + _BATCH]
            points.put(
                collection,
                {_point(tenant, outcome): _payload(outcome) for outcome in own},
                vectors[start : start + _BATCH],
            )


def _head(points: Points, tenant: str) -> dict[str, Any]:
    """Return the tenant's head record, or an empty one.

    It has the collection of the Outcomes, the number `added` since the last cleaning, and the time when they were
    `looked` through.
    """
    found = points.get(_HEAD, [_id("head", tenant)])
    return next((record.payload for record in found.values()), {})


def _thin_out(points: Points, collection: str, oldest: float) -> None:
    """Remove old Outcomes. If there are more than MOST_TASKS, also remove the oldest Outcomes of the person with the
    most.
    """
    found = points.find(collection, payload=["at", "actor"])
    ages = sorted((r.payload.get("at", 0.0), r.id, str(r.payload.get("actor", ""))) for r in found)
    young = [row for row in ages if row[0] >= oldest]
    kept = {young[place][1] for place in newest([actor for *_, actor in young], MOST_TASKS)}
    if gone := [point for _, point, _ in ages if point not in kept]:
        points.delete(collection, gone)


def _payload(outcome: Outcome) -> dict[str, Any]:
    return {"at": outcome.at, "actor": outcome.actor, "outcome": json.dumps(asdict(outcome), ensure_ascii=False)}


def _outcome(payload: Mapping[str, Any]) -> Outcome | None:
    """Return the Outcome of a point, or None if the record is damaged or has another form."""
    try:
        record = json.loads(payload["outcome"])
        claims = {name: record[name] and Claim(**record[name]) for name in ("words", "both")}
        used = tuple(Use(**own) for own in record["used"])
        offered = tuple(Offer(**own) for own in record["offered"])
        return Outcome(**{**record, **claims, "used": used, "offered": offered})
    except (InvalidInput, *FAULTS):
        return None


def _outline(record: Record) -> Outcome:
    at, actor = record.payload.get("at"), str(record.payload.get("actor", ""))
    return Outcome(id=record.id, query="", used=(), at=at if isinstance(at, float) else 0.0, actor=actor)


def _point(tenant: str, outcome: Outcome) -> str:
    return _id("outcome", tenant, outcome.id)


def _id(*parts: str) -> str:
    return str(uuid.uuid5(_SPACE, "\x00".join(parts)))
