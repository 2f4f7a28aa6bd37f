"""A tenant's points on a Qdrant server.

Tenants share the collections. The payload of each point has its tenant, and the fields by which points are filtered
have an index, because a server in strict mode refuses other filters:

    {"tenant": "org:acme", "written": 1764288000, "key": "stripe:refund", "tool": "{...}"}      a tool
    {"tenant": "org:acme", "state": "9f86d081884c7d65", "past": ["60303ae22b998861"], ...}      a record that is swapped
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from orchestrator.store.points import Fields, New, Payload, Points, Record, Vectors
from orchestrator.store.qdrant.rest import Rest
from orchestrator.store.qdrant.retries import Refused

_PAGE = 1_000
"""The points in one request, as long as the server does not refuse that number."""
_TRIES = 3
"""The tries of a request for a collection that another writer creates at that moment."""
_ABSENT = 404
"""The HTTP status for a missing collection."""
_TOO_MANY = (400, 413, 422)
"""The HTTP statuses for a request that may be too large for a strict server."""
_FLOATS = 500_000
"""The maximum number of vector components in one request. They make about 11 MB of JSON, and a server takes 32 MB."""
_INDEXES = {"tenant": "keyword", "written": "integer", "state": "keyword"}
"""The fields by which points are filtered."""


class QdrantPoints(Points):
    """Points on a server. Tenants share the collections."""

    def __init__(
        self, rest: Rest, tenant: str, prefix: str = "", replicas: int | None = None
    ) -> None:
        """Create the access for one tenant.

        Args:
            rest: The server.
            tenant: The tenant.
            prefix: The beginning of the names of the collections.
            replicas: The number of nodes that hold each new collection. None: the server's setting.
        """
        self._rest = rest
        self._tenant = tenant
        self._prefix = prefix
        self._replicas = replicas

    def names(self) -> list[str]:
        """Return the names of all collections with the prefix, whichever tenant has points there."""
        collections = self._rest.ask("GET", "/collections")["collections"]
        names = [collection["name"] for collection in collections]
        return [name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix)]

    def size(self, name: str) -> int | None:
        info = self._ask_collection("GET", name)
        if info is None:
            return None
        vectors = info["config"]["params"].get("vectors") or {}
        return int(vectors.get("size", 0))

    def create(self, name: str, size: int = 0) -> None:
        """Create a collection and its indexes, unless they exist. A writer may have died between the two."""
        from qdrant_client import models

        info = self._ask_collection("GET", name)
        if info is None:
            vectors = models.VectorParams(size=size, distance=models.Distance.DOT)
            try:
                self._write(
                    "create_collection",
                    name,
                    vectors_config=vectors if size else {},
                    # Points that are read only by id need no graph. Building it takes seven times as long as storing.
                    hnsw_config=models.HnswConfigDiff(m=0),
                    replication_factor=self._replicas,
                )
            except Refused:
                # Otherwise another writer created it at the same moment.
                if not self._exists(name):
                    raise
        indexed = (info or {}).get("payload_schema") or {}
        for field, kind in _INDEXES.items():
            if field not in indexed:
                schema: Any = models.PayloadSchemaType(kind)
                if field == "tenant":
                    schema = models.KeywordIndexParams(
                        type=models.KeywordIndexType.KEYWORD, is_tenant=True
                    )
                self._write("create_payload_index", name, field_name=field, field_schema=schema)

    def drop(self, name: str) -> None:
        if self._exists(name):
            self._delete(name, [self._of_tenant()])

    def get(
        self, name: str, ids: Sequence[str], *, vectors: bool = False, payload: Fields = True
    ) -> dict[str, Record]:
        records: dict[str, Record] = {}
        body: dict[str, Any] = {"with_payload": payload, "with_vector": vectors}
        start, limit = 0, _PAGE
        while start < len(ids):
            body["ids"] = list(ids[start : start + limit])
            try:
                answer = self._ask_collection("POST", name, "/points", body) or []
            except Refused as error:
                limit = _fewer(error, len(body["ids"]))
                continue
            records |= {str(record["id"]): _record(record) for record in answer}
            start += limit
        return records

    def find(self, name: str, *, vectors: bool = False, payload: Fields = True) -> Iterator[Record]:
        body: dict[str, Any] = {"filter": {"must": [self._of_tenant()]}, "limit": _PAGE}
        body |= {"with_payload": payload, "with_vector": vectors, "offset": None}
        while True:
            try:
                page = self._ask_collection("POST", name, "/points/scroll", body)
            except Refused as error:
                body["limit"] = _fewer(error, body["limit"])
                continue
            yield from map(_record, page["points"] if page else ())
            body["offset"] = page.get("next_page_offset") if page else None
            if body["offset"] is None:
                return

    def put(self, name: str, points: New, vectors: Vectors | None = None) -> None:
        ids = list(points)
        size = 1 if vectors is None else vectors.shape[1]
        most = max(1, _FLOATS // size)
        for start in range(0, len(ids), most):
            self._put_rows(name, points, vectors, slice(start, start + most))

    def _put_rows(self, name: str, points: New, vectors: Vectors | None, rows: slice) -> None:
        part = {point: points[point] for point in list(points)[rows]}
        self._put_part(name, part, None if vectors is None else vectors[rows])

    def _put_part(self, name: str, points: New, vectors: Vectors | None) -> None:
        """Write points in one request, or in two if the server refuses their number."""
        try:
            self._upsert(name, points, {} if vectors is None else vectors.tolist())
        except Refused as error:
            if error.status_code not in _TOO_MANY or len(points) == 1:
                raise
            half = len(points) // 2
            self._put_rows(name, points, vectors, slice(half))
            self._put_rows(name, points, vectors, slice(half, None))

    def swap(self, name: str, point: str, payload: Payload, before: str | None) -> bool:
        """Write a point only if its `state` has not changed. Needs Qdrant 1.16 or later.

        With weaker ordering, each replica of a collection would check the condition by itself, and two writers could
        both be first. A server answers a write when all replicas have it, so any replica may be read afterwards.

        Args:
            name: The name of the collection.
            point: The id of the point.
            payload: The new payload.
            before: The expected `state`. None: write in any case.
        """
        from qdrant_client import models

        condition = None
        if before is not None:
            condition = models.Filter.model_validate({"must": [_is("state", before)]})
        strong = models.WriteOrdering.STRONG
        self._upsert(name, {point: payload}, {}, update_filter=condition, ordering=strong)
        records = self.get(name, [point])
        if point not in records:
            return False
        current = records[point].payload
        return payload["state"] in (current.get("state"), *current.get("past", ()))

    def delete(self, name: str, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), _PAGE):
            self._write("delete", name, points_selector=list(ids[start : start + _PAGE]), wait=True)

    def sweep(self, name: str, ids: Sequence[str], until: float) -> None:
        """Remove points that were written before a time. The ids name the tenant, so no other condition is needed."""
        for start in range(0, len(ids), _PAGE):
            old = {"key": "written", "range": {"lte": until}}
            self._delete(name, [{"has_id": list(ids[start : start + _PAGE])}, old])

    def _exists(self, name: str) -> bool:
        return bool(self._rest.ask("GET", f"/collections/{self._prefix}{name}/exists")["exists"])

    def _ask_collection(
        self, method: str, name: str, path: str = "", body: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the server's answer about the collection, or None if the collection does not exist."""
        for _ in range(_TRIES):
            try:
                return self._rest.ask(method, f"/collections/{self._prefix}{name}{path}", body)
            except Refused as error:
                failure = error
                if error.status_code != _ABSENT:
                    raise
            if not self._exists(name):  # This raises an error if no Qdrant server answers.
                return None
            # Another writer created it between our two requests.
        raise failure

    def _write(self, call: str, name: str, **settings: Any) -> None:
        """Make this call of qdrant-client. A failure is raised as `Rest.ask` raises it."""
        from qdrant_client.http.exceptions import ResponseHandlingException

        try:
            getattr(self._rest.client, call)(self._prefix + name, **settings)
        except ResponseHandlingException as error:
            raise error.source from None

    def _upsert(self, name: str, points: New, vectors: Any, **more: Any) -> None:
        from qdrant_client import models

        payloads = [{**payload, "tenant": self._tenant} for payload in points.values()]
        batch = models.Batch(ids=list(points), payloads=payloads, vectors=vectors)
        self._write("upsert", name, points=batch, wait=True, **more)

    def _delete(self, name: str, conditions: Iterable[Mapping[str, Any]]) -> None:
        from qdrant_client import models

        selector = models.FilterSelector(
            filter=models.Filter.model_validate({"must": list(conditions)})
        )
        self._write("delete", name, points_selector=selector, wait=True)

    def _of_tenant(self) -> dict[str, Any]:
        return _is("tenant", self._tenant)


def _is(field: str, value: str) -> dict[str, Any]:
    return {"key": field, "match": {"value": value}}


def _fewer(error: Refused, limit: int) -> int:
    """Return half of a page's limit. Raise the error if fewer points cannot help.

    A strict server limits the number of points, and an answer may be larger than toolroute reads.
    """
    if error.status_code not in _TOO_MANY or limit == 1:
        raise error
    return limit // 2


def _record(record: Mapping[str, Any]) -> Record:
    vector = record.get("vector")
    return Record(
        str(record["id"]),
        record.get("payload") or {},
        np.array(vector, np.float32) if vector else None,
    )
