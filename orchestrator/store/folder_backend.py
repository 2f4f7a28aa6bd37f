"""A store in a folder. Each tenant has its own subfolder, and so its own lock, its own size and its own damage.

`tenants/HASH/PART/head.json` names everything that counts. The last step of a write replaces this file. Readers need no
lock: they read the files that one head names, the state before a write or after it, even if a writer dies. A writer has
the part's lock. Files that the head does not name were left by a dead writer, and the next write removes them. Files
that cannot be read stay: a writer either fails, or repairs the part and sets them aside.

A collection with vectors is a text file that is read as a whole. Each line is a point: its id, its vector in base64,
and its payload as JSON. The head has the number of bytes that count and their checksum. New points are appended, and a
later line replaces an earlier line with the same id. Removing points writes a new file.
"""

import binascii
import json
import logging
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from orchestrator.common.digests import digest
from orchestrator.common.regular import Irregular, regular
from orchestrator.errors import InvalidConfig, StoreBusy, StoreUnavailable
from orchestrator.store.points import Fields, New, Payload, Points, Record, Vectors

logger = logging.getLogger(__name__)
_HEAD, _LOCK = "head.json", "lock"
_POLL_S = 0.005
_FLOATS = np.dtype("<f4")
_MEND = {
    "tools": "run `toolroute tools import` (or `tools sync`) to write the tenant's tools again",
    "experience": "run `toolroute experience forget --all` for that tenant to start without experience",
}


class Moved(StoreUnavailable):
    """A writer replaced a file that was about to be read. The reader must read again."""


class Damaged(Exception):
    """A file does not have the content that was written."""


class _Collection(BaseModel):
    """A collection: its file (empty: none yet), the length of its vectors, the bytes that count, and their checksum."""

    file: str = Field(default="", pattern=r"^(\w+\.points)?$")
    size: int = Field(gt=0)
    length: int = Field(default=0, ge=0)
    checksum: int = 0


class _Head(BaseModel, extra="forbid"):
    """The content of a part: collections without vectors as records, the others as files."""

    form: Literal[2] = 2
    tenant: str
    records: dict[str, dict[str, dict[str, Any]]] = {}
    collections: dict[str, _Collection] = {}


