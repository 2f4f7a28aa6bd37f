"""One tenant's points of one part, in two tables of an SQLite file.

Each payload and each vector has a checksum, so that a damaged one is read as missing.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from orchestrator.store.points import Fields, New, Payload, Points, Record, Vectors

FORM = 3
"""The form of the files (`user_version`). Forms 1 and 2 were text files in the folders `tools` and `experience`."""
SCHEMA = f"""
CREATE TABLE collections (name TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE points (
  collection TEXT NOT NULL,
  id TEXT NOT NULL,
  payload TEXT NOT NULL,
  payload_checksum INTEGER NOT NULL,
  vector BLOB,
  vector_checksum INTEGER NOT NULL,
  PRIMARY KEY (collection, id)
);
PRAGMA user_version = {FORM};
"""
_OF_THESE = "collection = ? AND id IN (SELECT value FROM json_each(?))"
_DELETE = "DELETE FROM points WHERE collection = ? AND id IN (SELECT value FROM json_each(?))"
_PUT = """
INSERT INTO points VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (collection, id) DO UPDATE SET
  payload = excluded.payload, payload_checksum = excluded.payload_checksum,
  vector = excluded.vector, vector_checksum = excluded.vector_checksum
"""
_FLOATS = np.dtype("<f4")


class SqlitePoints(Points):
    """One tenant's points of one part, in an open transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def size(self, name: str) -> int | None:
        row = self._connection.execute(
            "SELECT size FROM collections WHERE name = ?", (name,)
        ).fetchone()
        return None if row is None else int(row[0])

    def create(self, name: str, size: int = 0) -> None:
        self._connection.execute("INSERT OR IGNORE INTO collections VALUES (?, ?)", (name, size))

    def drop(self, name: str) -> None:
        self._connection.execute("DELETE FROM points WHERE collection = ?", (name,))
        self._connection.execute("DELETE FROM collections WHERE name = ?", (name,))

    def get(
        self, name: str, ids: Sequence[str], *, vectors: bool = False, payload: Fields = True
    ) -> dict[str, Record]:
        records = self._select(
            _OF_THESE, (name, json.dumps(list(ids))), vectors=vectors, payload=payload
        )
        return {record.id: record for record in records}

    def find(self, name: str, *, vectors: bool = False, payload: Fields = True) -> Iterable[Record]:
        return self._select("collection = ?", (name,), vectors=vectors, payload=payload)

    def _select(
        self, where: str, values: tuple[str, ...], *, vectors: bool, payload: Fields
    ) -> Iterator[Record]:
        size = self.size(values[0]) if vectors else None
        columns = "payload, payload_checksum" if payload else "'{}', 0"
        columns += ", vector, vector_checksum" if size else ", NULL, 0"
        statement = f"SELECT id, {columns} FROM points WHERE {where}"  # noqa: S608 (no value is part of it)
        for point, text, text_checksum, floats, floats_checksum in self._connection.execute(
            statement, values
        ):
            yield Record(
                point,
                _payload(text, text_checksum, payload) if payload else {},
                _vector(floats, floats_checksum, size) if size else None,
            )

    def put(self, name: str, points: New, vectors: Vectors | None = None) -> None:
        rows = (
            [None] * len(points)
            if vectors is None
            else [row.tobytes() for row in vectors.astype(_FLOATS)]
        )
        self._connection.executemany(
            _PUT,
            [
                (name, *_row(point, payload, row))
                for (point, payload), row in zip(points.items(), rows, strict=True)
            ],
        )

    def swap(self, name: str, point: str, payload: Payload, before: str | None) -> bool:
        records = self.get(name, [point])
        if (
            before is not None
            and point in records
            and records[point].payload.get("state", before) != before
        ):
            return False
        self.put(name, {point: payload})
        return True

    def delete(self, name: str, ids: Sequence[str]) -> None:
        self._connection.execute(_DELETE, (name, json.dumps(list(ids))))


def _row(
    point: str, payload: Payload, vector: bytes | None
) -> tuple[str, str, int, bytes | None, int]:
    text = json.dumps(payload)
    return point, text, zlib.crc32(text.encode()), vector, zlib.crc32(vector or b"")


def _payload(text: str, checksum: int, fields: Fields) -> dict[str, object]:
    """Return a payload. It is empty if the text differs from the written one."""
    if not isinstance(text, str) or zlib.crc32(text.encode()) != checksum:
        return {}
    payload: dict[str, object] = json.loads(text)
    if isinstance(fields, list):
        return {field: payload[field] for field in fields if field in payload}
    return payload


def _vector(floats: bytes | None, checksum: int, size: int) -> Vectors | None:
    if floats is None or zlib.crc32(floats) != checksum or len(floats) != size * _FLOATS.itemsize:
        return None
    return np.frombuffer(floats, _FLOATS)
