"""A store in a folder: one SQLite file for each tenant and part.

    STORE/tenants/1f0c.../tools.sqlite        the digest of the tenant's name is the folder
    STORE/tenants/1f0c.../experience.sqlite
    STORE/tenants/1f0c.../index.npz           the saved index of the tools

Each file has two tables:

    collections   name                          size
                  tool_capabilities__static     256
                  tool_catalogues               0
    points        collection, id, payload (JSON), vector (float32), and a checksum of each

SQLite's write-ahead log lets readers keep their state while a writer writes. A file system without shared memory keeps
a rollback journal, and readers then wait for a commit. Deleted data is overwritten (`secure_delete`), and the log is
emptied after each write. Only the user can read the files, and links in place of files and folders are not followed.
"""

import itertools
import json
import logging
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from orchestrator.common.digests import digest
from orchestrator.errors import InvalidConfig, StoreBusy, StoreUnavailable, ToolrouteError
from orchestrator.store.backend import EXPERIENCE, TOOLS, Backend, Damaged
from orchestrator.store.points import Fields, New, Payload, Points, Record, Vectors

logger = logging.getLogger(__name__)
FORM = 3
"""The form of the files (`user_version`). Forms 1 and 2 were text files in the folders `tools` and `experience`."""
_SCHEMA = f"""
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
_BESIDE = ("", "-wal", "-shm", "-journal")
"""The endings of the names of a database's files."""
_READ_ONLY = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_FULL")
"""Errors of a reader in a folder where it cannot make SQLite's log, for example because the disk is full."""
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")
"""Errors of a file with another content. SQLITE_ERROR means that a table is missing."""
_READERS_S = 1.0
"""Seconds that a writer waits for readers before it empties the log."""
_WATCHED = 64
"""The number of files that stay open to notice writes of other processes."""
_FLOATS = np.dtype("<f4")
_REMEDIES = {
    TOOLS: "run `toolroute tools import` (or `tools sync`) to write the tenant's tools again",
    EXPERIENCE: "run `toolroute experience forget --all` for that tenant to start without experience",
}