class Folder:
    """The folder of a store, with a subfolder for each tenant."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def part(self, tenant: str, part: str) -> Path:
        """Return the folder of a tenant's part. Its name is a hash, so a tenant may have any name."""
        return self.tenant(tenant) / part

    def tenant(self, tenant: str) -> Path:
        return self.path / "tenants" / digest(tenant, 32)

    def stamp(self, tenant: str, part: str) -> str:
        """Return a text that differs after every write to the part."""
        try:
            found = (self.part(tenant, part) / _HEAD).stat()
        except OSError:
            return "none"
        return f"{found.st_ino}.{found.st_mtime_ns}.{found.st_size}"

    @contextmanager
    def reading(self, tenant: str, part: str) -> Iterator[Points]:
        """Open the tenant's current points for reading.

        Raises:
            Moved: A writer came in between.
            InvalidConfig: The part is damaged.
        """
        place = self.part(tenant, part)
        self._check(place)
        with self._named(tenant, part):
            yield FolderPoints(place, _read_head(place, tenant))

    @contextmanager
    def writing(self, tenant: str, part: str, wait_s: float, *, mends: bool = False) -> Iterator[Points]:
        """Open the tenant's points for reading and writing. Everything that was written counts from the end of the
        context.

        Args:
            tenant: The tenant.
            part: The part.
            wait_s: Seconds to wait for the lock.
            mends: Treat damaged files as empty. They are set aside when something is written in their place.
        """
        place = self._made(tenant, part)
        with self._locked(place, wait_s), self._named(tenant, part):
            damaged = list[Path]()
            try:
                head = _read_head(place, tenant)
            except Damaged:
                if not mends:
                    raise
                head, damaged = _Head(tenant=tenant), [place / _HEAD, *place.glob("*.points")]
            try:
                yield (points := FolderPoints(place, head, damaged if mends else None, writable=True))
                points.keep()
            finally:
                _sweep(place, tenant)

    def drop(self, tenant: str, parts: Sequence[str], wait_s: float) -> None:
        """Remove everything of the tenant in these parts, damaged or not. It waits for other writers.

        Args:
            tenant: The tenant.
            parts: The parts.
            wait_s: Seconds to wait for each lock.
        """
        with ExitStack() as locks:
            places = [self._made(tenant, part) for part in parts]
            for place in places:
                locks.enter_context(self._locked(place, wait_s))
                with suppress(Damaged):
                    _read_head(place, tenant)
            for place in places:
                (place / _HEAD).unlink(missing_ok=True)  # First, because without it the other files no longer count.
                for left in place.iterdir():
                    if left.is_dir():
                        shutil.rmtree(left)
                    elif left.name != _LOCK:  # Other writers may wait for it.
                        left.unlink()
            if set(parts) == _MEND.keys():
                shutil.rmtree(self.tenant(tenant))

    def _check(self, part: Path) -> None:
        """Raise InvalidConfig if the place is not a folder, or if other users can write to it."""
        if self.path.exists() and not self.path.is_dir():
            raise InvalidConfig(f"store {str(self.path)!r} cannot be used: it is a file; give a folder with --store")
        for place in (self.path, self.path / "tenants", part.parent, part):
            if place.exists() and (why := _foreign(place)):
                raise InvalidConfig(
                    f"store {str(place)!r} {why}, so its content is not safe to read: make yourself its only writer "
                    f"(`chown -R`, `chmod -R o-w`), or give another folder with --store"
                )

    @contextmanager
    def _named(self, tenant: str, part: str) -> Iterator[None]:
        """Turn Damaged into InvalidConfig, with the remedy."""
        try:
            yield
        except Damaged as error:
            raise InvalidConfig(
                f"the store {self.path} cannot be read for tenant {tenant!r} ({error}): {_MEND[part]}"
            ) from error

    def _made(self, tenant: str, part: str) -> Path:
        place = self.part(tenant, part)
        self._check(place)
        try:
            for path in (self.path, self.path / "tenants", place.parent, place):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise InvalidConfig(
                f"store {str(self.path)!r} cannot be used as a folder ({error.strerror}): give a folder that you can "
                "write with --store"
            ) from None
        return place

    @contextmanager
    def _locked(self, place: Path, wait_s: float) -> Iterator[None]:
        from portalocker import Lock, LockException, LockFlags

        flags = LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING
        lock = Lock(place / _LOCK, "a+b", wait_s, _POLL_S, flags=flags, opener=regular)
        try:
            lock.acquire()
        except LockException:
            raise StoreBusy(
                f"the store {self.path} was locked by another writer for {wait_s:g} s; try again, or use a Qdrant "
                "server (--store URL) if many processes write"
            ) from None
        try:
            yield
        finally:
            lock.release()


