"""The port of the store: one tenant's points, wherever they are kept. No tool in here.

A collection belongs to one tenant as far as a caller can see: nothing here reads or changes another tenant's points.
"""

import math
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
Sparse = Mapping[int, float]
"""A vector by the numbers of its terms."""
Words = Sequence[Sparse] | None
Probe = tuple[Sequence[float] | Sparse, int]
"""A vector, and how many points with the greatest products with it are sought."""
MEANING, WORDS = "meaning", "words"
"""The vectors of a collection that is searched: it holds both."""
RANKED = 60
"""The constant of reciprocal ranks."""
FILTERED = ("server", "keys", "name", "labels", "hosted")
"""The fields of its points that are filtered by."""


class Where(NamedTuple):
    """Conditions: of each of these fields one of these values, and of none of those."""

    all: tuple[tuple[str, tuple[str, ...]], ...] = ()
    none: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def having(self, field: str, values: Iterable[str]) -> "Where":
        """Return the same where the field has one of these values, too."""
        return Where((*self.all, (field, tuple(values))), self.none)

    def without(self, field: str, values: Iterable[str]) -> "Where":
        """Return the same where the field has none of these values."""
        own = tuple(values)
        return Where(self.all, (*self.none, (field, own))) if own else self


class Record(NamedTuple):
    """A point as it is read; its (dense) vector where it was asked for and there is one."""

    id: str
    payload: dict[str, Any]
    vector: Sequence[float] | None = None


def is_whole(record: Record) -> bool:
    """Tell whether the point has a vector, of finite numbers: a sum with another in it is not finite."""
    return bool(record.vector) and math.isfinite(sum(record.vector or ()))


class Points(ABC):
    """Collections of one tenant's points: a payload and, in most collections, a vector. Ids are UUIDs as text."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Return the length of the collection's vectors (0: it has none); None where there is no such collection."""

    @abstractmethod
    def create(self, name: str, size: int = 0, *, searched: bool = False) -> None:
        """Create a collection for vectors of this size (0: without), unless there is one.

        searched: for sparse ones as well.
        """

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
    def search(self, name: str, probes: Sequence[Probe], where: Where, most: int) -> list[str]:
        """Return the ids of the points that any probe finds, best first by rank; without probes of any that fit."""

    @abstractmethod
    def put(self, name: str, points: New, vectors: Vectors | None = None, words: Words = None) -> None:
        """Write points, each at once as a whole; the vectors are in the same order."""

    def append(self, name: str, points: New, vectors: Vectors) -> None:
        """Write a few points like `put`, in a time that does not grow with those that are there."""
        self.put(name, points, vectors)

    @abstractmethod
    def swap(self, name: str, point: str, payload: Payload, field: str, before: str) -> bool:
        """Write a point only where this field still says `before`, or where there is no such point yet.

        False if another writer was first.
        """

    @abstractmethod
    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove these points, those of them that exist."""

    @abstractmethod
    def purge(self, name: str) -> None:
        """Leave nothing on the disk of the collection's removed points."""

    def missing(self, name: str, ids: Sequence[str]) -> list[str]:
        """Return those of these points that do not exist."""
        found = self.get(name, ids, payload=False)
        return [point for point in ids if point not in found]