class SqliteBackend(Backend):
    """The folder of a store. Without a location it is a temporary folder, until `close`."""

    remote = False

    def __init__(self, location: str, timeout_s: float) -> None:
        super().__init__(location, timeout_s)
        self.path = Path(location) if location else _temporary_folder(self)
        self._watches = _Watches()

    def __str__(self) -> str:
        return self.location or "(a temporary folder)"

    @contextmanager
    def reading(self, tenant: str, part: str = TOOLS) -> Iterator[Points]:
        file = self._checked_file(tenant, part)
        with (
            self._named_failures(tenant, part),
            closing(_open_for_reading(file, self.timeout_s)) as connection,
        ):
            connection.execute("BEGIN")
            yield SqlitePoints(connection)

    @contextmanager
    def writing(self, tenant: str, part: str = TOOLS) -> Iterator[Points]:
        file = self._made_file(tenant, part)
        with (
            self._named_failures(tenant, part),
            closing(_open_for_writing(file, self.timeout_s)) as connection,
        ):
            try:
                yield SqlitePoints(connection)
                connection.commit()
            except BaseException:
                connection.rollback()
                _empty_log(connection, file)  # It may fill the disk.
                raise
            _empty_log(connection, file)

    def drop(self, tenant: str, part: str) -> None:
        """Remove everything of the tenant in this part, damaged or not.

        An empty file stays, because another writer may wait for its lock. A damaged file is removed.
        """
        file = self._checked_file(tenant, part)
        try:
            if file.exists():
                with self._named_failures(tenant, part):
                    _clear(file, self.timeout_s)
        except Damaged:
            for path in _files_of(file):
                path.unlink(missing_ok=True)
        for folder in file.parent.glob(f"damaged-{part}-*"):
            shutil.rmtree(folder)

    def set_aside(self, tenant: str, part: str) -> None:
        """Move the part's damaged files to a folder beside them, and log where they are."""
        file = self._checked_file(tenant, part)
        aside = Path(tempfile.mkdtemp(prefix=f"damaged-{part}-", dir=file.parent))
        for path in _files_of(file):
            with suppress(FileNotFoundError):
                path.rename(aside / path.name)
        logger.warning(
            "damaged files were moved to %s; run `toolroute tools import` or `tools sync` for lost tools",
            aside,
        )

    @property
    def exists(self) -> bool:
        try:
            self.path.stat()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unavailable(error) from error
        return True

    def stamp(self, tenant: str, part: str = TOOLS) -> str:
        return self._watches.stamp(
            self._file(tenant, part), lambda: self._checked_file(tenant, part)
        )

    def folder(self, tenant: str) -> Path | None:
        return self._checked_file(tenant, TOOLS).parent if self.location else None

    def close(self) -> None:
        """Close the files. A store without a location is then empty."""
        self._watches.close()
        if not self.location:
            shutil.rmtree(self.path / "tenants", ignore_errors=True)

    def _file(self, tenant: str, part: str) -> Path:
        """Return the file of a tenant's part. The folder is a digest, so a tenant may have any name."""
        return self.path / "tenants" / digest(tenant, 32) / f"{part}.sqlite"

    def _checked_file(self, tenant: str, part: str) -> Path:
        """Return the file of a tenant's part. Its path has no link below the store's folder, and only the user can
        write there.
        """
        file = self._file(tenant, part)
        try:
            self._check_folders(file.parent)
            _check_regular(file)
        except FileNotFoundError:
            return file  # The first write makes it.
        except OSError as error:
            raise self._unavailable(error) from error
        return file

    def _check_folders(self, folder: Path) -> None:
        for path in (self.path, folder.parent, folder):
            # The user chose the store's own folder, so it may be a link.
            status = path.stat() if path == self.path else path.lstat()
            if not stat.S_ISDIR(status.st_mode):
                what = "a link" if stat.S_ISLNK(status.st_mode) else "not a folder"
                raise InvalidConfig(
                    f"store {str(path)!r} cannot be used: it is {what}, and only folders are used; remove it, or give "
                    "another folder with --store"
                )
            if why := _foreign(status):
                raise InvalidConfig(
                    f"store {str(path)!r} {why}, so its content is not safe to read: make yourself its only writer "
                    "(`chown -R`, `chmod -R o-w`), or give another folder with --store"
                )
        for part in (TOOLS, EXPERIENCE):
            if (folder / part / "head.json").exists():
                raise InvalidConfig(
                    f"store {str(self.path)!r} has files of an earlier toolroute, which this version does not read: "
                    f"remove {str(folder.parent)!r} and run `toolroute tools import` or `tools sync` again, or give "
                    "another folder with --store"
                )

    def _made_file(self, tenant: str, part: str) -> Path:
        file = self._checked_file(tenant, part)
        try:
            for path in (self.path, file.parent.parent, file.parent):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(file)
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise InvalidConfig(
                f"store {str(self.path)!r} cannot be used as a folder ({error.strerror}): give a folder that you can "
                "write with --store"
            ) from None
        except OSError as error:
            raise self._unavailable(error) from error
        return file

    @contextmanager
    def _named_failures(self, tenant: str, part: str) -> Iterator[None]:
        """Raise SQLite's errors as ours, with the remedy."""
        try:
            yield
        except sqlite3.Error as error:
            kind = getattr(error, "sqlite_errorname", "")
            if kind.startswith(_BUSY):
                raise StoreBusy(
                    f"the store {self.path} was locked by another writer for {self.timeout_s:g} s; try again, or use a "
                    "Qdrant server (--store URL) if many processes write"
                ) from None
            if kind.startswith(_DAMAGED) or not isinstance(error, sqlite3.OperationalError):
                raise self._damaged(str(error), tenant, part) from error
            why = (
                ""
                if os.access(self._file(tenant, part).parent, os.W_OK)
                else "; the folder cannot be written"
            )
            raise self._unavailable(f"{error}{why}") from error
        except _Irregular as error:
            raise self._damaged(str(error), tenant, part) from None
        except _NewerForm as error:
            raise InvalidConfig(
                f"{self._file(tenant, part)} of tenant {tenant!r} was written by a newer toolroute ({error}, this "
                f"version reads form {FORM}): use the newer version, or give another store with --store"
            ) from None
        except OSError as error:
            raise self._unavailable(error) from error

    def _damaged(self, why: str, tenant: str, part: str) -> Damaged:
        return Damaged(
            f"the store {self.path} cannot be read for tenant {tenant!r} ({why}): {_REMEDIES[part]}"
        )

    def _unavailable(self, error: Exception | str) -> StoreUnavailable:
        return StoreUnavailable(
            f"the store {self} cannot be used: {error}; repair it, or give another with --store or TOOLROUTE_STORE"
        )


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


class _Irregular(OSError):
    """Something other than a file is in a file's place."""


class _NewerForm(Exception):
    """The file has a form that only a newer version reads."""


class _Watch(NamedTuple):
    """A connection that notices writes, the file that it opened, and a number that no other watch has."""

    connection: sqlite3.Connection
    inode: int
    number: int


