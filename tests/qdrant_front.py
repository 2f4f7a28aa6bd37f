"""Qdrant's REST protocol on loopback, before the embedded Qdrant: so the URL mode is tested over HTTP, and counted.

It is no Qdrant server: the wire and our client's calls are real, the engine behind them is qdrant-client's own local
mode. Only the calls that `orchestrator.store` makes are there; any other is a 404.
"""

import asyncio
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


@dataclass
class QdrantFront:
    """Its address, the key that it asks for, and each request that it got: method and path; apart, its query.

    While `stalled`, it accepts requests and answers none of them. It answers the next `failing` requests with a 503.
    """

    url: str = ""
    key: str = ""
    requests: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    client: QdrantClient = field(default_factory=lambda: QdrantClient(":memory:"))
    turn: threading.Lock = field(default_factory=threading.Lock)
    stalled: bool = False
    failing: int = 0

    def route(self, method: str, path: str, do: Callable[[str, Any], Any], kind: Any = Body) -> Route:
        """The engine's answer as Qdrant's envelope; `kind` reads the body as qdrant-client's own models do."""

        async def endpoint(request: Request) -> Response:
            self.requests.append(f"{method} {request.url.path}")
            self.queries.append(request.url.query)
            sent = await request.body()
            while self.stalled:  # noqa: ASYNC110 (it is set in another thread)
                await asyncio.sleep(0.01)
            if self.failing > 0:
                self.failing -= 1
                return Response("Service Unavailable", 503)
            if request.headers.get("api-key", "") != self.key:
                return Response("Invalid API key or JWT", 401)
            try:
                with self.turn:
                    found = do(request.path_params.get("name", ""), TypeAdapter(kind).validate_json(sent or b"{}"))
            except ValueError as error:
                failure = {"status": {"error": str(error)}, "time": 0.0}
                return Response(TypeAdapter(Any).dump_json(failure), 404, media_type="application/json")
            answer = TypeAdapter(Any).dump_json({"result": found, "status": "ok", "time": 0.0})
            return Response(answer, media_type="application/json")

        return Route(path, endpoint, methods=[method])

    def app(self) -> Starlette:
        client, one = self.client, "/collections/{name}"
        points = f"{one}/points"
        return Starlette(
            routes=[
                self.route("GET", f"{one}/exists", lambda name, _: {"exists": client.collection_exists(name)}),
                self.route("GET", "/collections", lambda *_: client.get_collections()),
                self.route("GET", one, lambda name, _: client.get_collection(name)),
                self.route("PUT", one, self._create, models.CreateCollection),
                self.route("DELETE", one, lambda name, _: client.delete_collection(name)),
                self.route("PUT", f"{one}/index", lambda *_: {"operation_id": 0, "status": "completed"}),
                self.route("POST", points, self._retrieve, models.PointRequest),
                self.route("PUT", points, self._upsert, models.PointsBatch),
                self.route("POST", f"{points}/scroll", self._scroll, models.ScrollRequest),
                self.route("POST", f"{points}/query", self._query, models.QueryRequest),
                self.route("POST", f"{points}/delete", self._delete, models.PointIdsList | models.FilterSelector),
            ]
        )

    def _create(self, name: str, body: models.CreateCollection) -> bool:
        sparse: Any = body.sparse_vectors
        return self.client.create_collection(name, vectors_config=body.vectors or {}, sparse_vectors_config=sparse)

    def _retrieve(self, name: str, body: models.PointRequest) -> Any:
        shown: Any = body.with_payload
        return self.client.retrieve(name, body.ids, with_payload=shown, with_vectors=bool(body.with_vector))

    def _upsert(self, name: str, body: models.PointsBatch) -> Any:
        return self.client.upsert(name, body.batch, update_filter=body.update_filter)

    def _scroll(self, name: str, body: models.ScrollRequest) -> Any:
        page: dict[str, Any] = {
            "limit": body.limit or 10,
            "offset": body.offset,
            "with_payload": bool(body.with_payload),
            "with_vectors": bool(body.with_vector),
        }
        found, offset = self.client.scroll(name, scroll_filter=body.filter, **page)
        return {"points": found, "next_page_offset": offset}

    def _query(self, name: str, body: models.QueryRequest) -> Any:
        shown: Any = {"with_payload": body.with_payload, "with_vectors": body.with_vector}
        return self.client.query_points(name, prefetch=body.prefetch, query=body.query, limit=body.limit or 10, **shown)

    def _delete(self, name: str, body: models.PointIdsList | models.FilterSelector) -> Any:
        return self.client.delete(name, body)


@contextmanager
def qdrant_front(key: str = "") -> Iterator[QdrantFront]:
    front = QdrantFront(key=key)
    with served(front.app()) as url:
        front.url = url
        try:
            yield front
        finally:
            front.stalled = False
    front.client.close()
