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

import logging
import os
import shutil
import sqlite3
import stat
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from orchestrator.common.digests import digest
from orchestrator.errors import InvalidConfig, StoreBusy, StoreUnavailable
from orchestrator.store.backend import EXPERIENCE, TOOLS, Backend, Damaged
from orchestrator.store.points import Points
from orchestrator.store.sqlite.files import (
    Irregular,
    NewerForm,
    Watches,
    check_regular,
    clear,
    create_file,
    empty_log,
    files_of,
    open_for_reading,
    open_for_writing,
)
from orchestrator.store.sqlite.points import FORM, SqlitePoints

logger = logging.getLogger(__name__)
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
"""Errors of a lock that another connection holds."""
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")
"""Errors of a file with another content. SQLITE_ERROR means that a table is missing."""
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
        self._watches = Watches()

    def __str__(self) -> str:
        return self.location or "(a temporary folder)"

    @contextmanager
    def reading(self, tenant: str, part: str = TOOLS) -> Iterator[Points]:
        file = self._checked_file(tenant, part)
        with (
            self._named_failures(tenant, part),
            closing(open_for_reading(file, self.timeout_s)) as connection,
        ):
            connection.execute("BEGIN")
            yield SqlitePoints(connection)

    @contextmanager
    def writing(self, tenant: str, part: str = TOOLS) -> Iterator[Points]:
        file = self._made_file(tenant, part)
        with (
            self._named_failures(tenant, part),
            closing(open_for_writing(file, self.timeout_s)) as connection,
        ):
            try:
                yield SqlitePoints(connection)
                connection.commit()
            except BaseException:
                connection.rollback()
                empty_log(connection, file)  # It may fill the disk.
                raise
            empty_log(connection, file)

    def drop(self, tenant: str, part: str) -> None:
        """Remove everything of the tenant in this part, damaged or not.

        An empty file stays, because another writer may wait for its lock. A damaged file is removed.
        """
        file = self._checked_file(tenant, part)
        try:
            if file.exists():
                with self._named_failures(tenant, part):
                    clear(file, self.timeout_s)
        except Damaged:
            for path in files_of(file):
                path.unlink(missing_ok=True)
        # Files that were set aside have the tenant's data, too.
        for aside in file.parent.glob(f"damaged-{part}-*"):
            if aside.is_dir() and not aside.is_symlink():
                shutil.rmtree(aside)
            else:
                aside.unlink()  # A link is removed, and its target stays.

    def set_aside(self, tenant: str, part: str) -> None:
        """Move the part's damaged files to a new folder next to them, and log its path."""
        file = self._checked_file(tenant, part)
        aside = Path(tempfile.mkdtemp(prefix=f"damaged-{part}-", dir=file.parent))
        for path in files_of(file):
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
            check_regular(file)
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
                # Files that this version wrote are beside it, so the remedy removes no other folder.
                raise InvalidConfig(
                    f"store {str(self.path)!r} has files of an earlier toolroute, which this version does not read: "
                    f"export its finished tasks with that version (`toolroute experience export`), remove the folder "
                    f"{str(folder / part)!r}, and run `toolroute tools import` or `tools sync` again, or give another "
                    "folder with --store"
                )

    def _made_file(self, tenant: str, part: str) -> Path:
        file = self._checked_file(tenant, part)
        try:
            for path in (self.path, file.parent.parent, file.parent):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_file(file)
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
        except Irregular as error:
            raise self._damaged(str(error), tenant, part) from None
        except NewerForm as error:
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


def _temporary_folder(owner: object) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="toolroute-"))
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder


def _foreign(status: os.stat_result) -> str:
    """Return a text if other users can write to the folder. Otherwise empty."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user (id {status.st_uid})"
    return "can be written by every user" if status.st_mode & 0o002 else ""
