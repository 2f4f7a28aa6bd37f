"""A tenant's Outcomes and their vectors in the store. An Outcome is a point named by its id, so it counts once."""

import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from orchestrator.errors import InvalidConfig, InvalidInput
from orchestrator.experience.actors import newest
from orchestrator.experience.memory import MOST_TASKS
from orchestrator.index.embedders.embedder import Embedder
from orchestrator.index.embedders.embedding import vectors_of
from orchestrator.records.outcome import Claim, Offer, Outcome, Use
from orchestrator.store.backend import EXPERIENCE, Backend
from orchestrator.store.points import Points, Record, Vectors, has_vector
from orchestrator.store.tools.tool_points import collection_of

logger = logging.getLogger(__name__)
_KIND = "tool_experience"
_HEAD = f"{_KIND}__head"
"""The collection of a record for each tenant.

It names the collection of the Outcomes, which a change of the embedder changes.
"""
_SPACE = uuid.UUID("0d1b8f3e-5f5e-4a7e-9c54-2f6a1d1c7b90")
"""The ids of stored points depend on it, so no release changes it."""
_BATCH = 256
"""Outcomes in one request. A server limits its size."""
_CLEANED_EVERY_S = 86_400.0
_CLEANED_AFTER = 64
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
        """Return all Outcomes of the tenant.

        If another embedder embedded them, they are embedded again from their texts.
        """
        collection = collection_of(_KIND, self._embedder())
        with self._backend.reading(tenant, EXPERIENCE) as points:
            stored_in = _head(points, tenant).get("collection", collection)
            records = list(points.find(stored_in, vectors=True))
        stored = _readable(records)
        if stored_in != collection and stored.outcomes:
            return self._moved(tenant, stored_in, stored)
        return stored

    def add(self, tenant: str, outcomes: Sequence[Outcome], vectors: Vectors, days: int) -> None:
        """Store Outcomes. From time to time, remove old ones and keep the newest MOST_TASKS of each person's.

        Args:
            tenant: The tenant.
            outcomes: The new Outcomes.
            vectors: Their vectors, shape [outcomes, dimension].
            days: Days after which an Outcome is removed.
        """
        collection = collection_of(_KIND, self._embedder())
        at = time.time()
        oldest = at - days * 86_400
        young = [row for row, outcome in enumerate(outcomes) if outcome.at >= oldest]
        with self._backend.writing(tenant, EXPERIENCE) as points:
            head = _head(points, tenant)
            added = head.get("added", 0) + len(young)
            looked = head.get("looked", at)
            is_due = added > _CLEANED_AFTER or at > looked + _CLEANED_EVERY_S
            if is_due:
                added = 0
                looked = at
            self._put(points, tenant, collection, [outcomes[row] for row in young], vectors[young])
            points.put(
                _HEAD,
                {_id("head", tenant): {"collection": collection, "added": added, "looked": looked}},
            )
            if is_due:
                _thin_out(points, collection, oldest)

    def forget(self, tenant: str, which: Callable[[Outcome], bool]) -> int:
        """Remove the Outcomes for which the function returns True, and return their number. A folder then has
        nothing of them.

        If an Outcome cannot be read, for example that of a newer toolroute, only its actor and its time are known.
        """
        with self._backend.writing(tenant, EXPERIENCE) as points:
            collection = _head(points, tenant).get("collection", _KIND)
            records = list(points.find(collection))
            forgotten = [
                record.id
                for record in records
                if which(_outcome(record.payload) or _outline(record))
            ]
            if forgotten:
                points.delete(collection, forgotten)
            return len(forgotten)

    def forget_all(self, tenant: str) -> int:
        """Remove all Outcomes, damaged or not. Return their number, if it can be read."""

        number = 0
        try:
            with self._backend.reading(tenant, EXPERIENCE) as points:
                collection = _head(points, tenant).get("collection", _KIND)
                number = len(list(points.find(collection, payload=False)))
        except InvalidConfig:
            logger.warning("tenant %r: past tasks that cannot be read are removed", tenant)
        self._backend.drop(tenant, EXPERIENCE)
        return number

    def _moved(self, tenant: str, before: str, stored: StoredOutcomes) -> StoredOutcomes:
        """Embed Outcomes with the embedder in use and store them in its collection.

        Outcomes without a text are removed.
        """
        embedder = self._embedder()
        readable = tuple(outcome for outcome in stored.outcomes if outcome.query)
        if lost := len(stored.outcomes) - len(readable):
            logger.warning(
                "%d past tasks of tenant %r were removed: they have no text that the new embedder can read",
                lost,
                tenant,
            )
        vectors = vectors_of(embedder, [outcome.query for outcome in readable])
        with self._backend.writing(tenant, EXPERIENCE) as points:
            collection = collection_of(_KIND, embedder)
            self._put(points, tenant, collection, readable, vectors)
            points.put(_HEAD, {_id("head", tenant): {"collection": collection}})
            points.drop(before)  # Another process may do the same at the same time.
        return replace(stored, outcomes=readable, vectors=vectors)

    def _put(
        self,
        points: Points,
        tenant: str,
        collection: str,
        outcomes: Sequence[Outcome],
        vectors: Vectors,
    ) -> None:
        points.create(_HEAD)
        points.create(collection, vectors.shape[1])
        for start in range(0, len(outcomes), _BATCH):
            batch = {
                _point(tenant, outcome): _payload(outcome)
                for outcome in outcomes[start : start + _BATCH]
            }
            points.put(collection, batch, vectors[start : start + _BATCH])


