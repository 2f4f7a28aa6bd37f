"""SQLite files of a store: they are opened, emptied, and watched for the writes of other processes."""

import itertools
import logging
import os
import sqlite3
import stat
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from orchestrator.errors import ToolrouteError
from orchestrator.store.sqlite.points import FORM, SCHEMA

logger = logging.getLogger(__name__)
_BESIDE = ("", "-wal", "-shm", "-journal")
"""The endings of the names of a database's files."""
_READ_ONLY = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_FULL")
"""Errors of a reader in a folder where it cannot make SQLite's log, for example because the disk is full."""
_READERS_S = 1.0
"""Seconds that a writer waits for readers before it empties the log."""
_WATCHED = 64
"""The number of files that stay open to notice writes of other processes."""


class Irregular(OSError):
    """Something other than a file is in a file's place."""


class NewerForm(Exception):
    """The file has a form that only a newer version reads."""


class _Watch(NamedTuple):
    """A connection that notices writes, the file that it opened, and a number that no other watch has."""

    connection: sqlite3.Connection
    inode: int
    number: int


class Watches:
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


def files_of(file: Path) -> list[Path]:
    return [file.with_name(file.name + ending) for ending in _BESIDE]


def check_regular(file: Path) -> None:
    """Raise Irregular if a link, a pipe or a folder is in the place of one of a database's files.

    The check does not open the file, because closing it would release the locks that this process holds on it.
    """
    for path in files_of(file):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise Irregular(f"{path} is not a regular file")


def create_file(file: Path) -> None:
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
        raise NewerForm(f"form {form}")
    return int(form)


def open_for_reading(file: Path, timeout_s: float) -> sqlite3.Connection:
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
    connection.close()  # A writer has just made the file, and written nothing yet.
    return _nothing()


def _has_log(file: Path) -> bool:
    """Return True if the log has writes that are not in the file yet."""
    log = file.with_name(f"{file.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _nothing() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(SCHEMA)
    return connection


def open_for_writing(file: Path, timeout_s: float) -> sqlite3.Connection:
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
            for statement in filter(str.strip, SCHEMA.split(";")):
                connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


def empty_log(connection: sqlite3.Connection, file: Path) -> None:
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


def clear(file: Path, timeout_s: float) -> None:
    with closing(open_for_writing(file, timeout_s)) as connection:
        connection.execute("DELETE FROM points")
        connection.execute("DELETE FROM collections")
        connection.commit()
        connection.execute("VACUUM")
        empty_log(connection, file)
