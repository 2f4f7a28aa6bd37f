"""A tenant's points in a Qdrant server."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from orchestrator.store.points import Fields, New, Payload, Points, Record, Vectors
from orchestrator.store.rest import Refused

Sparse = Mapping[int, float]
"""A vector by the numbers of its terms."""
Probe = tuple[Sequence[float] | Sparse, int]
"""A vector, and the number of points to find for it: those with the greatest products with it."""
_DENSE, _SPARSE = "meaning", "words"
"""The two vectors of each point in a collection that the server searches."""
_FILTERED = ("server", "keys", "name", "labels", "hosted")
"""The fields of these points that a search filters by."""
_RANK_CONSTANT = 60
"""The constant of reciprocal rank fusion."""
_PAGE = 1_000
_FLOATS = 500_000
"""Numbers of vectors in one request: about 11 MB of JSON, where a Qdrant server takes 32 MB."""


class Where(NamedTuple):
    """Conditions of a search: every field in `all` has one of its values, and no field in `none` has."""

    all: tuple[tuple[str, tuple[str, ...]], ...] = ()
    none: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def having(self, field: str, values: Iterable[str]) -> "Where":
        """Return these conditions and one more: the field has one of these values."""
        return Where((*self.all, (field, tuple(values))), self.none)

    def without(self, field: str, values: Iterable[str]) -> "Where":
        """Return these conditions and one more: the field has none of these values."""
        return Where(self.all, (*self.none, (field, tuple(values))))

    def fits(self, payload: Mapping[str, str | list[str]]) -> bool:
        """Tell whether the conditions hold of a point with these fields."""

        def has(field: str, values: tuple[str, ...]) -> bool:
            own = payload[field]
            return not set(values).isdisjoint([own] if isinstance(own, str) else own)

        return all(has(*one) for one in self.all) and not any(has(*one) for one in self.none)


Search = tuple[Sequence[Probe], Where, int]
"""Probes (none: any point), the conditions of all that is found, and the most that are wanted."""


class ServerPoints(Points):
    """Points on a server, where tenants share the collections: each point names its tenant, in an indexed field.

    The server can search the collections that `create_searched` made.
    """

    def __init__(self, ask: Callable[..., Any], client: Callable[[], Any], tenant: str) -> None:
        """ask: that of the server's Rest; client: opens qdrant-client's."""
        self._ask, self._open, self._tenant = ask, client, tenant

    @property
    def _client(self) -> Any:
        return self._open()

    def names(self) -> list[str]:
        """Return the names of all collections, whichever tenants have points there."""
        return [collection["name"] for collection in self._ask("GET", "/collections")["collections"]]

    def _exists(self, name: str) -> bool:
        return bool(self._ask("GET", f"/collections/{name}/exists")["exists"])

    def size(self, name: str) -> int | None:
        if not self._exists(name):
            return None
        vectors = self._client.get_collection(name).config.params.vectors
        return int(getattr(vectors.get(_DENSE) if isinstance(vectors, dict) else vectors, "size", 0))

    def create(self, name: str, size: int = 0) -> None:
        from qdrant_client import models

        # What is read by id alone needs no graph: making one takes a server seven times as long as keeping the points.
        no_graph = models.HnswConfigDiff(m=0)
        self._create(name, (), vectors_config=_shape(size) if size else {}, hnsw_config=no_graph)

    def create_searched(self, name: str, size: int) -> None:
        """Create a collection for dense vectors of this size and sparse ones, unless there is one."""
        from qdrant_client import models

        sparse = {_SPARSE: models.SparseVectorParams()}
        self._create(name, _FILTERED, vectors_config={_DENSE: _shape(size)}, sparse_vectors_config=sparse)

    def _create(self, name: str, filtered: Sequence[str], **config: Any) -> None:
        from qdrant_client import models
        from qdrant_client.http.exceptions import UnexpectedResponse

        if self._exists(name):
            return
        try:
            self._client.create_collection(name, **config)
        except UnexpectedResponse:
            if not self._exists(name):  # Another writer made it at the same moment.
                raise
        tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        self._client.create_payload_index(name, "tenant", tenant)
        for field in filtered:
            self._client.create_payload_index(name, field, models.PayloadSchemaType.KEYWORD)

    def drop(self, name: str) -> None:
        from qdrant_client import models

        if self._exists(name):
            own = models.FilterSelector(filter=models.Filter(**self._filter()))
            self._client.delete(name, own, wait=True)

    def get(self, name: str, ids: Sequence[str], *, vectors: bool = False, payload: Fields = True) -> dict[str, Record]:
        pages = [ids[start : start + _PAGE] for start in range(0, len(ids), _PAGE)]
        shown = {"with_payload": payload, "with_vector": vectors}
        try:
            found = [self._ask("POST", f"/collections/{name}/points", {"ids": page, **shown}) for page in pages]
        except Refused:
            if self._exists(name):  # This fails where the answer was not a Qdrant server's.
                raise
            return {}
        return {str(record["id"]): _record(record) for page in found for record in page}

    def find(self, name: str, *, vectors: bool = False, payload: Fields = True) -> Iterator[Record]:
        page = {"filter": self._filter(), "limit": _PAGE, "with_payload": payload, "with_vector": vectors}
        offset, more = None, self._exists(name)
        while more:
            found = self._ask("POST", f"/collections/{name}/points/scroll", {**page, "offset": offset})
            yield from map(_record, found["points"])
            more = (offset := found.get("next_page_offset")) is not None

    def put(self, name: str, points: New, vectors: Vectors | None = None) -> None:
        for part, rows in _parts(points, 1 if vectors is None else vectors.shape[1]):
            self._upsert(name, part, {} if vectors is None else vectors[rows].tolist())

    def swap(self, name: str, point: str, payload: Payload, field: str, before: str) -> bool:
        """Do so on a Qdrant server from version 1.16 on.

        With weaker ordering each replica of a collection judges the condition by itself, so two writers can both be
        first.
        """
        from qdrant_client import models

        same = models.FieldCondition(key=field, match=models.MatchValue(value=before))
        condition = models.Filter(must=[same])
        self._upsert(name, {point: payload}, {}, update_filter=condition, ordering=models.WriteOrdering.STRONG)
        return bool(self.get(name, [point])[point].payload[field] == payload[field])

    def _upsert(self, name: str, points: New, vectors: Any, **more: Any) -> None:
        from qdrant_client import models

        own = [{**payload, "tenant": self._tenant} for payload in points.values()]
        self._client.upsert(name, models.Batch(ids=list(points), payloads=own, vectors=vectors), wait=True, **more)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        if ids:
            self._client.delete(name, list(ids), wait=True)

    def _filter(self, where: Where = Where()) -> dict[str, Any]:  # noqa: B008 (it is frozen)
        """Return the filter of these conditions on the tenant's own points."""
        must, must_not = (
            [{"key": field, "match": {"any": list(values)}} for field, values in conditions]
            for conditions in ((("tenant", (self._tenant,)), *where.all), where.none)
        )
        return {"must": must, **({"must_not": must_not} if must_not else {})}

    def put_searched(self, name: str, points: New, vectors: Vectors, words: Sequence[Sparse]) -> None:
        """Write points as `put` does, with their sparse vectors in the same order."""
        for part, rows in _parts(points, vectors.shape[1]):
            self._upsert(name, part, {_DENSE: vectors[rows].tolist(), _SPARSE: [*map(_sparse, words[rows])]})

    def search(self, name: str, searches: Sequence[Search]) -> list[list[str]]:
        """Return for each search the ids of the points that it finds, best first by rank; all in one request."""
        asked = [self._search(*search) for search in searches]
        found = self._ask("POST", f"/collections/{name}/points/query/batch", {"searches": asked})
        return [[str(point["id"]) for point in own["points"]] for own in found]

    def _search(self, probes: Sequence[Probe], where: Where, most: int) -> dict[str, Any]:
        own = self._filter(where)
        asked: dict[str, Any] = {"filter": own, "limit": most, "with_payload": False}
        if probes:
            asked["prefetch"] = [{**_query(probe), "filter": own, "limit": limit} for probe, limit in probes]
            asked["query"] = {"rrf": {"k": _RANK_CONSTANT}}
        return asked


def _shape(size: int) -> Any:
    from qdrant_client import models

    return models.VectorParams(size=size, distance=models.Distance.DOT)


def _parts(points: New, size: int) -> Iterator[tuple[New, slice]]:
    """Yield the points of one request after the other, with their rows in the vectors."""
    ids, most = list(points), max(1, _FLOATS // size)
    for start in range(0, len(ids), most):
        rows = slice(start, start + most)
        yield {point: points[point] for point in ids[rows]}, rows


def _query(probe: Sequence[float] | Sparse) -> dict[str, Any]:
    if isinstance(probe, Mapping):
        return {"query": {"indices": list(probe), "values": list(probe.values())}, "using": _SPARSE}
    return {"query": list(probe), "using": _DENSE}


def _sparse(vector: Sparse) -> Any:
    from qdrant_client import models

    return models.SparseVector(indices=list(vector), values=list(vector.values()))


def _record(record: Mapping[str, Any]) -> Record:
    vector = record.get("vector")
    vector = vector.get(_DENSE) if isinstance(vector, dict) else vector
    return Record(str(record["id"]), record.get("payload") or {}, np.array(vector, np.float32) if vector else None)
