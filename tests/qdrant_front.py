"""Qdrant's REST protocol on loopback, in front of the embedded Qdrant. So the URL mode is tested over HTTP, and
counted.

It is no Qdrant server. The HTTP connection and our client's calls are real, and the engine behind them is
qdrant-client's local mode. It has only the calls that `orchestrator.store` makes. Any other call is a 404.
"""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.loopback import served

Body = dict[str, Any]
Answer = tuple[int, bytes]
"""An HTTP status and a body of JSON."""
_ANYTHING = TypeAdapter(Any)


class Strict(Exception):
    """A server in strict mode refuses the request."""


class Engine:
    """Answers the requests of one server, with qdrant-client's local mode and the requested indexes.

    `version` is the version in the server's answers. Qdrant before 1.16 ignores the condition of an update. A `strict`
    server refuses filters without an index, long requests and filters with many conditions, as Qdrant Cloud does.
    """

    def __init__(self, version: str = "1.19.0", *, strict: bool = False) -> None:
        self.version, self.client, self.turn = version, QdrantClient(":memory:"), threading.Lock()
        self.strict = strict
        self.indexes: dict[str, set[str]] = {}
        self.replicas: dict[str, int | None] = {}
        """The replication factor of each collection that was created."""
        one = "/collections/([^/]+)"
        points = f"{one}/points"
        calls: list[tuple[str, str, Callable[[str, Any], Any], Any]] = [
            ("GET", f"{one}/exists", lambda name, _: {"exists": self.client.collection_exists(name)}, Body),
            ("GET", "/collections()", lambda *_: self.client.get_collections(), Body),
            ("GET", one, self._info, Body),
            ("PUT", one, self._create, models.CreateCollection),
            ("DELETE", one, lambda name, _: self.client.delete_collection(name), Body),
            ("PUT", f"{one}/index", self._index, models.CreateFieldIndex),
            ("POST", points, self._retrieve, models.PointRequest),
            ("PUT", points, self._upsert, models.PointsBatch),
            ("POST", f"{points}/scroll", self._scroll, models.ScrollRequest),
            ("POST", f"{points}/delete", self._delete, models.PointIdsList | models.FilterSelector),
        ]
        self._calls = [(method, re.compile(path), do, TypeAdapter(kind)) for method, path, do, kind in calls]

    def answer(self, method: str, path: str, sent: bytes) -> Answer:
        """Return the engine's answer in Qdrant's envelope. The body is read as qdrant-client's own models do."""
        if (method, path) == ("GET", "/"):
            return 200, _ANYTHING.dump_json({"title": "qdrant - vector search engine", "version": self.version})
        for theirs, pattern, do, kind in self._calls:
            if theirs == method and (match := pattern.fullmatch(path)):
                try:
                    with self.turn:
                        found = do(match[1], kind.validate_json(sent or b"{}"))
                except Strict as error:
                    return 400, _ANYTHING.dump_json({"status": {"error": f"Bad request: {error}"}, "time": 0.0})
                except ValueError as error:
                    return 404, _ANYTHING.dump_json({"status": {"error": str(error)}, "time": 0.0})
                return 200, _ANYTHING.dump_json({"result": found, "status": "ok", "time": 0.0})
        return 404, b""

    def _info(self, name: str, _: Body) -> Any:
        info = self.client.get_collection(name)
        keyword = models.PayloadIndexInfo(data_type=models.PayloadSchemaType.KEYWORD, points=0)
        info.payload_schema = dict.fromkeys(self.indexes.get(name, ()), keyword)
        return info

    def _create(self, name: str, body: models.CreateCollection) -> bool:
        self.replicas[name] = body.replication_factor
        return self.client.create_collection(name, vectors_config=body.vectors or {})

    def _index(self, name: str, body: models.CreateFieldIndex) -> Any:
        self.indexes.setdefault(name, set()).add(body.field_name)
        return {"operation_id": 0, "status": "completed"}

    def _check_limit(self, given: int, most: int, what: str) -> None:
        if self.strict and given > most:
            raise Strict(f'Limit exceeded {given} > {most} for "{what}". Help: Reduce the "{what}" parameter.')

    def _check_filter(self, name: str, given: models.Filter | None) -> None:
        conditions: list[Any] = [*given.must] if given is not None and isinstance(given.must, list) else []
        self._check_limit(len(conditions), 2, "filter conditions")
        here = self.strict and self.client.collection_exists(name)
        for condition in conditions if here else ():
            if isinstance(condition, models.FieldCondition) and condition.key not in self.indexes.get(name, ()):
                raise Strict(f'Index required but not found for "{condition.key}". Help: Create an index for this key.')

    def _retrieve(self, name: str, body: models.PointRequest) -> Any:
        shown: Any = body.with_payload
        return self.client.retrieve(name, body.ids, with_payload=shown, with_vectors=bool(body.with_vector))

    def _upsert(self, name: str, body: models.PointsBatch) -> Any:
        self._check_limit(len(body.batch.ids), 100, "upsert_max_batchsize")
        self._check_filter(name, body.update_filter)
        condition = None if self.version.startswith(("0.", "1.15.")) else body.update_filter
        return self.client.upsert(name, body.batch, update_filter=condition)

    def _scroll(self, name: str, body: models.ScrollRequest) -> Any:
        self._check_limit(body.limit or 10, 100, "limit")
        self._check_filter(name, body.filter)
        shown: Any = body.with_payload
        page: dict[str, Any] = {
            "limit": body.limit or 10,
            "offset": body.offset,
            "with_payload": shown if isinstance(shown, list) else bool(shown),
            "with_vectors": bool(body.with_vector),
        }
        found, offset = self.client.scroll(name, scroll_filter=body.filter, **page)
        return {"points": found, "next_page_offset": offset}

    def _delete(self, name: str, body: models.PointIdsList | models.FilterSelector) -> Any:
        if isinstance(body, models.FilterSelector):
            self._check_filter(name, body.filter)
        return self.client.delete(name, body)


@dataclass
class QdrantFront:
    """Its address, its key, and the method and path of each request. The queries are kept separately.

    While `stalled`, it accepts requests and answers none of them. It answers the next `failing` requests with a 503.
    """

    url: str = ""
    key: str = ""
    requests: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    stalled: bool = False
    failing: int = 0
    engine: Engine = field(default_factory=Engine)
    retry_after: str = ""
    """The seconds that a failure asks to wait."""

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self._endpoint, methods=["GET", "POST", "PUT", "DELETE"])])

    async def _endpoint(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.url.path}")
        self.queries.append(request.url.query)
        while self.stalled:  # noqa: ASYNC110 (it is set in another thread)
            await asyncio.sleep(0.01)
        if self.failing > 0:
            self.failing -= 1
            headers = {"retry-after": self.retry_after} if self.retry_after else {}
            return Response("Service Unavailable", 503, headers=headers)
        sent = await request.body()
        if request.headers.get("api-key", "") != self.key:
            return Response("Invalid API key or JWT", 401)
        status, answer = self.engine.answer(request.method, request.url.path, sent)
        return Response(answer, status, media_type="application/json")


@contextmanager
def qdrant_front(key: str = "", *, strict: bool = False) -> Iterator[QdrantFront]:
    front = QdrantFront(key=key, engine=Engine(strict=strict))
    with served(front.app()) as url:
        front.url = url
        try:
            yield front
        finally:
            front.stalled = False
    front.engine.client.close()
