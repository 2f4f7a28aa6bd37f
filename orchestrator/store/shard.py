"""One collection of one tenant in a folder: a shard of Qdrant's embedded engine, kept as one file.

The engine maps files of 33 MB that are mostly holes, and writes to them even where it only reads. So at rest a shard is
one archive without the holes, each entry with its checksum; it is unpacked for as long as it is open. Reading thus
needs no lock and no writable store, a damaged file is seen before the engine maps it, and a write is one new file.
"""

import errno
import os
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from orchestrator.errors import StoreUnavailable
from orchestrator.store.points import Fields, New, Record, Vectors

_BLOCK = 1 << 16
_MARGIN = 16 << 20
_PREFIX = "toolroute-open-"
_LEFT_S = 3600
_OUTAGES = (errno.ENOMEM, errno.ENFILE, errno.EMFILE, errno.ENOSPC, errno.EDQUOT)
"""What the system refuses for a time. All else that fails in an archive comes from what stands there."""


class Damaged(Exception):
    """The archive, or what it holds, is not what was written."""


@contextmanager
def engine_errors() -> Iterator[None]:
    """Raise Damaged for what the engine raises: plain exceptions, and panics, which are no exceptions to Python.

    Raises StoreUnavailable for what the system refused the engine, such as room on the disk.
    """
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        if re.search(rf"os error ({'|'.join(map(str, _OUTAGES))})\b|No space left", str(error)):
            raise StoreUnavailable(f"the store's engine failed: {error}") from error
        raise Damaged(str(error)) from error


class Shard:
    """An open shard. What it changes is kept by `pack` alone."""

    def __init__(self, engine: Any, folder: Path) -> None:
        self._engine, self._folder = engine, folder

    @engine_errors()
    def get(self, ids: Sequence[str], vectors: bool, payload: Fields) -> list[Record]:
        return [_record(found) for found in self._engine.retrieve(list(ids), payload, vectors)]

    @engine_errors()
    def all(self, vectors: bool, payload: Fields) -> list[Record]:
        from qdrant_edge import ScrollRequest

        wanted = ScrollRequest(limit=max(1, self.count()), with_payload=payload, with_vector=vectors)
        return [_record(found) for found in self._engine.scroll(wanted)[0]]

    @engine_errors()
    def count(self) -> int:
        from qdrant_edge import CountRequest

        return int(self._engine.count(CountRequest(exact=True)))

    @engine_errors()
    def put(self, points: New, vectors: Vectors) -> None:
        from qdrant_edge import Point, UpdateOperation

        _require_room(self._folder, _MARGIN + 2 * vectors.nbytes + sum(len(str(own)) for own in points.values()))
        rows = zip(points.items(), vectors.tolist(), strict=True)
        new = [Point(point, vector, dict(payload)) for (point, payload), vector in rows]
        self._engine.update(UpdateOperation.upsert_points(new))

    @engine_errors()
    def delete(self, ids: Sequence[str]) -> None:
        from qdrant_edge import UpdateOperation

        self._engine.update(UpdateOperation.delete_points(list(ids)))

    @engine_errors()
    def pack(self, file: Path) -> None:
        """Keep the shard as this file, which is whole and on the disk when this returns."""
        self._engine.flush()
        with file.open("xb") as out:
            with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
                for source in sorted(path for path in self._folder.rglob("*") if path.is_file()):
                    _pack(archive, source, source.relative_to(self._folder).as_posix())
            out.flush()
            os.fsync(out.fileno())


@contextmanager
def opened(file: Path | None, size: int) -> Iterator[Shard]:
    """Open the shard that this file keeps, or a new one for vectors of this size. Raises Damaged and OSError."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_workplace(file), ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if file is not None:
            _unpack(file, folder)
        with engine_errors():
            engine = _new(folder, size) if file is None else _loaded(folder)
        try:
            yield Shard(engine, folder)
        finally:
            with suppress(Exception):
                engine.close()


def sweep() -> None:
    """Remove what killed processes of this user left open an hour ago and earlier."""
    for place in workplaces():
        for left in place.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                if left.stat().st_uid == os.geteuid() and left.stat().st_mtime < time.time() - _LEFT_S:
                    shutil.rmtree(left, ignore_errors=True)


def workplaces() -> list[Path]:
    """Return where shards can be open, in memory first: the engine waits for the disk wherever it reads and writes."""
    return [place for place in (Path("/dev/shm"), Path(tempfile.gettempdir())) if place.is_dir()]  # noqa: S108


def _workplace(file: Path | None) -> Path:
    need = _MARGIN + 3 * (file.stat().st_size if file else 0)
    *others, last = workplaces()
    place = next((place for place in others if shutil.disk_usage(place).free >= need), last)
    _require_room(place, need)
    return place


def _require_room(folder: Path, need: int) -> None:
    """Raise StoreUnavailable where the disk has not this many bytes left.

    The engine maps its files, and writing to a hole of one that finds no room would end the process.
    """
    if (free := shutil.disk_usage(folder).free) < need:
        raise StoreUnavailable(
            f"{folder} has {free >> 20} MB left, and {need >> 20} MB are needed to open the store's files there: make "
            "room, or set TMPDIR to a folder that has it"
        )


def _loaded(folder: Path) -> Any:
    from qdrant_edge import EdgeShard

    return EdgeShard.load(str(folder))


def _new(folder: Path, size: int) -> Any:
    import qdrant_edge as edge

    # Cold: else the engine reads 33 MB of holes at every opening.
    cold: Any = edge.Memory.Cold
    vectors: Any = edge.EdgeVectorParams(size=size, distance=edge.Distance.Dot, memory=cold)
    return edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors=vectors, payload_memory=cold, wal_enabled=False))


def _record(record: Any) -> Record:
    return Record(str(record.id), record.payload or {}, record.vector)


def _pack(archive: zipfile.ZipFile, source: Path, name: str) -> None:
    """Add the file's parts that are no holes, in order, each under its place; last its length, as an empty part."""
    with source.open("rb") as file:
        length = os.fstat(file.fileno()).st_size
        for start, end in _extents(file.fileno(), length):
            file.seek(start)
            with archive.open(zipfile.ZipInfo(f"{start}/{name}"), "w", force_zip64=True) as part:
                for at in range(start, end, _BLOCK):
                    part.write(file.read(min(_BLOCK, end - at)))
        archive.writestr(zipfile.ZipInfo(f"{length}/{name}"), b"")


def _extents(file: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield where the file's data begin and end; the whole file where the system knows no holes."""
    at = 0
    while at < length:
        try:
            start = os.lseek(file, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # Only a hole is left.
                return
            raise
        at = os.lseek(file, start, os.SEEK_HOLE)
        yield start, at


def _unpack(file: Path, folder: Path) -> None:
    with file.open("rb") as source:
        try:
            with zipfile.ZipFile(source) as archive:
                for part in archive.infolist():
                    _unpack_part(archive, part, folder)
        except Exception as error:
            if isinstance(error, MemoryError) or getattr(error, "errno", 0) in _OUTAGES:
                raise
            raise Damaged(str(error)) from error


def _unpack_part(archive: zipfile.ZipFile, part: zipfile.ZipInfo, folder: Path) -> None:
    place, _, name = part.filename.partition("/")
    if ".." in name or name.startswith("/"):
        raise ValueError(f"{name!r} leads out of the archive")
    if part.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name!r} is compressed")
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("ab") as out:
        out.truncate(int(place))
        out.write(archive.read(part))
