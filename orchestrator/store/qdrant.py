"""Qdrant, opened in memory, in a folder or at a URL.

A folder is open only while it is read or written, so that several processes live on one; each waits for the others.
The lock is this file's own: the client reads the folder's files before it takes its lock, so that what it read may be
half of another process's write.
"""

import logging
import re
import sqlite3
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

from orchestrator.errors import InvalidConfig, StoreUnavailable, Unauthorised
from orchestrator.options import at_home, store_key
from orchestrator.store.client import Points
from orchestrator.store.news import News, Write

logger = logging.getLogger(__name__)

_LOCK = ".toolroute.lock"
_POLL_S = 0.005


class Busy(StoreUnavailable):
    """Another process, or another thread, holds the folder."""


class Qdrant:
    """Where the points are: "" is memory, else a folder or a URL. Safe to use from several threads."""

    def __init__(self, location: str, timeout_s: float) -> None:
        self.location = location = at_home(location)
        self.remote = location.startswith(("http://", "https://"))
        if "://" in location and not self.remote:
            raise InvalidConfig(f"store {str(self)!r}: give a folder, or a Qdrant server's http:// or https:// address")
        self.folder = Path(location) if location and not self.remote else None
        self._timeout_s = timeout_s
        self._turn, self._making = threading.Lock(), threading.Lock()
        self._client: Any = None
        self._written = 0
        self._news = News(self.folder) if self.folder else None
        self._writes: list[Write | None] = []

    def __str__(self) -> str:
        """The location without credentials."""
        return _shown(self.location) or "in memory"

    @contextmanager
    def opened(self, wait_s: float | None = None, *, make: bool = False) -> Iterator[Points]:
        """The points, for this use alone; do not nest. Raises Busy when others keep them longer than `wait_s`.

        Only who writes has a folder made; without one there is nothing to read.
        """
        wait_s = self._timeout_s if wait_s is None else wait_s
        try:
            if self.remote:
                yield Points(self._kept_client(), remote=True)
            else:
                with self._my_turn(wait_s), self._local_client(wait_s, make) as client:
                    yield Points(client, self.folder)
        except _outages() as error:
            raise self._failure(error) from error

    @property
    def exists(self) -> bool:
        """Whether it may hold anything: a folder is made by the first write. StoreUnavailable where one cannot look."""
        try:
            return self.folder is None or self.folder.exists()
        except OSError as error:
            raise self._failure(error) from error

    def stamp(self) -> str:
        """Cheap to ask, and another one after every write; "" where only opening can tell."""
        if self.remote:
            return ""
        if self.folder is None:
            return f"memory {self._written}"
        try:
            files = (self.folder / "meta.json", *sorted(self.folder.glob("collection/*/storage.sqlite*")))
        except OSError:  # Who opens it is told.
            return ""
        return " ".join(filter(None, map(_file_stamp, files)))

    def wrote(self, write: Write | None = None) -> None:
        """To be called after what changes what readers read; the write is told to those of a folder."""
        self._written += 1
        if self._news:
            self._writes.append(write)

    def news(self, stamp: str) -> tuple[str, list[Write]] | None:
        """The stamp now and what was written since that one, without opening; None where that cannot be known."""
        told = self._news.since(stamp) if self._news else None
        return told if told and told[0] == self.stamp() else None

    def close(self) -> None:
        """Closes the client; a later use opens it again (and a store in memory is then empty)."""
        with self._turn, self._making:
            if self._client is not None:
                self._client.close()
                self._client = None
                self._written += 1

    def _failure(self, error: Exception) -> StoreUnavailable | Unauthorised:
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            return Unauthorised(f"the store {self} refuses the key: set QDRANT_API_KEY to one that may read and write")
        cause = getattr(error, "source", None) or error
        why = f"HTTP status {status}" if status else _shown(str(cause)) or type(cause).__name__
        remedy = f"{'start it, or ' if self.remote else ''}name another with --store or TOOLROUTE_STORE"
        return StoreUnavailable(f"the store {self} does not answer: {why}; {remedy}")

    @contextmanager
    def _my_turn(self, wait_s: float) -> Iterator[None]:
        if not self._turn.acquire(timeout=wait_s):
            raise Busy(f"the store {self} stayed in use by another thread for {wait_s:g} s; try again")
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _local_client(self, wait_s: float, make: bool) -> Iterator[Any]:
        # A folder of 20,000 points and more works, with the times that `make bench` shows; no need to tell each time.
        warnings.filterwarnings("ignore", "Local mode is not recommended", UserWarning)
        if self.folder is None:
            yield self._kept_client()
            return
        if not (make or self.exists):
            with closing(_in_memory()) as empty:
                yield empty
            return
        with self._locked(self.folder, time.monotonic() + wait_s, wait_s):
            before, self._writes = self.stamp(), []
            client = self._open(self.folder, time.monotonic() + wait_s, wait_s)
            try:
                yield client
            finally:
                client.close()
            if self._news:  # Not after an error: it may have come before the write was told.
                self._news.add(before, self.stamp(), self._writes)

    @contextmanager
    def _locked(self, folder: Path, deadline: float, wait_s: float) -> Iterator[None]:
        import portalocker

        with _lock_file(folder) as file:
            while True:
                try:
                    portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
                    break
                except portalocker.LockException:
                    self._wait(deadline, wait_s)
            try:
                yield
            finally:
                portalocker.unlock(file)

    def _open(self, folder: Path, deadline: float, wait_s: float) -> Any:
        from qdrant_client import QdrantClient

        while True:
            try:
                return QdrantClient(path=str(folder))
            except RuntimeError as error:
                if "already accessed" not in str(error):
                    raise StoreUnavailable(f"the store {self} cannot be opened: {error}") from error
            except (ValueError, KeyError) as error:  # A broken meta.json.
                raise StoreUnavailable(
                    f"the store {self} cannot be read ({error}): move the folder away and import the tools again"
                ) from error
            self._wait(deadline, wait_s)

    def _wait(self, deadline: float, wait_s: float) -> None:
        if time.monotonic() >= deadline:
            raise Busy(
                f"the store {self} stayed locked by another process for {wait_s:g} s; try again, or keep the tools in "
                "a Qdrant server (--store URL) where many processes write"
            )
        time.sleep(_POLL_S)

    def _kept_client(self) -> Any:
        with self._making:  # Not in turns, which those who search a server do not take.
            if self._client is None:
                self._client = self._remote_client() if self.remote else _in_memory()
            return self._client

    def _remote_client(self) -> Any:
        from qdrant_client import QdrantClient

        key = store_key()
        if key and self.location.startswith("http://"):
            logger.warning("QDRANT_API_KEY goes to the store %s unencrypted: give it an https address", self)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Api key is used with an insecure connection")  # Said above.
            try:
                return QdrantClient(
                    url=self.location,
                    api_key=key,
                    timeout=max(1, round(self._timeout_s)),
                    check_compatibility=False,  # It would ask from a thread of its own, and warn there.
                )
            except ValueError:  # It tells the address, credentials and all.
                raise InvalidConfig(
                    f"store {str(self)!r} is no address: give http://HOST:PORT or https://HOST, the port up to 65535"
                ) from None


def _in_memory() -> Any:
    from qdrant_client import QdrantClient

    return QdrantClient(":memory:")


def _shown(text: str) -> str:
    """The text without the credentials of addresses in it."""
    return re.sub(r"//[^/@]*@", "//", text)


def _lock_file(folder: Path) -> IO[bytes]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / _LOCK).open("ab")
    except OSError as error:
        raise InvalidConfig(
            f"store {str(folder)!r} cannot be used as a folder ({error.strerror}): name one that can be written"
        ) from None


def _file_stamp(file: Path) -> str:
    """The file's last change; "" where it holds nothing, as logs do that come and go while a folder is read."""
    try:
        found = file.stat()
    except OSError:
        return ""
    return "" if file.name.endswith("-shm") or not found.st_size else f"{found.st_mtime_ns}.{found.st_size}"


def _outages() -> tuple[type[Exception], ...]:
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    return ResponseHandlingException, UnexpectedResponse, ResourceExhaustedResponse, OSError, sqlite3.Error