class _Watches:
    """Open connections to the files that were read last. They notice each write of another connection at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_file: OrderedDict[Path, _Watch] = OrderedDict()
        self._numbers = itertools.count()
        weakref.finalize(self, _close_all, self._by_file)

    def stamp(self, file: Path, check: Callable[[], object]) -> str:
        """Return a text that differs after each write to the file. Empty if it cannot be read.

        Args:
            file: The file.
            check: Raises a ToolrouteError if the file must not be opened.
        """
        try:
            inode = file.lstat().st_ino
        except OSError:
            return "none"
        with self._lock:
            try:
                watch = self._watch(file, inode, check)
                (version,) = watch.connection.execute("PRAGMA data_version").fetchone()
            except (sqlite3.Error, ToolrouteError):
                return ""
        return f"{watch.number}.{version}"

    def close(self) -> None:
        with self._lock:
            _close_all(self._by_file)

    def _watch(self, file: Path, inode: int, check: Callable[[], object]) -> _Watch:
        watch = self._by_file.get(file)
        if watch is None or watch.inode != inode:
            check()
            if watch is not None:
                watch.connection.close()
            connection = sqlite3.connect(
                _uri(file, "mode=rw"), timeout=0, uri=True, check_same_thread=False
            )
            watch = _Watch(connection, inode, next(self._numbers))
            self._by_file[file] = watch
        self._by_file.move_to_end(file)
        if len(self._by_file) > _WATCHED:
            _, oldest = self._by_file.popitem(last=False)
            oldest.connection.close()
        return watch


def _close_all(watches: "OrderedDict[Path, _Watch]") -> None:
    for watch in watches.values():
        watch.connection.close()
    watches.clear()


def _temporary_folder(owner: object) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="toolroute-"))
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder


def _files_of(file: Path) -> list[Path]:
    return [file.with_name(file.name + ending) for ending in _BESIDE]


def _check_regular(file: Path) -> None:
    """Raise Irregular if a link, a pipe or a folder is in the place of one of a database's files.

    The check does not open the file, because closing it would release the locks that this process holds on it.
    """
    for path in _files_of(file):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise _Irregular(f"{path} is not a regular file")


def _create(file: Path) -> None:
    """Create an empty file that only the user can read. SQLite gives its log the same rights."""
    if not file.exists():
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _uri(file: Path, mode: str) -> str:
    return f"{file.absolute().as_uri()}?{mode}"


def _connect(file: Path, mode: str, timeout_s: float) -> sqlite3.Connection:
    return sqlite3.connect(_uri(file, mode), timeout=timeout_s, uri=True, isolation_level=None)


def _form(connection: sqlite3.Connection) -> int:
    """Return the form of the file, 0 if nothing was written yet."""
    (form,) = connection.execute("PRAGMA user_version").fetchone()
    if form > FORM:
        raise _NewerForm(f"form {form}")
    return int(form)


def _open_for_reading(file: Path, timeout_s: float) -> sqlite3.Connection:
    """Open a file. A missing file is read as an empty one."""
    if not file.exists():
        return _nothing()
    try:
        return _opened(file, "mode=rw", timeout_s)
    except sqlite3.Error as error:
        if not error.sqlite_errorname.startswith(_READ_ONLY) or _has_log(file):
            raise
    return _opened(file, "mode=ro&immutable=1", timeout_s)


def _opened(file: Path, mode: str, timeout_s: float) -> sqlite3.Connection:
    connection = _connect(file, mode, timeout_s)
    try:
        if _form(connection):
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    return _nothing()


def _has_log(file: Path) -> bool:
    """Return True if the log has writes that are not in the file yet."""
    log = file.with_name(f"{file.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _nothing() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(_SCHEMA)
    return connection


def _open_for_writing(file: Path, timeout_s: float) -> sqlite3.Connection:
    """Open a file in a transaction that no other writer can have at the same time."""
    connection = _connect(file, "mode=rw", timeout_s)
    try:
        if not _form(connection):
            # Fails if another process makes the file, or if there is no shared memory: the journal stays then.
            with suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        if not _form(connection):
            for statement in filter(str.strip, _SCHEMA.split(";")):
                connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


def _empty_log(connection: sqlite3.Connection, file: Path) -> None:
    """Move the log's content into the file and cut it to nothing, so that deleted data is on no disk.

    The write counts already, so a failure is only logged. The next write tries again.
    """
    try:
        connection.execute(f"PRAGMA busy_timeout = {int(_READERS_S * 1000)}")
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as error:
        logger.warning(
            "%s: the log cannot be emptied, so deleted data stays in it: %s", file, error
        )
    else:
        if busy:
            logger.info(
                "%s: deleted data stays in the log until the next write, because it is being read",
                file,
            )


def _clear(file: Path, timeout_s: float) -> None:
    with closing(_open_for_writing(file, timeout_s)) as connection:
        connection.execute("DELETE FROM points")
        connection.execute("DELETE FROM collections")
        connection.commit()
        connection.execute("VACUUM")
        _empty_log(connection, file)


def _foreign(status: os.stat_result) -> str:
    """Return a text about other users who can write to the folder. Otherwise empty."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user (id {status.st_uid})"
    return "can be written by every user" if status.st_mode & 0o002 else ""


def _row(
    point: str, payload: Payload, vector: bytes | None
) -> tuple[str, str, int, bytes | None, int]:
    text = json.dumps(payload)
    return point, text, zlib.crc32(text.encode()), vector, zlib.crc32(vector or b"")


def _payload(text: str, checksum: int, fields: Fields) -> dict[str, object]:
    """Return a payload, or nothing of it if it is not what was written."""
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
