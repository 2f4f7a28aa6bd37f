"""The Store: Qdrant as the record of every tenant's tools and their vectors; in memory, in a folder, or at a URL.

A tool's point is named by its definition, so writing never changes what a reader reads. One further point a server, its
meta record, says what the server's tools are and is flipped last: readers see the old set or the new one, never a
mixture. A writer that dies in between leaves points that no meta record names; the server's next write removes them.

A folder is open only while it is read or written, so that several processes live on one; each waits for the others.
"""

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue import tool_from, tool_to_json
from orchestrator.embed import Embedder, Vectors
from orchestrator.errors import InvalidConfig, StoreUnavailable, UnknownTenant
from orchestrator.models import Tool
from orchestrator.names import COLLECTION
from orchestrator.options import store_key
from orchestrator.text import card

SHARED = "shared"
"""The tenant whose tools are copied into every other tenant's catalogue."""

_SPACE = uuid.UUID("6f0e9d5c-6f0b-4b55-9d0c-0b1f6a3c7a11")
_BATCH = 256
_STAMP = "toolroute.stamp"
_ATTEMPTS = 5

Progress = Callable[[int, int], None]
"""Called with the tools written so far and the tools to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a write did to a server's tools, by name."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    same: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A tenant's tools ordered by server and name, their vectors [tools, dimension], and the set's version.

    `vectors` is None where the stored ones are another embedder's; `note` then says so, and the remedy.
    """

    tools: tuple[Tool, ...]
    vectors: NDArray[np.float32] | None
    version: str
    note: str = ""


