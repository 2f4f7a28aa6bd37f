"""The port of the store: one tenant's points, in any place. This module does not know tools.

No method reads or changes another tenant's points.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import StoreBusy

Vectors = NDArray[np.float32]
Payload = Mapping[str, Any]
New = Mapping[str, Payload]
"""Points to write: payloads by id."""
Fields = bool | list[str]
"""The fields of a payload to read: all (True), none (False), or a list."""


class Record(NamedTuple):
    """A point that was read. The vector is None if it was not requested or does not exist."""

    id: str
    payload: dict[str, Any]
    vector: Vectors | None = None


_PAST = 16
"""The number of earlier states that a record names, so that its writer finds its own write behind later ones."""
_TRIES = 100
"""A try fails only if another writer was first, so this many failures have another cause."""
_UNREADABLE = "unreadable"
"""The content of a damaged record. It is no JSON, so each reader takes it for damaged."""


def has_vector(record: Record) -> bool:
    """Return True if the point has a vector of finite numbers."""
    return record.vector is not None and bool(np.isfinite(record.vector).all())


class Points(ABC):
    """The collections of one tenant's points. A point has a payload and, in most collections, a vector. Ids are UUIDs
    as text.
    """

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Return the length of the collection's vectors, 0 for a collection without vectors, or None if there is
        no such collection.
        """

    @abstractmethod
    def create(self, name: str, size: int = 0) -> None:
        """Create a collection for vectors of this size, unless it exists. A size of 0 means no vectors."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Remove all of the tenant's points in the collection."""

    @abstractmethod
    def get(
        self, name: str, ids: Sequence[str], *, vectors: bool = False, payload: Fields = True
    ) -> dict[str, Record]:
        """Return the points that exist, by id. A missing collection has no points.

        Args:
            name: The name of the collection.
            ids: The ids of the points.
            vectors: Whether to read the vectors.
            payload: The fields of the payload to read.
        """

    @abstractmethod
    def find(self, name: str, *, vectors: bool = False, payload: Fields = True) -> Iterable[Record]:
        """Return all of the tenant's points in the collection, in any order.

        Args:
            name: The name of the collection.
            vectors: Whether to read the vectors.
            payload: The fields of the payload to read.
        """

    @abstractmethod
    def put(self, name: str, points: New, vectors: Vectors | None = None) -> None:
        """Write points. Each point is written completely or not at all.

        Args:
            name: The name of the collection.
            points: The payloads by id.
            vectors: The vectors, in the order of the points.
        """

    @abstractmethod
    def swap(self, name: str, point: str, payload: Payload, before: str | None) -> bool:
        """Write a point only if its `state` has not changed, or if there is no such point yet.

        Args:
            name: The name of the collection.
            point: The id of the point.
            payload: The new payload. Its `state` is unique to this write, and its `past` lists earlier states.
            before: The expected `state`. None: write in any case.

        Returns:
            False if another writer was first.
        """

    @abstractmethod
    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove those of the points that exist.

        In a folder, nothing of them is left on the disk after this. A server removes the data later by itself.
        """

    def sweep(self, name: str, ids: Sequence[str], until: float) -> None:
        """Remove points that were `written` before a time, because other writers may need younger ones.

        A folder has one writer at a time, so all points are removed there.

        Args:
            name: The name of the collection.
            ids: The ids of the points.
            until: The time, in seconds since 1970.
        """
        self.delete(name, ids)

    def update(self, name: str, point: str, change: Callable[[str], str]) -> None:
        """Replace the `content` of a record by the result of `change`, which is called again after another's write.

        Args:
            name: The name of the collection. It is created if it is missing.
            point: The id of the record.
            change: Gets the content as `content_of` reads it, and returns the new one.

        Raises:
            StoreBusy: Other writers keep changing the record.
        """
        self.create(name)
        for _ in range(_TRIES):
            records = self.get(name, [point])
            before = records[point].payload if point in records else {}
            content_before = content_of(records, point)
            content = change(content_before)
            if content == content_before:
                return
            if self.swap(
                name,
                point,
                {"content": content, **next_state(before)},
                before.get("state") if point in records else "",  # A damaged record has no state.
            ):
                return
        raise StoreBusy("the store is busy: other writers keep changing the same record; try again")


def content_of(records: Mapping[str, Record], point: str) -> str:
    """Return the `content` of a record, empty if there is no record. That of a damaged record is no JSON."""
    if point not in records:
        return ""
    return str(records[point].payload.get("content", _UNREADABLE))


def next_state(before: Payload) -> dict[str, Any]:
    """Return the `state` of a record that replaces another one, and the `past` states that it names."""
    past = [state for state in (before.get("state"), *before.get("past", ())) if state]
    return {"state": secrets.token_hex(8), "past": past[:_PAST]}