class FolderPoints(Points):
    """One tenant's points of one part. A file is read when it is first needed."""

    def __init__(self, place: Path, head: _Head, damaged: list[Path] | None = None, *, writable: bool = False) -> None:
        """Create the points.

        Args:
            place: The folder of the part.
            head: Its head.
            damaged: The files that could not be read and count as empty. None: damage is an error.
            writable: Whether the points are for a writer.
        """
        self._place, self._head, self._damaged = place, head, damaged
        self._read: dict[str, dict[str, bytes]] = {}
        """The current collections: the rest of each point's line, by id."""
        self._new: dict[str, dict[str, bytes]] = {}
        """Points to append."""
        self._changed: set[str] = set()
        """Collections that need a new file."""
        self._before = head.model_dump_json() if writable else ""

    def size(self, name: str) -> int | None:
        if name in self._head.records:
            return 0
        return self._head.collections[name].size if name in self._head.collections else None

    def create(self, name: str, size: int = 0) -> None:
        if self.size(name) is not None:
            return
        if size:
            self._head.collections[name] = _Collection(size=size)
        else:
            self._head.records[name] = {}

    def drop(self, name: str) -> None:
        for kept in (self._head.records, self._head.collections, self._read, self._new):
            kept.pop(name, None)
        self._changed.discard(name)

    def get(self, name: str, ids: Sequence[str], *, vectors: bool = False, payload: Fields = True) -> dict[str, Record]:
        if name in self._head.records:
            records = self._head.records[name]
            return {point: Record(point, records[point]) for point in ids if point in records}
        rows, size = self._rows(name) if ids else {}, self.size(name) if vectors else None
        return {point: _record(point, rows[point], size, payload) for point in ids if point in rows}

    def find(self, name: str, *, vectors: bool = False, payload: Fields = True) -> Iterable[Record]:
        points = [*(self._head.records.get(name) or self._rows(name))]
        return self.get(name, points, vectors=vectors, payload=payload).values()

    def put(self, name: str, points: New, vectors: Vectors | None = None) -> None:
        if name in self._head.records:
            self._head.records[name] |= {point: dict(payload) for point, payload in points.items()}
        elif vectors is not None and points:
            rows = zip(points.items(), vectors.astype(_FLOATS), strict=True)
            new = {point: _row(row.tobytes(), payload) for (point, payload), row in rows}
            self._new[name] = self._new.get(name, {}) | new
            self._read.get(name, {}).update(new)

    def swap(self, name: str, point: str, payload: Payload, before: str | None) -> bool:
        records = self._head.records[name]
        if before is not None and records.get(point, {}).get("state", before) != before:
            return False
        records[point] = dict(payload)
        return True

    def delete(self, name: str, ids: Sequence[str]) -> None:
        kept: dict[str, Any] = self._head.records[name] if name in self._head.records else self._rows(name)
        gone = [point for point in ids if kept.pop(point, None) is not None]
        if gone and name in self._head.collections:
            self._changed.add(name)

    def keep(self) -> None:
        """Write the changes, and replace the head so that they count."""
        for name in self._changed:
            self._head.collections[name] = _Collection(size=self._head.collections[name].size)
        for name, rows in {**self._new, **{name: self._read[name] for name in self._changed}}.items():
            if rows:
                _append(self._place, self._head.collections[name], rows)
        if (text := self._head.model_dump_json()) != self._before:
            if self._damaged:
                _set_aside(self._damaged, self._place)
            _replace(self._place / _HEAD, text)

    def _rows(self, name: str) -> dict[str, bytes]:
        """Return the collection's rows. For a writer that repairs, a damaged file is empty and gets a new file."""
        if name not in self._head.collections or name in self._read:
            return self._read.get(name, {})
        own = self._head.collections[name]
        try:
            lines = self._content(own).splitlines()
        except Damaged:
            if self._damaged is None:
                raise
            self._damaged.append(self._place / own.file)
            self._head.collections[name], lines = _Collection(size=own.size), []
        parts = (line.partition(b" ") for line in lines)
        new = self._new.get(name, {})
        rows = {point.decode("utf-8", "replace"): row for point, _, row in parts} | new
        if len(rows) < len(lines) + len(new):
            self._changed.add(name)  # Otherwise the file would have some points twice.
        self._read[name] = rows
        return rows

    def _content(self, own: _Collection) -> bytes:
        if not own.file:
            return b""
        try:
            content = _read(self._place / own.file, own.length)
        except FileNotFoundError:
            if _read_head(self._place, self._head.tenant).model_dump_json() == (
                self._before or self._head.model_dump_json()
            ):
                raise Damaged(f"{own.file} is missing") from None
            raise Moved(f"the store {self._place} changed while it was read; try again") from None
        if len(content) < own.length or zlib.crc32(content) != own.checksum:
            raise Damaged(f"{own.file} does not have the content that was written")
        return content


def _row(vector: bytes, payload: Payload) -> bytes:
    return binascii.b2a_base64(vector, newline=False) + b" " + json.dumps(payload).encode()