class Store:
    """Tools by tenant. All methods block (call them in a thread from async code) and may be called from any thread."""

    def __init__(
        self,
        location: str | Path | None = None,
        *,
        embedder: Embedder | Callable[[], Embedder],
        timeout_s: float = 10.0,
    ) -> None:
        self.location = "" if location is None else str(location)
        self._embedder = embedder
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._client: Any = None
        self._versions: dict[str, tuple[str, str]] = {}

    @property
    def embedder(self) -> Embedder:
        """The embedder, opened on first use."""
        if callable(self._embedder):
            self._embedder = self._embedder()
        return self._embedder

    @property
    def remote(self) -> bool:
        return self.location.startswith(("http://", "https://"))

    # --- reading

    def version(self, tenant: str) -> str:
        """A digest of what the tenant's servers hold; read from a stamp file alone while nothing was written."""
        stamp = self._stamp()
        known = self._versions.get(tenant)
        if known is not None and stamp and known[0] == stamp:
            return known[1]
        with self._opened() as client:
            version = _digest(self._metas(client, tenant))
        self._versions[tenant] = (stamp, version)
        return version

    def load(self, tenant: str) -> Stored:
        """The tenant's tools and those shared by all; raises StoreUnavailable when they cannot be read whole."""
        _check_tenant(tenant)
        for attempt in range(_ATTEMPTS):
            with self._opened() as client:
                metas = self._metas(client, tenant)
                own = self._collection_of_alias(client) == self._collection()
                records = self._points(client, tenant, "tool", vectors=own) if metas else []
            found = _assemble(metas, records)
            if found is not None:
                note = "" if own or not metas else self._mismatch()
                return _stored(found, _digest(metas), with_vectors=own, note=note)
            time.sleep(0.05 * 2**attempt)  # A writer flipped a server between our two reads: read again.
        raise StoreUnavailable(f"the store {self._shown()} kept changing while it was read; try again")

    def servers(self, tenant: str) -> dict[str, int]:
        """The tenant's servers (and those shared by all) with their number of tools."""
        with self._opened() as client:
            return {meta["server"]: len(meta["tools"]) for meta in self._metas(client, tenant)}

    def search(self, tenant: str, vector: NDArray[np.float32], limit: int) -> list[tuple[str, float]]:
        """The nearest of the tenant's tools by Qdrant itself: keys and cosines, best first."""
        from qdrant_client import models

        with self._opened() as client:
            if self._collection_of_alias(client) is None:
                return []
            answer = client.query_points(
                COLLECTION,
                query=vector.tolist(),
                query_filter=models.Filter(must=_conditions([tenant, SHARED], "tool")),
                limit=limit,
                with_payload=["key"],
            )
        return [(point.payload["key"], float(point.score)) for point in answer.points]

    # --- writing

    def replace_server(
        self, tenant: str, server: str, tools: Sequence[Tool], on_progress: Progress | None = None
    ) -> Changes:
        """Makes these the server's tools. Only definitions that are new or changed are embedded."""
        return self.replace_servers(tenant, {server: tools}, on_progress)[server]

    def replace_servers(
        self, tenant: str, servers: Mapping[str, Sequence[Tool]], on_progress: Progress | None = None
    ) -> dict[str, Changes]:
        """The same for several servers; each flips by itself, after all new definitions are written."""
        _check_tenant(tenant)
        with self._opened() as client:
            self._prepare(client)
            before = {meta["server"]: meta["tools"] for meta in self._metas(client, tenant, shared=False)}
            self._add_missing(client, tenant, [tool for tools in servers.values() for tool in tools], on_progress)
            metas = [
                _meta(tenant, server, {tool.name: tool.hash for tool in tools}) for server, tools in servers.items()
            ]
            self._upsert(client, metas, np.zeros((len(metas), self.embedder.dimension), np.float32))
            self._touch()
            for server, tools in servers.items():
                self._sweep(client, tenant, server, tools)
        return {server: _changes(before.get(server, {}), tools) for server, tools in servers.items()}

    def remove_server(self, tenant: str, server: str) -> Changes:
        """Takes a server and all its tools away."""
        changes = self.replace_server(tenant, server, ())
        with self._opened() as client:
            client.delete(COLLECTION, [_meta_id(tenant, server)])
            self._touch()
        return changes

    def close(self) -> None:
        """Closes the client; a later call opens it again (and an in-memory store is then empty)."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    # --- inside

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """A client: kept for memory and URL, opened for this use alone for a folder, waiting for its lock."""
        with self._lock:
            try:
                if self.location and not self.remote:
                    client = self._open_folder()
                    try:
                        yield client
                    finally:
                        client.close()
                else:
                    if self._client is None:
                        self._client = self._connect()
                    yield self._client
            except _outages() as error:
                raise StoreUnavailable(f"the store {self._shown()} does not answer: {type(error).__name__}") from error

    def _connect(self) -> Any:
        from qdrant_client import QdrantClient

        if not self.remote:
            return QdrantClient(":memory:")
        return QdrantClient(url=self.location, api_key=store_key(), timeout=max(1, int(self._timeout_s)))

    def _open_folder(self) -> Any:
        from qdrant_client import QdrantClient

        try:
            Path(self.location).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidConfig(f"store {self.location!r} cannot be a folder: {error.strerror}") from None
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return QdrantClient(path=self.location)
            except RuntimeError as error:
                if "already accessed" not in str(error):
                    raise StoreUnavailable(f"the store {self._shown()} cannot be opened: {error}") from error
                if time.monotonic() > deadline:
                    raise StoreUnavailable(
                        f"the store {self._shown()} stayed locked by another process for {self._timeout_s:g} s"
                    ) from None
                time.sleep(0.03)

    def _prepare(self, client: Any) -> None:
        """The embedder's collection exists and the alias leads to it; other embedders' points are embedded anew."""
        from qdrant_client import models

        name, current = self._collection(), self._collection_of_alias(client)
        if current == name:
            self._check_dimension(client, name)
            return
        if not client.collection_exists(name):
            size = self._dimension()
            client.create_collection(name, vectors_config=models.VectorParams(size=size, distance=models.Distance.DOT))
            if self.remote:
                for field in ("tenant", "type", "server"):
                    client.create_payload_index(
                        name, field, models.KeywordIndexParams(type="keyword", is_tenant=field == "tenant")
                    )
        if current is not None:
            self._embed_anew(client, current, name)
        operations: list[Any] = [] if current is None else [
            models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=COLLECTION))
        ]  # fmt: skip
        operations.append(
            models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=COLLECTION))
        )
        client.update_collection_aliases(operations)
        self._touch()
        if current is not None:
            client.delete_collection(current)

    def _embed_anew(self, client: Any, source: str, target: str) -> None:
        offset = None
        while True:
            records, offset = client.scroll(source, limit=_BATCH, offset=offset, with_payload=True)
            tools = [record for record in records if record.payload["type"] == "tool"]
            vectors = np.zeros((len(records), self._dimension()), np.float32)
            texts = [card(tool_from(json.loads(record.payload["tool"]))) for record in tools]
            place = {record.id: row for row, record in enumerate(records)}
            if texts:
                vectors[[place[record.id] for record in tools]] = self.embedder.embed(texts)
            if records:
                self._upsert(client, [(r.id, r.payload) for r in records], vectors, target)
            if offset is None:
                return

    def _add_missing(self, client: Any, tenant: str, tools: Sequence[Tool], on_progress: Progress | None) -> None:
        ids = {_tool_id(tenant, tool): tool for tool in tools}
        names = list(ids)
        known: set[str] = set()
        for start in range(0, len(names), 1000):
            found = client.retrieve(COLLECTION, names[start : start + 1000], with_payload=False)
            known.update(str(record.id) for record in found)
        missing = [(point, tool) for point, tool in ids.items() if point not in known]
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            vectors = self.embedder.embed([card(tool) for _, tool in batch])
            self._upsert(client, [(point, _payload(tenant, tool)) for point, tool in batch], vectors)
            if on_progress is not None:
                on_progress(min(start + _BATCH, len(missing)), len(missing))

    def _upsert(
        self, client: Any, points: Sequence[tuple[str, dict[str, Any]]], vectors: Vectors, name: str = COLLECTION
    ) -> None:
        from qdrant_client import models

        batch = models.Batch(
            ids=[point for point, _ in points], payloads=[payload for _, payload in points], vectors=vectors.tolist()
        )
        client.upsert(name, batch, wait=True)

    def _sweep(self, client: Any, tenant: str, server: str, tools: Sequence[Tool]) -> None:
        """Removes points of this server that its meta record no longer names."""
        named = {_tool_id(tenant, tool) for tool in tools}
        records = self._points(client, tenant, "tool", server=server, payload=False, shared=False)
        old = [record.id for record in records if str(record.id) not in named]
        if old:
            client.delete(COLLECTION, old)

    def _metas(self, client: Any, tenant: str, *, shared: bool = True) -> list[dict[str, Any]]:
        records = self._points(client, tenant, "meta", shared=shared)
        metas = [{**record.payload, "tools": json.loads(record.payload["tools"])} for record in records]
        # A server of the tenant's own hides the shared one of that name.
        own = {meta["server"] for meta in metas if meta["tenant"] == tenant}
        return [meta for meta in metas if meta["tenant"] == tenant or meta["server"] not in own]

    def _points(
        self,
        client: Any,
        tenant: str,
        kind: str,
        *,
        server: str | None = None,
        shared: bool = True,
        payload: bool = True,
        vectors: bool = False,
    ) -> list[Any]:
        from qdrant_client import models

        if self._collection_of_alias(client) is None:
            return []
        conditions = _conditions([tenant, SHARED] if shared else [tenant], kind, server)
        found: list[Any] = []
        offset = None
        while True:
            records, offset = client.scroll(
                COLLECTION,
                scroll_filter=models.Filter(must=conditions),
                limit=1000,
                offset=offset,
                with_payload=payload,
                with_vectors=vectors,
            )
            found += records
            if offset is None:
                return found

    def _collection(self) -> str:
        return f"{COLLECTION}__{re.sub(r'[^A-Za-z0-9_-]', '_', self.embedder.id)}"

    def _collection_of_alias(self, client: Any) -> str | None:
        aliases = client.get_aliases().aliases
        return next((alias.collection_name for alias in aliases if alias.alias_name == COLLECTION), None)

    def _dimension(self) -> int:
        if not self.embedder.dimension:  # An endpoint's is known after its first answer.
            self.embedder.embed(["dimension"])
        return self.embedder.dimension

    def _check_dimension(self, client: Any, name: str) -> None:
        stored = client.get_collection(name).config.params.vectors.size
        if stored != self._dimension():
            raise InvalidConfig(
                f"the store {self._shown()} holds vectors of {stored} dimensions, embedder {self.embedder.id!r} gives "
                f"{self.embedder.dimension}: name another embedder, or start with an empty store"
            )

    def _mismatch(self) -> str:
        return (
            f"the store's vectors are not embedder {self.embedder.id!r}'s; tools are embedded anew in this process. "
            "The next `toolroute tools import` or `tools sync` embeds them in the store"
        )

    def _stamp(self) -> str:
        """What the stamp file of a folder says; "" where there is none, so that the record itself is asked."""
        if not self.location or self.remote:
            return ""
        try:
            return (Path(self.location) / _STAMP).read_text(encoding="ascii")
        except OSError:
            return ""

    def _touch(self) -> None:
        if self.location and not self.remote:
            (Path(self.location) / _STAMP).write_text(uuid.uuid4().hex, encoding="ascii")

    def _shown(self) -> str:
        """The location without credentials."""
        return re.sub(r"//[^/@]*@", "//", self.location) or "in memory"


def _outages() -> tuple[type[Exception], ...]:
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    return ResponseHandlingException, UnexpectedResponse, ResourceExhaustedResponse, OSError


def _check_tenant(tenant: str) -> None:
    if not tenant:
        raise UnknownTenant("no tenant: give an organization (org:ID) or a user (user:ID)")


def _conditions(tenants: Sequence[str], kind: str, server: str | None = None) -> list[Any]:
    from qdrant_client import models

    conditions = [
        models.FieldCondition(key="tenant", match=models.MatchAny(any=list(tenants))),
        models.FieldCondition(key="type", match=models.MatchValue(value=kind)),
    ]
    if server is not None:
        conditions.append(models.FieldCondition(key="server", match=models.MatchValue(value=server)))
    return conditions


def _tool_id(tenant: str, tool: Tool) -> str:
    return str(uuid.uuid5(_SPACE, f"tool\x00{tenant}\x00{tool.key}\x00{tool.hash}"))


def _meta_id(tenant: str, server: str) -> str:
    return str(uuid.uuid5(_SPACE, f"meta\x00{tenant}\x00{server}"))


def _payload(tenant: str, tool: Tool) -> dict[str, Any]:
    # The tool goes in as text: Qdrant would index and rewrite a nested object, and the hash must stay true.
    return {
        "type": "tool",
        "tenant": tenant,
        "server": tool.server,
        "key": tool.key,
        "hash": tool.hash,
        "tool": json.dumps(tool_to_json(tool), ensure_ascii=False),
    }


def _meta(tenant: str, server: str, tools: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    payload = {"type": "meta", "tenant": tenant, "server": server, "tools": json.dumps(tools, ensure_ascii=False)}
    return _meta_id(tenant, server), payload


def _changes(before: Mapping[str, str], tools: Sequence[Tool]) -> Changes:
    now = {tool.name: tool.hash for tool in tools}
    return Changes(
        new=tuple(name for name in now if name not in before),
        changed=tuple(name for name, digest in now.items() if before.get(name, digest) != digest),
        gone=tuple(name for name in before if name not in now),
        same=sum(1 for name, digest in now.items() if before.get(name) == digest),
    )


def _digest(metas: Sequence[Mapping[str, Any]]) -> str:
    lines = sorted(json.dumps([meta["server"], sorted(meta["tools"].items())]) for meta in metas)
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


def _assemble(metas: Sequence[Mapping[str, Any]], records: Sequence[Any]) -> list[Any] | None:
    """The records that the meta records name, all of them, or None if one is missing."""
    by_name = {(r.payload["tenant"], r.payload["key"], r.payload["hash"]): r for r in records}
    named = [
        (meta["tenant"], f"{meta['server']}:{name}", digest) for meta in metas for name, digest in meta["tools"].items()
    ]
    found = [by_name.get(name) for name in named]
    return None if any(record is None for record in found) else found


def _stored(records: Sequence[Any], version: str, *, with_vectors: bool, note: str) -> Stored:
    pairs = [(tool_from(json.loads(record.payload["tool"])), record.vector) for record in records]
    pairs.sort(key=lambda pair: (pair[0].server, pair[0].name))
    vectors = np.array([vector for _, vector in pairs], np.float32) if with_vectors and pairs else None
    return Stored(tools=tuple(tool for tool, _ in pairs), vectors=vectors, version=version, note=note)
