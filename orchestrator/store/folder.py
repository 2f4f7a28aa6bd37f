"""A store in a folder: each tenant has a folder of its own in it, and so a lock, a size and damage of its own.

`tenants/HASH/PART/head.json` names everything that counts, and is replaced as a whole by the last step of a write. So
readers need no lock: they read what one head names, the state before a write or the one after, wherever a writer dies.
A writer has the part's lock. Archives that the head does not name were left by a dead writer; the next write ends them.
What cannot be read stays: a writer fails, or mends the part and sets it aside.
"""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from orchestrator.common.digests import digest
from orchestrator.errors import InvalidConfig, StoreBusy, StoreUnavailable
from orchestrator.store import shard
from orchestrator.store.points import Fields, New, Payload, Points, Record, Vectors
from orchestrator.store.shard import Damaged, Shard

logger = logging.getLogger(__name__)
T = TypeVar("T")
_HEAD, _LOCK = "head.json", "lock"
_POLL_S = 0.005
_SPARE, _BATCH = 1_000, 4_096
_RECENT = 64
"""Appended points that the head holds until they are packed: a head of these is written in milliseconds, an archive of
10,000 points in a third of a second of computing."""
_MEND = {
    "tools": "`toolroute tools import` (or `tools sync`) of the tenant's tools writes it again",
    "experience": "`toolroute experience forget --all` for that tenant begins without any",
}


class Moved(StoreUnavailable):
    """A writer has replaced what was about to be read: read again."""


class _Archive(BaseModel, ser_json_bytes="base64", val_json_bytes="base64"):
    """A collection's file ("": none yet), the length of its vectors, and how many points were put since it was new.

    `recent` are points that are not in the file, or newer than there: payload, and vector.
    """

    file: str = Field(pattern=r"^(\w+\.zip)?$")
    size: int
    puts: int = 0
    recent: dict[str, tuple[dict[str, Any], bytes]] = {}

    def records(self) -> dict[str, Record]:
        return {point: Record(point, own, _vector(row).tolist()) for point, (own, row) in self.recent.items()}


class _Head(BaseModel, extra="forbid"):
    """What counts of a part: collections without vectors as their records, the others by their archives."""

    form: Literal[1] = 1  # Another one where archives change, with the engine's version, too.
    tenant: str
    records: dict[str, dict[str, dict[str, Any]]] = {}
    archives: dict[str, _Archive] = {}


