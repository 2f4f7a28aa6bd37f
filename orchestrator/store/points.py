"""The port of the store: one tenant's points, wherever they are kept. No tool in here.

A collection belongs to one tenant as far as a caller can see: nothing here reads or changes another tenant's points.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Payload = Mapping[str, Any]
New = Mapping[str, Payload]
"""Points to write: id to payload."""
Fields = bool | list[str]
"""The fields of a payload that are read: all, none, or these."""


class Record(NamedTuple):
    """A point as it is read; its vector where it was asked for and there is one."""

    id: str
    payload: dict[str, Any]
    vector: Vectors | None = None


def is_whole(record: Record) -> bool:
    """Tell whether the point has a vector, of finite numbers."""
    return record.vector is not None and bool(np.isfinite(record.vector).all())


class Points(ABC):
    """Collections of one tenant's points: a payload and, in most collections, a vector. Ids are UUIDs as text."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Return the length of the collection's vectors (0: it has none); None where there is no such collection."""

    @abstractmethod
    def create(self, name: str, size: int = 0) -> None:
        """Create a collection for vectors of this size (0: without), unless there is one."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Remove all of the tenant's points in the collection."""

    @abstractmethod
    def get(self, name: str, ids: Sequence[str], *, vectors: bool = False, payload: Fields = True) -> dict[str, Record]:
        """Return those of these points that exist, by id; nothing where there is no such collection."""

    @abstractmethod
    def find(self, name: str, *, vectors: bool = False, payload: Fields = True) -> Iterable[Record]:
        """Return all of the tenant's points in the collection, in any order."""

    @abstractmethod
    def put(self, name: str, points: New, vectors: Vectors | None = None) -> None:
        """Write points, each at once as a whole; the vectors are in the same order."""

    @abstractmethod
    def swap(self, name: str, point: str, payload: Payload, before: str | None) -> bool:
        """Write a point only where its `state` is still this one, or where there is no such point yet.

        The payload's `state` is unique to this write, and its `past` names the states before. `before` of None: write
        it whatever is there. False if another writer was first.
        """

    @abstractmethod
    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove these points, those of them that exist.

        A folder then holds nothing of them on the disk. A server sees to that by itself, in time.
        """

    def sweep(self, name: str, ids: Sequence[str], until: float) -> None:
        """Remove those of these points that were `written` until then, since other writers may need younger ones.

        A folder has one writer at a time, so there all of them go.
        """
        self.delete(name, ids)

    def lacks(self, name: str, ids: Sequence[str]) -> bool:
        """Tell whether any of these points does not exist."""
        return len(self.get(name, ids, payload=False)) < len(ids)
