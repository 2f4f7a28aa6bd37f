"""A tenant's points on a Qdrant server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from orchestrator.store.points import Fields, New, Payload, Points, Record, Vectors
from orchestrator.store.qdrant.rest import Refused, client_over

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

_PAGE, _COUNTED, _TRIES = 1_000, 50_000, 3
_ABSENT = 404
"""The HTTP status where a collection does not exist."""
_FLOATS = 500_000
"""The maximum number of vector components in one request. They make about 11 MB of JSON, and a Qdrant server takes 32
MB.
"""


class ServerPoints(Points):
    """Points on a server. Tenants share the collections, and each point has its tenant in an indexed field."""

    def __init__(self, rest: Any, tenant: str, patience_s: float = 0.0) -> None:
        """Create the access for one tenant.

        Args:
            rest: The server's Rest, or an object that repeats its requests.
            tenant: The tenant.
            patience_s: Seconds to wait for a read, as in `Rest.ask`.
        """
        self._ask: Callable[..., Any] = partial(rest.ask, patience_s=patience_s)
        self._rest, self._tenant = rest, tenant

    def names(self) -> list[str]:
        """Return the names of all collections, whichever tenant has points there."""
        return [collection["name"] for collection in self._ask("GET", "/collections")["collections"]]

    def size(self, name: str) -> int | None:
        info = self._info(name)
        if info is None:
            return None
        vectors = info["config"]["params"].get("vectors") or {}
        return int(vectors.get("size", 0))

    @cached_property
    def _client(self) -> "QdrantClient":
        return client_over(self._rest.send)

    def _write(self, call: str, name: str, **given: Any) -> None:
        """Make this call of qdrant-client. A failure is raised as `Rest.ask` raises it."""
        from qdrant_client.http.exceptions import ResponseHandlingException

        try:
            getattr(self._client, call)(name, **given)
        except ResponseHandlingException as error:
            raise error.source from None

    def create(self, name: str, size: int = 0) -> None:
        from qdrant_client import models

        # Points that are read only by id need no graph. Building one takes seven times as long as storing the points.
        graph = models.HnswConfigDiff(m=0)
        self._create(name, vectors_config=_shape(size) if size else {}, hnsw_config=graph)

    def _info(self, name: str) -> dict[str, Any] | None:
        """Return the server's description of the collection, or None if it does not exist."""
        info: dict[str, Any] | None = self._about("GET", name, "")
        return info

    def _exists(self, name: str) -> bool:
        return bool(self._ask("GET", f"/collections/{name}/exists")["exists"])

    def _create(self, name: str, **config: Any) -> None:
        from qdrant_client import models

        info = self._info(name)
        if info is None:
            try:
                self._write("create_collection", name, **config)
            except Refused:
                if not self._exists(name):  # Otherwise another writer created it at the same moment.
                    raise
        made = (info or {}).get("payload_schema") or {}  # A writer may have died before it created all indexes.
        tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        if "tenant" not in made:
            self._write("create_payload_index", name, field_name="tenant", field_schema=tenant)

    def drop(self, name: str) -> None:
        if self._exists(name):
            self._delete(name, self._filter())

    def get(self, name: str, ids: Sequence[str], *, vectors: bool = False, payload: Fields = True) -> dict[str, Record]:
        shown, found = {"with_payload": payload, "with_vector": vectors}, list[dict[str, Any]]()
        for start in range(0, len(ids), _PAGE):
            page = {"ids": list(ids[start : start + _PAGE]), **shown}
            found += self._read(name, "", page) or []
        return {str(record["id"]): _record(record) for record in found}

    def find(self, name: str, *, vectors: bool = False, payload: Fields = True) -> Iterator[Record]:
        page = {"filter": self._filter(), "limit": _PAGE, "with_payload": payload, "with_vector": vectors}
        offset, more = None, True
        while more:
            found = self._read(name, "/scroll", {**page, "offset": offset}) or {"points": []}
            yield from map(_record, found["points"])
            more = (offset := found.get("next_page_offset")) is not None

    def lacks(self, name: str, ids: Sequence[str]) -> bool:
        for start in range(0, len(ids), _COUNTED):
            page = ids[start : start + _COUNTED]
            found = self._read(name, "/count", {"filter": self._filter(ids=page), "exact": True}) or {"count": 0}
            if found["count"] < len(page):
                return True
        return False

    def _read(self, name: str, how: str, body: Mapping[str, Any]) -> Any:
        return self._about("POST", name, f"/points{how}", body)

    def _about(self, method: str, name: str, what: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the server's answer about the collection, or None if the collection does not exist."""
        for _ in range(_TRIES):
            try:
                return self._ask(method, f"/collections/{name}{what}", body)
            except Refused as error:
                failure = error
                if error.status_code != _ABSENT:
                    raise
            if not self._exists(name):  # This raises an error if no Qdrant server answers.
                return None
            # Another writer created it between our two requests.
        raise failure

    def put(self, name: str, points: New, vectors: Vectors | None = None) -> None:
        for part, rows in _parts(points, 1 if vectors is None else vectors.shape[1]):
            self._upsert(name, part, {} if vectors is None else vectors[rows].tolist())

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

        same = None if before is None else models.Filter.model_validate({"must": [_says("state", before)]})
        self._upsert(name, {point: payload}, {}, update_filter=same, ordering=models.WriteOrdering.STRONG)
        found = self.get(name, [point])
        now = found[point].payload if point in found else {}
        return payload["state"] in (now.get("state"), *now.get("past", ()))

    def _upsert(self, name: str, points: New, vectors: Any, **more: Any) -> None:
        from qdrant_client import models

        own = [{**payload, "tenant": self._tenant} for payload in points.values()]
        batch = models.Batch(ids=list(points), payloads=own, vectors=vectors)
        self._write("upsert", name, points=batch, wait=True, **more)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        if ids:
            self._write("delete", name, points_selector=list(ids), wait=True)

    def sweep(self, name: str, ids: Sequence[str], until: float) -> None:
        for start in range(0, len(ids), _COUNTED):
            own = self._filter(ids=ids[start : start + _COUNTED])
            own["must"].append({"key": "written", "range": {"lte": until}})
            self._delete(name, own)

    def drop_all_but_states(self, name: str, but: str) -> None:
        """Remove the tenant's points of this collection, except points with a `state` other than this one."""
        none = {"is_empty": {"key": "state"}}
        self._delete(name, {**self._filter(), "should": [none, _says("state", but)]}, strong=True)

    def _delete(self, name: str, filter_: Mapping[str, Any], *, strong: bool = False) -> None:
        from qdrant_client import models

        chosen = models.FilterSelector(filter=models.Filter.model_validate(filter_))
        ordering = models.WriteOrdering.STRONG if strong else None
        self._write("delete", name, points_selector=chosen, wait=True, ordering=ordering)

    def _filter(self, ids: Sequence[str] = ()) -> dict[str, Any]:
        """Return the filter for the tenant's own points. `ids` restricts it to these points."""
        must: list[dict[str, Any]] = [_says("tenant", self._tenant)]
        if ids:
            must.append({"has_id": list(ids)})
        return {"must": must}


def _shape(size: int) -> Any:
    from qdrant_client import models

    return models.VectorParams(size=size, distance=models.Distance.DOT)


def _says(field: str, value: str) -> dict[str, Any]:
    return {"key": field, "match": {"value": value}}


def _parts(points: New, size: int) -> Iterator[tuple[New, slice]]:
    """Yield the points of one request after the other, with the rows of their vectors."""
    ids, most = list(points), max(1, _FLOATS // size)
    for start in range(0, len(ids), most):
        rows = slice(start, start + most)
        yield {point: points[point] for point in ids[rows]}, rows


def _record(record: Mapping[str, Any]) -> Record:
    vector = record.get("vector")
    return Record(str(record["id"]), record.get("payload") or {}, np.array(vector, np.float32) if vector else None)