def _head(points: Points, tenant: str) -> dict[str, Any]:
    """Return the tenant's head record, or an empty one.

    It has the collection of the Outcomes, the number `added` since the last cleaning, and the time when they were
    `looked` through.
    """
    records = points.get(_HEAD, [_id("head", tenant)])
    return next((record.payload for record in records.values()), {})


def _thin_out(points: Points, collection: str, oldest: float) -> None:
    """Remove old Outcomes.

    If there are more than MOST_TASKS, also remove the oldest Outcomes of the person with the most.
    """
    records = points.find(collection, payload=["at", "actor"])
    outlines = sorted(map(_outline, records), key=_age)
    young: dict[str, str] = {}
    for outline in outlines:
        if outline.at >= oldest:
            young[outline.id] = outline.actor
    staying = newest(list(young), list(young.values()), MOST_TASKS)
    removed = {outline.id for outline in outlines}.difference(staying)
    if removed:
        points.delete(collection, sorted(removed))


def _age(outcome: Outcome) -> tuple[float, str]:
    return outcome.at, outcome.id


def _readable(records: Sequence[Record]) -> StoredOutcomes:
    """Return the Outcomes of these records. The records that cannot be read are counted."""
    rows: list[tuple[Outcome, Vectors]] = []
    for record in records:
        outcome = _outcome(record.payload)
        if outcome is not None and has_vector(record) and record.vector is not None:
            rows.append((outcome, record.vector))
    rows.sort(key=lambda row: _age(row[0]))
    vectors = np.array([vector for _, vector in rows], np.float32)
    return StoredOutcomes(
        outcomes=tuple(outcome for outcome, _ in rows),
        vectors=vectors.reshape(len(rows), -1 if rows else 0),
        damaged=len(records) - len(rows),
    )


def _payload(outcome: Outcome) -> dict[str, Any]:
    return {
        "at": outcome.at,
        "actor": outcome.actor,
        "outcome": json.dumps(asdict(outcome), ensure_ascii=False),
    }


def _outcome(payload: Mapping[str, Any]) -> Outcome | None:
    """Return the Outcome of a point, or None if the record is damaged or has another form."""
    try:
        fields = json.loads(payload["outcome"])
        words = fields["words"]
        both = fields["both"]
        fields["words"] = words and Claim(**_with_number(words))
        fields["both"] = both and Claim(**_with_number(both))
        fields["used"] = tuple(Use(**use) for use in fields["used"])
        fields["offered"] = tuple(Offer(**_with_number(offer)) for offer in fields["offered"])
        return Outcome(**fields)
    except (InvalidInput, KeyError, TypeError, ValueError):
        return None


def _with_number(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record with its probability as a number. Raises ValueError for another text."""
    return {**fields, "chance": float(fields["chance"])}


def _outline(record: Record) -> Outcome:
    """Return an Outcome with the two fields that every record has: the person and the time."""
    at = record.payload.get("at")
    actor = str(record.payload.get("actor", ""))
    when = at if isinstance(at, int | float) else 0.0
    return Outcome(id=record.id, query="", used=(), at=when, actor=actor)


def _point(tenant: str, outcome: Outcome) -> str:
    return _id("outcome", tenant, outcome.id)


def _id(*parts: str) -> str:
    return str(uuid.uuid5(_SPACE, "\x00".join(parts)))
