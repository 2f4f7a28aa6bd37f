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


class Engine:
    """Answers the requests of one server, with qdrant-client's local mode and the requested indexes.

    `version` is the version in the server's answers. Qdrant before 1.16 ignores the condition of an update.
    """

    def __init__(self, version: str = "1.19.0") -> None:
        self.version, self.client, self.turn = version, QdrantClient(":memory:"), threading.Lock()
        self.indexes: dict[str, set[str]] = {}
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
            ("POST", f"{points}/count", self._count, models.CountRequest),
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
        sparse: Any = body.sparse_vectors
        return self.client.create_collection(name, vectors_config=body.vectors or {}, sparse_vectors_config=sparse)

    def _index(self, name: str, body: models.CreateFieldIndex) -> Any:
        self.indexes.setdefault(name, set()).add(body.field_name)
        return {"operation_id": 0, "status": "completed"}

    def _retrieve(self, name: str, body: models.PointRequest) -> Any:
        shown: Any = body.with_payload
        return self.client.retrieve(name, body.ids, with_payload=shown, with_vectors=bool(body.with_vector))

    def _upsert(self, name: str, body: models.PointsBatch) -> Any:
        condition = None if self.version.startswith(("0.", "1.15.")) else body.update_filter
        return self.client.upsert(name, body.batch, update_filter=condition)

    def _scroll(self, name: str, body: models.ScrollRequest) -> Any:
        shown: Any = body.with_payload
        page: dict[str, Any] = {
            "limit": body.limit or 10,
            "offset": body.offset,
            "with_payload": shown if isinstance(shown, list) else bool(shown),
            "with_vectors": bool(body.with_vector),
        }
        found, offset = self.client.scroll(name, scroll_filter=body.filter, **page)
        return {"points": found, "next_page_offset": offset}

    def _count(self, name: str, body: models.CountRequest) -> Any:
        must: list[Any] = [*body.filter.must] if body.filter and isinstance(body.filter.must, list) else []
        named = [condition for condition in must if isinstance(condition, models.HasIdCondition)]
        if not named:
            return self.client.count(name, count_filter=body.filter, exact=True)
        # Local mode would look through the list for each point.
        (tenants,) = (condition.match.any for condition in must if condition not in named)
        found = self.client.retrieve(name, list(named[0].has_id), with_payload=["tenant"])
        return {"count": sum((record.payload or {}).get("tenant") in tenants for record in found)}

    def _delete(self, name: str, body: models.PointIdsList | models.FilterSelector) -> Any:
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

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self._endpoint, methods=["GET", "POST", "PUT", "DELETE"])])

    async def _endpoint(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.url.path}")
        self.queries.append(request.url.query)
        while self.stalled:  # noqa: ASYNC110 (it is set in another thread)
            await asyncio.sleep(0.01)
        if self.failing > 0:
            self.failing -= 1
            return Response("Service Unavailable", 503)
        sent = await request.body()
        if request.headers.get("api-key", "") != self.key:
            return Response("Invalid API key or JWT", 401)
        status, answer = self.engine.answer(request.method, request.url.path, sent)
        return Response(answer, status, media_type="application/json")


@contextmanager
def qdrant_front(key: str = "") -> Iterator[QdrantFront]:
    front = QdrantFront(key=key)
    with served(front.app()) as url:
        front.url = url
        try:
            yield front
        finally:
            front.stalled = False
    front.engine.client.close()