class Folder:
    """The folder, and the way to each tenant's part of it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def part(self, tenant: str, part: str) -> Path:
        """Return the part's folder; its name says nothing, so that any tenant's name is one."""
        return self.tenant(tenant) / part

    def tenant(self, tenant: str) -> Path:
        return self.path / "tenants" / digest(tenant, 32)

    def stamp(self, tenant: str, part: str) -> str:
        """Return what differs after every write to the part."""
        try:
            found = (self.part(tenant, part) / _HEAD).stat()
        except OSError:
            return "none"
        return f"{found.st_ino}.{found.st_mtime_ns}.{found.st_size}"

    @contextmanager
    def reading(self, tenant: str, part: str) -> Iterator[Points]:
        """Give the tenant's points as they are now. Raises Moved where a writer came, InvalidConfig where damaged."""
        place = self.part(tenant, part)
        self._check(place)
        with ExitStack() as open_shards, self._named(tenant, part):
            yield FolderPoints(place, _read_head(place, tenant), open_shards)

    @contextmanager
    def writing(self, tenant: str, part: str, wait_s: float, *, mends: bool = False) -> Iterator[Points]:
        """Give the tenant's points to read and write; all that was written counts from the end of this on.

        mends: what is damaged counts as empty, and is set aside when something is written in its place.
        """
        place = self._made(tenant, part)
        with self._locked(place, wait_s), ExitStack() as open_shards, self._named(tenant, part):
            shard.sweep()
            damaged = list[Path]()
            try:
                head = _read_head(place, tenant)
            except Damaged:
                if not mends:
                    raise
                head, damaged = _Head(tenant=tenant), [place / _HEAD, *place.glob("*.zip")]
            try:
                yield (points := FolderPoints(place, head, open_shards, damaged if mends else None, writable=True))
                points.keep()
            finally:
                _sweep(place, tenant)

    def drop(self, tenant: str, parts: Sequence[str], wait_s: float) -> None:
        """Remove all that these parts hold of the tenant, damaged or not, once nobody writes there."""
        with ExitStack() as locks:
            places = [self._made(tenant, part) for part in parts]
            for place in places:
                locks.enter_context(self._locked(place, wait_s))
                with suppress(Damaged):
                    _read_head(place, tenant)
            for place in places:
                (place / _HEAD).unlink(missing_ok=True)  # First, as what it does not name counts no more.
                for left in place.iterdir():
                    if left.is_dir():
                        shutil.rmtree(left)
                    elif left.name != _LOCK:  # Others may wait for it.
                        left.unlink()
            if set(parts) == _MEND.keys():
                shutil.rmtree(self.tenant(tenant))

    def _check(self, part: Path) -> None:
        """Raise InvalidConfig for what is no store, and for what other users can write."""
        if self.path.exists() and not self.path.is_dir():
            raise InvalidConfig(f"store {str(self.path)!r} cannot be used as a folder: it is a file; name another")
        for place in (self.path, self.path / "tenants", part.parent, part):
            if place.exists() and (why := _foreign(place)):
                raise InvalidConfig(
                    f"store {str(place)!r} {why}, and what they write there is not safe to read: let it be yours "
                    f"alone (`chown -R`, `chmod -R o-w`), or name another with --store"
                )

    @contextmanager
    def _named(self, tenant: str, part: str) -> Iterator[None]:
        """Raise InvalidConfig, with the remedy, for what is damaged."""
        try:
            yield
        except Damaged as error:
            raise InvalidConfig(
                f"what the store {self.path} keeps of {tenant!r} cannot be read ({error}): {_MEND[part]}"
            ) from error

    def _made(self, tenant: str, part: str) -> Path:
        place = self.part(tenant, part)
        self._check(place)
        try:
            for path in (self.path, self.path / "tenants", place.parent, place):
                path.mkdir(mode=0o755, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise InvalidConfig(
                f"store {str(self.path)!r} cannot be used as a folder ({error.strerror}): name one that can be written"
            ) from None
        return place

    @contextmanager
    def _locked(self, place: Path, wait_s: float) -> Iterator[None]:
        from portalocker import Lock, LockException, LockFlags

        flags = LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING
        lock = Lock(place / _LOCK, "ab", timeout=wait_s, check_interval=_POLL_S, flags=flags)
        try:
            lock.acquire()
        except LockException:
            raise StoreBusy(
                f"the store {self.path} stayed locked by another writer for {wait_s:g} s; try again, or keep the "
                "tools in a Qdrant server (--store URL) where many processes write"
            ) from None
        try:
            yield
        finally:
            lock.release()


class FolderPoints(Points):
    """One tenant's points, of one part. Archives are opened when they are needed first, and until the end."""

    def __init__(
        self, place: Path, head: _Head, shards: ExitStack, damaged: list[Path] | None = None, *, writable: bool = False
    ) -> None:
        """damaged: the files that could not be read, where they count as empty."""
        self._place, self._head, self._stack, self._damaged = place, head, shards, damaged
        self._open: dict[str, Shard] = {}
        self._written: set[str] = set()
        self._before = head.model_dump_json() if writable else ""

    def size(self, name: str) -> int | None:
        if name in self._head.records:
            return 0
        return self._head.archives[name].size if name in self._head.archives else None

    def create(self, name: str, size: int = 0) -> None:
        if self.size(name) is not None:
            return
        if size:
            self._head.archives[name] = _Archive(file="", size=size)
        else:
            self._head.records[name] = {}

    def drop(self, name: str) -> None:
        self._head.records.pop(name, None)
        self._head.archives.pop(name, None)
        self._open.pop(name, None)
        self._written.discard(name)

    def get(self, name: str, ids: Sequence[str], *, vectors: bool = False, payload: Fields = True) -> dict[str, Record]:
        if name in self._head.records:
            records = self._head.records[name]
            return {point: Record(point, records[point]) for point in ids if point in records}
        found = self._read(name, lambda opened: opened.get(ids, vectors, payload)) if ids else []
        recent = self._recent(name)
        return {record.id: record for record in found} | {point: recent[point] for point in ids if point in recent}

    def find(self, name: str, *, vectors: bool = False, payload: Fields = True) -> Iterable[Record]:
        if name in self._head.records:
            return [Record(point, record) for point, record in self._head.records[name].items()]
        recent = self._recent(name)
        found = self._read(name, lambda opened: opened.all(vectors, payload))
        return [*(record for record in found if record.id not in recent), *recent.values()]

    def put(self, name: str, points: New, vectors: Vectors | None = None) -> None:
        if name in self._head.records:
            self._head.records[name] |= {point: dict(payload) for point, payload in points.items()}
        elif vectors is not None and points:
            self._changed(name).put(points, vectors)
            archive = self._head.archives[name]
            archive.puts += len(points)
            archive.recent = {point: own for point, own in archive.recent.items() if point not in points}

    def append(self, name: str, points: New, vectors: Vectors) -> None:
        rows = zip(points.items(), vectors.astype(np.float32), strict=True)
        recent = {point: (dict(payload), row.tobytes()) for (point, payload), row in rows}
        recent = {**self._head.archives[name].recent, **recent}
        if len(recent) > _RECENT:
            own = {point: payload for point, (payload, _) in recent.items()}
            self.put(name, own, np.array([_vector(row) for _, row in recent.values()]))
        else:
            self._head.archives[name].recent = recent

    def swap(self, name: str, point: str, payload: Payload, field: str, before: str) -> bool:
        records = self._head.records[name]
        if records.get(point, {}).get(field, before) != before:
            return False
        records[point] = dict(payload)
        return True

    def delete(self, name: str, ids: Sequence[str], *, purge: bool = False) -> None:
        if name in self._head.records:
            for point in ids:
                self._head.records[name].pop(point, None)
        elif ids and name in self._head.archives:
            archive = self._head.archives[name]
            archive.recent = {point: own for point, own in archive.recent.items() if point not in ids}
            self._changed(name).delete(ids)
            if purge:
                self._copy(name)

    def keep(self) -> None:
        """Pack what was written, and let a new head name it."""
        for name in [*self._written]:
            if self._head.archives[name].puts > _SPARE + 2 * self._open[name].count():
                self._copy(name)
        for name in self._written:
            file = f"{os.urandom(8).hex()}.zip"
            self._open[name].pack(self._place / file)
            self._head.archives[name].file = file
        if (text := self._head.model_dump_json()) != self._before:
            if self._damaged:
                _set_aside(self._damaged, self._place)
            _replace(self._place / _HEAD, text)

    def _copy(self, name: str) -> None:
        """Copy the points to a new shard: the engine gives no place of those that are gone to others."""
        points = [*self.find(name, vectors=True)]
        size = self.size(name) or 0
        self.drop(name)
        for start in range(0, len(points), _BATCH):
            part = points[start : start + _BATCH]
            self.create(name, size)
            self.put(name, {r.id: r.payload for r in part}, np.array([r.vector for r in part], np.float32))

    def _read(self, name: str, ask: Callable[[Shard], list[T]]) -> list[T]:
        """Ask the shard; for who mends, what is damaged is empty, and what it writes makes a new one."""
        try:
            opened = self._shard(name)
            return [] if opened is None else ask(opened)
        except Damaged:
            if self._damaged is None:
                raise
            self._open.pop(name, None)
            archive = self._head.archives[name]
            self._damaged.append(self._place / archive.file)
            self._head.archives[name] = archive.model_copy(update={"file": "", "puts": 0})
            return []

    def _recent(self, name: str) -> dict[str, Record]:
        return self._head.archives[name].records() if name in self._head.archives else {}

    def _changed(self, name: str) -> Shard:
        self._read(name, lambda _: [])
        self._written.add(name)
        return self._open[name] if name in self._open else self._opened(name, None)

    def _shard(self, name: str) -> Shard | None:
        file = self._head.archives[name].file if name in self._head.archives else ""
        if name in self._open or not file:
            return self._open.get(name)
        try:
            return self._opened(name, self._place / file)
        except FileNotFoundError:
            if (self._place / file).exists():  # Something else is missing, such as a folder for temporary files.
                raise
            if _read_head(self._place, self._head.tenant).model_dump_json() == (
                self._before or self._head.model_dump_json()
            ):
                raise Damaged(f"{file} is missing") from None
            raise Moved(f"the store {self._place} kept changing while it was read; try again") from None

    def _opened(self, name: str, file: Path | None) -> Shard:
        archive = self._head.archives[name]
        self._open[name] = self._stack.enter_context(shard.opened(file, archive.size))
        return self._open[name]


def _vector(row: bytes) -> NDArray[np.float32]:
    return np.frombuffer(row, np.float32)


def _read_head(place: Path, tenant: str) -> _Head:
    try:
        head = _Head.model_validate_json((place / _HEAD).read_bytes())
    except FileNotFoundError:
        return _Head(tenant=tenant)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where, given = ".".join(map(str, first["loc"])), first["input"]
        if where == "form" and isinstance(given, int) and given > 1:
            raise InvalidConfig(
                f"what {place / _HEAD} keeps of {tenant!r} was written by a newer toolroute (form {given}, this one "
                "reads 1): use that one, or name another store with --store"
            ) from None
        raise Damaged(f"{place / _HEAD} is damaged or of another form: {where or 'content'}: {first['msg']}") from None
    if head.tenant != tenant:
        raise Damaged(f"{place / _HEAD} is {head.tenant!r}'s")
    return head


def _sweep(place: Path, tenant: str) -> None:
    """Remove what the head does not name: left by this writer, or by one that died."""
    with suppress(Damaged):
        named = {archive.file for archive in _read_head(place, tenant).archives.values()}
        for left in [*place.glob("*.zip"), *place.glob("*.tmp")]:
            if left.name not in named:
                left.unlink(missing_ok=True)


def _set_aside(damaged: Sequence[Path], place: Path) -> None:
    aside = Path(tempfile.mkdtemp(prefix="damaged-", dir=place))
    for file in damaged:
        with suppress(FileNotFoundError):  # That may be the damage.
            (shutil.copy if file.name == _HEAD else shutil.move)(file, aside)  # There is always a head.
    logger.warning("what cannot be read is set aside in %s: import or sync again what this write does not bring", aside)


def _replace(path: Path, text: str) -> None:
    """Write the file as a whole: it is the old or the new one, also after a loss of power."""
    new = path.with_suffix(".tmp")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _foreign(place: Path) -> str:
    """Say who else can write the folder; "" for nobody."""
    found = place.stat()
    if found.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user (id {found.st_uid})"
    return "can be written by every user" if found.st_mode & 0o002 else ""
