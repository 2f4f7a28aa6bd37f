"""A tenant with more tools than a process should hold: kept so that they are searched where they are.

Beside the collection of all tools another holds those of such tenants, with sparse vectors, too: the weights of their
documents' terms. The tenant's manifest then has their census.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import FAULTS, InvalidConfig
from orchestrator.index.corpus_statistics import CorpusStatistics, weights
from orchestrator.index.documents import Document
from orchestrator.index.index import Sizes
from orchestrator.records.durable_names import COLLECTION, SEARCHED
from orchestrator.records.tool import Kind, Tool
from orchestrator.store import manifest
from orchestrator.store.folder import Moved
from orchestrator.store.manifest import Manifest, stored_tool, tool_payload
from orchestrator.store.points import Points, Probe, Record, Vectors, Where
from orchestrator.store.qdrant import Qdrant
from orchestrator.store.snapshot import Stored

_PAGE, _ATTEMPTS, _MOST_KNOWN = 4_096, 5, 20_000
T = TypeVar("T")


def searched(collection: str) -> str:
    """Name the collection that is searched beside this one."""
    return f"{SEARCHED}{collection.removeprefix(COLLECTION)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """Some tools as they are counted, with their points' ids; vectors [tools, dimension]."""

    ids: Sequence[str]
    tools: Sequence[Tool]
    vectors: Vectors

    def counted(self) -> tuple[CorpusStatistics, list[Document], Sizes]:
        documents = [Document.of(tool) for tool in self.tools]
        sizes = Sizes.of([document.tool for document in documents])  # Without what is suspicious.
        return CorpusStatistics.of(self.ids, documents, self.vectors, int(sizes.tokens.sum())), documents, sizes


def with_census(points: Points, before: Manifest, after: Manifest) -> Manifest:
    """Return `after` with the census of its tools, each of which can then be searched.

    Only what is new or gone is read, where `before` has a census. What is gone stays until `forget`.
    """
    name, now = searched(after.collection), [point for point, *_ in after.points()]
    census, had = _known(points, before, after), frozenset(point for point, *_ in before.points())
    if census is not None:
        gone = list(_pages(points, name, sorted(had.difference(now))))
        if sum(len(page.ids) for page in gone) == len(had.difference(now)):
            for page in gone:
                census -= page.counted()[0]
            now = [point for point in now if point not in had]
        else:  # What should be there is not: all is counted again.
            census = None
    if census is None:
        points.drop(name)
    for page in _pages(points, after.collection, now):
        own, documents, sizes = page.counted()
        if census is None:
            census = replace(CorpusStatistics.none(page.vectors.shape[1]), reference=own.length / len(page.ids))
            points.create(name, page.vectors.shape[1], searched=True)
        payloads = [_payload(*one) for one in zip(page.tools, sizes.tokens.tolist(), sizes.plain.tolist(), strict=True)]
        words = [weights(document, census.reference) for document in documents]
        points.put(name, dict(zip(page.ids, payloads, strict=True)), page.vectors, words)
        census += own
    counted = replace(census, fingerprint=after.fingerprint).text() if census else ""
    return replace(after, census=counted)


def forget(points: Points, before: Manifest, after: Manifest, *, scan: bool) -> None:
    """Remove from what is searched all that `after` does not name; scan: what no manifest ever named, too."""
    if before.census and (not after.census or before.collection != after.collection):
        points.drop(searched(before.collection))
    if not after.census:
        return
    name, named = searched(after.collection), {point for point, *_ in after.points()}
    there = [record.id for record in points.find(name, payload=False)] if scan else [p for p, *_ in before.points()]
    points.delete(name, [point for point in there if point not in named])


def _known(points: Points, before: Manifest, after: Manifest) -> CorpusStatistics | None:
    if not before.census or before.collection != after.collection:
        return None
    first = next(point for point, *_ in before.points())
    if not points.get(searched(after.collection), [first], payload=False):  # Lost, or damaged.
        return None
    try:
        return CorpusStatistics.read(before.census)
    except FAULTS:
        return None