def _record(point: str, row: bytes, size: int | None, fields: Fields) -> Record:
    """Return a point, with its vector if a size is given. Parts of its line that cannot be read are left out."""
    numbers, _, text = row.partition(b" ")
    payload, vector = dict[str, Any](), None
    with suppress(ValueError, RecursionError):
        if fields:
            payload = json.loads(text)
        if size is not None:
            vector = np.frombuffer(binascii.a2b_base64(numbers), _FLOATS, size)
    if isinstance(fields, list):
        payload = {field: payload[field] for field in fields if field in payload}
    return Record(point, payload, vector)


def _append(place: Path, own: _Collection, rows: Mapping[str, bytes]) -> None:
    """Append rows to a file, after the bytes that count. They are on the disk when this returns."""
    data = b"".join(b"%s %s\n" % (point.encode(), row) for point, row in rows.items())
    path = place / (own.file or f"{os.urandom(8).hex()}.points")
    if own.file and not (path.is_file() and path.stat().st_size >= own.length):
        raise Damaged(f"{own.file} is missing or cut")
    with open(path, "r+b" if own.file else "xb", opener=regular) as file:
        file.truncate(own.length)  # A writer that died may have left more.
        file.seek(own.length)
        _finish(file, data)
    own.file = path.name
    own.length, own.checksum = own.length + len(data), zlib.crc32(data, own.checksum)


def _read_head(place: Path, tenant: str) -> _Head:
    try:
        head = _Head.model_validate_json(_read(place / _HEAD))
    except FileNotFoundError:
        return _Head(tenant=tenant)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where, given = ".".join(map(str, first["loc"])), first["input"]
        if where == "form" and isinstance(given, int) and given > 2:
            raise InvalidConfig(
                f"{place / _HEAD} of tenant {tenant!r} was written by a newer toolroute (form {given}, this version "
                "reads form 2): use the newer version, or give another store with --store"
            ) from None
        raise Damaged(f"{place / _HEAD} is damaged: {where or 'content'}: {first['msg']}") from None
    if head.tenant != tenant:
        raise Damaged(f"{place / _HEAD} belongs to tenant {head.tenant!r}")
    return head


def _sweep(place: Path, tenant: str) -> None:
    """Remove the files that the head does not name. This writer or a dead one left them."""
    with suppress(Damaged):
        named = {own.file for own in _read_head(place, tenant).collections.values()}
        for left in [*place.glob("*.points"), *place.glob("*.tmp")]:
            if left.name not in named:
                left.unlink(missing_ok=True)


def _set_aside(damaged: Sequence[Path], place: Path) -> None:
    aside = Path(tempfile.mkdtemp(prefix="damaged-", dir=place))
    for file in damaged:
        with suppress(FileNotFoundError):  # The damage may be that the file is missing.
            stays = file.name == _HEAD and file.is_file()  # There must always be a head.
            (shutil.copy if stays else shutil.move)(file, aside)
    logger.warning("damaged files were moved to %s; run `toolroute tools import` or `tools sync` for lost tools", aside)


def _replace(path: Path, text: str) -> None:
    """Replace the file. It has the old or the new content, also after a loss of power."""
    new = path.with_name(f"{os.urandom(8).hex()}.tmp")
    with open(new, "xb", opener=regular) as file:
        _finish(file, text.encode())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _finish(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _read(path: Path, length: int | None = None) -> bytes:
    """Return the file's content, or its first bytes.

    Raises:
        Damaged: The path is not a regular file.
    """
    try:
        with open(path, "rb", opener=regular) as file:
            return file.read() if length is None else file.read(min(length, os.fstat(file.fileno()).st_size))
    except Irregular as error:
        raise Damaged(f"{path.name} is {error.strerror}") from None


def _foreign(place: Path) -> str:
    """Return a text about other users who can write to the folder. Otherwise empty."""
    found = place.stat()
    if found.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user (id {found.st_uid})"
    return "can be written by every user" if found.st_mode & 0o002 else ""
