"""Open Qdrant in memory, in a folder or at a URL, and read and write points there. No tool or tenant in here.

A folder is open only while it is read or written, so that several processes share one; each waits for the others. The
lock is this file's own: the client reads the folder's files before it takes its lock, and might read half a write.
"""

import re
import sqlite3
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import InvalidConfig, StoreBusy, StoreUnavailable, Unauthorised
from orchestrator.options import at_home, store_key

_LOCK = ".toolroute.lock"
_OWN_TURN_S = 5.0
_POLL_S = 0.005
_PAGE = 1_000
_LOCAL_PAGE = 1_000_000
"""Embedded, every page filters all points again."""
_FLOATS = 500_000
"""Numbers of vectors in one request: about 11 MB of JSON, where a Qdrant server takes 32 MB."""

Vectors = NDArray[np.float32]


class Points:
    """An open store: collections of points with a payload and, in most, a vector. Ids are UUIDs as text.

    `stamp` is the store's when it was closed: set after the use.
    """

    stamp = ""

    def __init__(self, client: Any, folder: Path | None = None, *, remote: bool = False) -> None:
        self._client, self._folder, self._remote = client, folder, remote

    def has(self, name: str) -> bool:
        return bool(self._client.collection_exists(name))

    def target(self, alias: str) -> str | None:
        """Return the collection that an alias leads to."""
        aliases = self._client.get_aliases().aliases
        return next((found.collection_name for found in aliases if found.alias_name == alias), None)

    def point(self, alias: str, name: str) -> None:
        """Lead the alias to this collection, in one step."""
        from qdrant_client import models

        forget = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))
        lead = models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=alias))
        self._client.update_collection_aliases([forget, lead] if self.target(alias) else [lead])

    def create(self, name: str, size: int = 0) -> None:
        """Create a collection for vectors of this size (0: without). A Qdrant server indexes the field `tenant`."""
        from qdrant_client import models
        from qdrant_client.http.exceptions import UnexpectedResponse

        shape: Any = models.VectorParams(size=size, distance=models.Distance.DOT) if size else {}
        try:
            self._client.create_collection(name, vectors_config=shape)
        except UnexpectedResponse:
            if not self.has(name):  # Another writer's, made at the same moment.
                raise
        if self._folder is not None:
            _write_ahead(self._folder / "collection" / name / "storage.sqlite")
        if self._remote:
            kind = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            self._client.create_payload_index(name, "tenant", kind)

    def drop(self, name: str) -> None:
        self._client.delete_collection(name)

    def size(self, name: str) -> int:
        """Return the length of the collection's vectors."""
        return int(self._client.get_collection(name).config.params.vectors.size)

    def get(
        self, name: str, ids: Sequence[str], *, vectors: bool = False, payload: bool | list[str] = True
    ) -> dict[str, Any]:
        """Return those of these points that exist, by id; nothing where there is no such collection."""
        from qdrant_client.http.exceptions import UnexpectedResponse

        pages = [ids[start : start + _PAGE] for start in range(0, len(ids), _PAGE)]
        what: Any = {"with_payload": payload, "with_vectors": vectors}
        try:
            return {str(record.id): record for page in pages for record in self._client.retrieve(name, page, **what)}
        except UnexpectedResponse as error:
            if error.status_code != 404:
                raise
        except ValueError:  # The embedded engine's word for it.
            pass
        return {}

    def missing(self, name: str, ids: Sequence[str]) -> list[str]:
        """Return those of these points that do not exist."""
        found = self.get(name, ids, payload=False)
        return [point for point in ids if point not in found]

    def find(self, name: str, tenant: str | None = None, *, payload: bool = True) -> Iterator[Any]:
        """Yield every point, or every one of a tenant."""
        from qdrant_client import models

        own = models.FieldCondition(key="tenant", match=models.MatchValue(value=tenant or ""))
        wanted = models.Filter(must=[own]) if tenant else None
        page, offset = _PAGE if self._remote else _LOCAL_PAGE, None
        while True:
            records, offset = self._client.scroll(name, wanted, limit=page, offset=offset, with_payload=payload)
            yield from records
            if offset is None:
                return

    def put(self, name: str, points: Mapping[str, Mapping[str, Any]], vectors: Vectors | None = None) -> None:
        """Write points, each at once as a whole: id to payload, and the vectors in the same order."""
        ids, size = list(points), 1 if vectors is None else vectors.shape[1]
        rows = max(1, _FLOATS // size) if self._remote else max(1, len(ids))
        for start in range(0, len(ids), rows):
            page = slice(start, start + rows)
            own = {} if vectors is None else vectors[page].tolist()
            self._upsert(name, ids[page], [dict(points[point]) for point in ids[page]], own)

    def swap(self, name: str, point: str, payload: Mapping[str, Any], field: str, before: str) -> bool:
        """Write a point only where this field still says `before`, or where there is no such point yet.

        False if another writer was first. A Qdrant server needs version 1.16.
        """
        from qdrant_client import models

        same = models.FieldCondition(key=field, match=models.MatchValue(value=before))
        self._upsert(name, [point], [dict(payload)], {}, update_filter=models.Filter(must=[same]))
        return bool(self.get(name, [point])[point].payload[field] == payload[field])

    def _upsert(self, name: str, ids: list[str], payloads: list[Any], vectors: Any, **more: Any) -> None:
        from qdrant_client import models

        batch = models.Batch(ids=[*ids], payloads=payloads, vectors=vectors)
        self._client.upsert(name, batch, wait=True, **more)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        if ids:
            self._client.delete(name, list(ids), wait=True)


class Qdrant:
    """A place for points: "" is memory, else a folder or a URL. Safe to use from several threads."""

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

    def __str__(self) -> str:
        """Return the location without credentials."""
        return _shown(self.location) or "in memory"

    @contextmanager
    def opened(self, wait_s: float | None = None, *, make: bool = False) -> Iterator[Points]:
        """Give the points, for this use alone; do not nest. StoreBusy when others keep them beyond `wait_s`.

        Only a writer has a folder made; without one there is nothing to read.
        """
        wait_s = self._timeout_s if wait_s is None else wait_s
        try:
            if self.remote:
                yield Points(self._kept_client(), remote=True)
            else:
                # Another thread's turn is short, and what it writes must not be missed without a warning.
                with self._my_turn(max(wait_s, _OWN_TURN_S)), self._local_points(wait_s, make) as points:
                    yield points
        except _outages() as error:
            raise self._failure(error) from error

    @property
    def exists(self) -> bool:
        """Tell whether it may hold anything. StoreUnavailable where one cannot look."""
        try:
            return self.folder is None or self.folder.exists()
        except OSError as error:
            raise self._failure(error) from error

    def stamp(self) -> str:
        """Return what is cheap to ask and differs after every write; "" where only opening can tell."""
        if self.remote:
            return ""
        if self.folder is None:
            return f"memory {self._written}"
        try:
            files = (self.folder / "meta.json", *sorted(self.folder.glob("collection/*/storage.sqlite*")))
        except OSError:  # Opening it says so.
            return ""
        return " ".join(filter(None, map(_file_stamp, files)))

    def wrote(self) -> None:
        """Note a change of what readers read."""
        self._written += 1

    def close(self) -> None:
        """Close the client; a later use opens it again (and a store in memory is then empty)."""
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
            raise StoreBusy(f"the store {self} stayed in use by another thread for {wait_s:g} s; try again")
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _local_points(self, wait_s: float, make: bool) -> Iterator[Points]:
        # A folder of 20,000 points and more works, with the times that `make bench` shows.
        warnings.filterwarnings("ignore", "Local mode is not recommended", UserWarning)
        if self.folder is None:
            yield (points := Points(self._kept_client()))
            points.stamp = self.stamp()
        elif make or self.exists:
            with self._locked(self.folder, wait_s):
                with closing(self._open(self.folder)) as client:
                    yield (points := Points(client, self.folder))
                points.stamp = self.stamp()
        else:
            with closing(_in_memory()) as empty:
                yield Points(empty)

    @contextmanager
    def _locked(self, folder: Path, wait_s: float) -> Iterator[None]:
        from portalocker import Lock, LockException, LockFlags

        flags = LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING
        lock = Lock(folder / _LOCK, "ab", timeout=wait_s, check_interval=_POLL_S, flags=flags)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except LockException:
            raise StoreBusy(
                f"the store {self} stayed locked by another process for {wait_s:g} s; try again, or keep the tools in "
                "a Qdrant server (--store URL) where many processes write"
            ) from None
        except OSError as error:
            raise InvalidConfig(
                f"store {str(folder)!r} cannot be used as a folder ({error.strerror}): name one that can be written"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _open(self, folder: Path) -> Any:
        from qdrant_client import QdrantClient

        try:
            return QdrantClient(path=str(folder))
        except RuntimeError as error:  # Held by a program that opens it without this lock, among others.
            raise StoreUnavailable(f"the store {self} cannot be opened: {error}") from error
        except (ValueError, KeyError) as error:  # A broken meta.json.
            raise StoreUnavailable(
                f"the store {self} cannot be read ({error}): move the folder away and import the tools again"
            ) from error

    def _kept_client(self) -> Any:
        with self._making:  # Not `_turn`, which the users of a server do not take.
            if self._client is None:
                self._client = self._remote_client() if self.remote else _in_memory()
            return self._client

    def _remote_client(self) -> Any:
        from qdrant_client import QdrantClient

        timeout = max(1, round(self._timeout_s))
        try:  # It warns of a key that goes unencrypted. Its own check would ask from a thread of its own.
            return QdrantClient(url=self.location, api_key=store_key(), timeout=timeout, check_compatibility=False)
        except ValueError:  # Its message holds the address, credentials and all.
            raise InvalidConfig(
                f"store {str(self)!r} is no address: give http://HOST:PORT or https://HOST, the port up to 65535"
            ) from None


def _in_memory() -> Any:
    from qdrant_client import QdrantClient

    return QdrantClient(":memory:")


def _shown(text: str) -> str:
    """Return the text without the credentials of addresses in it."""
    return re.sub(r"//[^/@]*@", "//", text)


def _write_ahead(file: Path) -> None:
    """Use SQLite's write-ahead log: as safe, and a point takes 0.14 ms instead of 1.8 (measured on one machine)."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")


def _file_stamp(file: Path) -> str:
    """Return the file's last change; "" where it holds nothing, as logs do that come and go while a folder is read."""
    try:
        found = file.stat()
    except OSError:
        return ""
    return "" if file.name.endswith("-shm") or not found.st_size else f"{found.st_mtime_ns}.{found.st_size}"


def _outages() -> tuple[type[Exception], ...]:
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    return ResponseHandlingException, UnexpectedResponse, ResourceExhaustedResponse, OSError, sqlite3.Error