def _pages(points: Points, name: str, ids: Sequence[str]) -> Iterator[_Page]:
    for start in range(0, len(ids), _PAGE):
        records = points.get(name, ids[start : start + _PAGE], vectors=True).values()
        found = [(record, tool) for record in records if (tool := stored_tool(record.payload)) is not None]
        if found:
            yield _Page(
                ids=[record.id for record, _ in found],
                tools=[tool for _, tool in found],
                vectors=np.array([record.vector for record, _ in found], np.float32),
            )


def _payload(tool: Tool, tokens: int, plain: int) -> dict[str, Any]:
    return {
        **tool_payload(tool),
        "server": tool.server,
        "name": tool.name,
        "keys": [tool.key, *(relation.to for relation in tool.relations if relation.replaces)],
        "labels": [f"{name}={value}" for name, value in tool.filtered_by.items()],
        "hosted": tool.server if tool.kind is Kind.MCP else "",
        "sizes": [tokens, plain],
    }


class Candidate(NamedTuple):
    """A tool that a search found, its vector [dimension], its definition's tokens and bytes."""

    tool: Tool
    vector: NDArray[np.float32]
    sizes: tuple[int, int]


class Held:
    """One owner's many tools as they are in the store: `census` and `search`. A folder's stay as they were."""

    def __init__(self, qdrant: Qdrant, owner: str, collection: str) -> None:
        self._qdrant, self._owner, self._collection, self._name = qdrant, owner, collection, searched(collection)
        self._open, self._turn = ExitStack(), threading.Lock()
        self._points = self._open.enter_context(qdrant.reading(owner)) if qdrant.folder else None
        weakref.finalize(self, self._open.close)  # Whoever searches in it keeps it open.
        self.hidden: tuple[str, ...] = ()
        self._known: dict[str, Candidate] = {}
        self.census = self._read(self._counted)
        if len(self.census):
            self.search((), Where(), 1)  # Opens it.

    def search(self, probes: Sequence[Probe], where: Where, most: int) -> list[Candidate]:
        """Return the tools that any probe finds, best first; without probes any that fit."""
        where = where.without("server", self.hidden)
        ids = self._read(lambda points: points.search(self._name, probes, where, most))
        ids = [point for point, own in zip(ids, self.census.has(ids).tolist(), strict=True) if own]
        known = self._known = self._known if len(self._known) < _MOST_KNOWN else {}
        if new := [point for point in ids if point not in known]:
            found = self._read(lambda points: points.get(self._name, new, vectors=True))
            known |= {point: one for point, record in found.items() if (one := _candidate(record))}
        return [known[point] for point in ids if point in known]

    def _counted(self, points: Points) -> CorpusStatistics:
        text = manifest.census(points, self._owner, self._collection)
        if not text or points.size(self._name) is None:
            return CorpusStatistics.none(0)
        try:
            return CorpusStatistics.read(text)
        except FAULTS:
            raise InvalidConfig(
                f"the store's count of the tools of {self._owner!r} is damaged or of another form: import the tools "
                "again with `toolroute tools import`"
            ) from None

    def _read(self, ask: Callable[[Points], T]) -> T:
        if self._points is None:
            return self._qdrant.read(self._owner, ask)
        with self._turn, self._qdrant.failing(self._owner):
            return ask(self._points)


def held(qdrant: Qdrant, owner: str, collection: str, limit: int) -> Held | None:
    """Return the owner's tools as they are searched; None where there are no more than `limit`."""
    for attempt in range(_ATTEMPTS):
        try:
            found = Held(qdrant, owner, collection)
        except Moved:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return found if len(found.census) > limit else None
    return None


def _candidate(record: Record) -> Candidate | None:
    tool = stored_tool(record.payload)
    if tool is None or record.vector is None:
        return None
    tokens, plain = record.payload["sizes"]
    return Candidate(tool, np.array(record.vector, np.float32), (tokens, plain))


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """A tenant's tools, of which many are searched in the store, and `few` are at hand: vectors [few, dimension]."""

    held: tuple[Held, ...]
    few: Stored
    vectors: Vectors
