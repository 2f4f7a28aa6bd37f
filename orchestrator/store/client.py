"""What the Store asks of an open Qdrant: collections of points. No tool or tenant in here."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PAGE = 1_000
_LOCAL_PAGE = 1_000_000
"""Embedded, every page filters all points anew."""
_FLOATS = 500_000
"""Numbers of vectors in one request: about 11 MB of JSON, where a Qdrant server takes 32 MB."""

Vectors = NDArray[np.float32]
Must = Mapping[str, str | Sequence[str]]
"""Payload fields and the value, or one of the values, that each must have."""


class Points:
    """An open store: collections of points with a payload and, in most, a vector. Ids are UUIDs as text."""

    def __init__(self, client: Any, folder: Path | None = None, *, remote: bool = False) -> None:
        self._client, self._folder, self._remote = client, folder, remote
        self._page = _PAGE if remote else _LOCAL_PAGE

    def has(self, name: str) -> bool:
        return bool(self._client.collection_exists(name))

    def target(self, alias: str) -> str | None:
        """The collection that an alias leads to."""
        aliases = self._client.get_aliases().aliases
        return next((found.collection_name for found in aliases if found.alias_name == alias), None)

    def point(self, alias: str, name: str) -> None:
        """Leads the alias to this collection, in one step."""
        from qdrant_client import models

        forget = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))
        lead = models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=alias))
        self._client.update_collection_aliases([forget, lead] if self.target(alias) else [lead])

    def create(self, name: str, size: int = 0, *, indexed: Sequence[str] = ()) -> None:
        """A new collection for vectors of this size (0: without), compared by their dot product.

        A Qdrant server indexes these payload fields; the first one separates tenants.
        """
        from qdrant_client import models

        shape: Any = models.VectorParams(size=size, distance=models.Distance.DOT) if size else {}
        self._client.create_collection(name, vectors_config=shape)
        if self._folder is not None:
            _write_ahead(self._folder / "collection" / name / "storage.sqlite")
        for number, field in enumerate(indexed if self._remote else ()):
            kind = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=number == 0)
            self._client.create_payload_index(name, field, kind)

    def drop(self, name: str) -> None:
        self._client.delete_collection(name)

    def size(self, name: str) -> int:
        """The length of the collection's vectors."""
        return int(self._client.get_collection(name).config.params.vectors.size)

    def get(self, name: str, ids: Sequence[str], *, vectors: bool = False, payload: bool = True) -> dict[str, Any]:
        """Those of these points that are there, by id; none where another process has just dropped the collection."""
        from qdrant_client.http.exceptions import UnexpectedResponse

        found: dict[str, Any] = {}
        for start in range(0, len(ids), _PAGE):
            page = ids[start : start + _PAGE]
            try:
                records = self._client.retrieve(name, page, with_payload=payload, with_vectors=vectors)
            except UnexpectedResponse as error:
                if error.status_code != 404:
                    raise
                return {}
            found.update((str(record.id), record) for record in records)
        return found

    def missing(self, name: str, ids: Sequence[str]) -> list[str]:
        """Those of these points that are not there; all of them where there is no such collection."""
        if not ids or not self.has(name):
            return list(ids)
        found = self.get(name, ids, payload=False)
        return [point for point in ids if point not in found]

    def find(self, name: str, must: Must, *, payload: bool = True) -> list[Any]:
        """Every point whose payload has these values."""
        found: list[Any] = []
        offset = None
        while True:
            records, offset = self._client.scroll(
                name, scroll_filter=_filter(must), limit=self._page, offset=offset, with_payload=payload
            )
            found += records
            if offset is None:
                return found

    def nearest(self, name: str, vector: Vectors, must: Must, limit: int) -> list[tuple[str, float]]:
        """Ids and dot products of the nearest points, best first, by Qdrant's own search."""
        answer = self._client.query_points(
            name, query=vector.tolist(), query_filter=_filter(must), limit=limit, with_payload=False
        )
        return [(str(point.id), float(point.score)) for point in answer.points]

    def put(self, name: str, points: Mapping[str, Mapping[str, Any]], vectors: Vectors | None = None) -> None:
        """Writes points, each at once as a whole: id to payload, and the vectors in the same order."""
        from qdrant_client import models

        ids, size = list(points), 1 if vectors is None else vectors.shape[1]
        rows = max(1, _FLOATS // size) if self._remote else max(1, len(ids))
        for start in range(0, len(ids), rows):
            page = slice(start, start + rows)
            batch = models.Batch(
                ids=[*ids[page]],
                payloads=[dict(points[point]) for point in ids[page]],
                vectors={} if vectors is None else vectors[page].tolist(),
            )
            self._client.upsert(name, batch, wait=True)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        if ids:
            self._client.delete(name, list(ids), wait=True)


def _filter(must: Must) -> Any:
    from qdrant_client import models

    def condition(field: str, value: str | Sequence[str]) -> Any:
        match = models.MatchValue(value=value) if isinstance(value, str) else models.MatchAny(any=list(value))
        return models.FieldCondition(key=field, match=match)

    return models.Filter(must=[condition(field, value) for field, value in must.items()])


def _write_ahead(file: Path) -> None:
    """SQLite's write-ahead log: as safe, and a point takes 0.14 ms instead of 1.8 (measured on one machine)."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
