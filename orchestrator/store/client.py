"""A tenant's points in a Qdrant server, or in memory: both through qdrant-client."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.store.points import (
    FILTERED,
    MEANING,
    RANKED,
    WORDS,
    Fields,
    New,
    Payload,
    Points,
    Probe,
    Record,
    Sparse,
    Vectors,
    Where,
    Words,
)

_PAGE = 1_000
_FLOATS = 500_000
"""Numbers of vectors in one request: about 11 MB of JSON, where a Qdrant server takes 32 MB."""


class ClientPoints(Points):
    """On a server, tenants share the collections: each point says its tenant, in a field that the server indexes."""

    def __init__(self, client: Any, tenant: str, *, remote: bool = False) -> None:
        self._client, self._tenant, self._remote = client, tenant, remote

    def names(self) -> list[str]:
        """Return what the collections are called, whoever has points there."""
        return [collection.name for collection in self._client.get_collections().collections]

    def size(self, name: str) -> int | None:
        if not self._client.collection_exists(name):
            return None
        vectors = self._client.get_collection(name).config.params.vectors
        return int(getattr(vectors.get(MEANING) if isinstance(vectors, dict) else vectors, "size", 0))

    def create(self, name: str, size: int = 0, *, searched: bool = False) -> None:
        from qdrant_client import models
        from qdrant_client.http.exceptions import UnexpectedResponse

        if self._client.collection_exists(name):
            return
        shape: Any = models.VectorParams(size=size, distance=models.Distance.DOT) if size else {}
        sparse = {WORDS: models.SparseVectorParams()} if searched else None
        shape = {MEANING: shape} if searched else shape
        try:
            self._client.create_collection(name, vectors_config=shape, sparse_vectors_config=sparse)
        except UnexpectedResponse:
            if not self._client.collection_exists(name):  # Another writer's, made at the same moment.
                raise
        if self._remote:
            kind = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            self._client.create_payload_index(name, "tenant", kind)
            for field in FILTERED if searched else ():
                self._client.create_payload_index(name, field, models.PayloadSchemaType.KEYWORD)

    def drop(self, name: str) -> None:
        from qdrant_client import models

        if self._client.collection_exists(name):
            self._client.delete(name, models.FilterSelector(filter=self._own()), wait=True)

    def get(self, name: str, ids: Sequence[str], *, vectors: bool = False, payload: Fields = True) -> dict[str, Record]:
        from qdrant_client.http.exceptions import UnexpectedResponse

        pages = [ids[start : start + _PAGE] for start in range(0, len(ids), _PAGE)]
        what: Any = {"with_payload": payload, "with_vectors": vectors}
        try:
            return {str(r.id): _record(r) for page in pages for r in self._client.retrieve(name, page, **what)}
        except UnexpectedResponse as error:
            if error.status_code != 404:
                raise
            self._client.collection_exists(name)  # Any web server says 404; this fails where it is not Qdrant's.
        except ValueError:  # The word of qdrant-client's engine in memory for it.
            if self._remote:
                raise
        return {}

    def find(self, name: str, *, vectors: bool = False, payload: Fields = True) -> Iterator[Record]:
        page: dict[str, Any] = {"limit": _PAGE, "with_payload": payload, "with_vectors": vectors}
        offset, more = None, bool(self._client.collection_exists(name))
        while more:
            records, offset = self._client.scroll(name, self._own(), offset=offset, **page)
            yield from map(_record, records)
            more = offset is not None

    def search(self, name: str, probes: Sequence[Probe], where: Where, most: int) -> list[str]:
        from qdrant_client import models

        own = self._own(where)
        if not probes:
            return [str(found.id) for found in self._client.scroll(name, own, limit=most, with_payload=False)[0]]
        prefetch = [
            models.Prefetch(query=_sparse(probe), using=WORDS, filter=own, limit=limit)
            if isinstance(probe, Mapping)
            else models.Prefetch(query=list(probe), using=MEANING, filter=own, limit=limit)
            for probe, limit in probes
        ]
        ranks = models.RrfQuery(rrf=models.Rrf(k=RANKED))
        found = self._client.query_points(name, prefetch=prefetch, query=ranks, limit=most, with_payload=False)
        return [str(point.id) for point in found.points]

    def put(self, name: str, points: New, vectors: Vectors | None = None, words: Words = None) -> None:
        ids, size = list(points), 1 if vectors is None else vectors.shape[1]
        rows = max(1, _FLOATS // size)
        for start in range(0, len(ids), rows):
            page = ids[start : start + rows]
            own: Any = {} if vectors is None else vectors[start : start + rows].tolist()
            own = own if words is None else {MEANING: own, WORDS: [*map(_sparse, words[start : start + rows])]}
            self._upsert(name, page, [points[point] for point in page], own)

    def swap(self, name: str, point: str, payload: Payload, field: str, before: str) -> bool:
        """Do so on a Qdrant server from version 1.16 on."""
        from qdrant_client import models

        same = models.FieldCondition(key=field, match=models.MatchValue(value=before))
        self._upsert(name, [point], [payload], {}, update_filter=models.Filter(must=[same]))
        return bool(self.get(name, [point])[point].payload[field] == payload[field])

    def _upsert(self, name: str, ids: list[str], payloads: list[Payload], vectors: Any, **more: Any) -> None:
        from qdrant_client import models

        own = [{**payload, "tenant": self._tenant} for payload in payloads]
        batch = models.Batch(ids=[*ids], payloads=own, vectors=vectors)
        self._client.upsert(name, batch, wait=True, **more)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        if ids:
            self._client.delete(name, list(ids), wait=True)

    def purge(self, name: str) -> None:
        """Leave that to the server, which does so by itself, in time."""

    def _own(self, where: Where = Where()) -> Any:  # noqa: B008 (it is frozen)
        from qdrant_client import models

        def having(field: str, values: Sequence[str]) -> Any:
            return models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))

        own = models.FieldCondition(key="tenant", match=models.MatchValue(value=self._tenant))
        must = [own, *(having(*one) for one in where.all)]
        return models.Filter(must=must, must_not=[having(*one) for one in where.none] or None)


def _sparse(vector: Sparse) -> Any:
    from qdrant_client import models

    return models.SparseVector(indices=list(vector), values=list(vector.values()))


def _record(record: Any) -> Record:
    vector = record.vector
    return Record(str(record.id), record.payload or {}, vector.get(MEANING) if isinstance(vector, dict) else vector)
