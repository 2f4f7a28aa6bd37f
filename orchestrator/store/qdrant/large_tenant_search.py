"""A large tenant: its tools are too many for one process, so a Qdrant server searches them.

Its tools are in a separate collection, `tool_search__EMBEDDER`. Each point has the embedder's vector and a sparse
vector with the BM25 weights of its terms. The tenant's manifest has the statistics of all its tools.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import FAULTS, InvalidConfig, StoreUnavailable, Unauthorised
from orchestrator.index.corpus_statistics import CorpusStatistics, bm25_weights
from orchestrator.index.documents import Document
from orchestrator.index.index import Sizes
from orchestrator.records.tool import Kind, Tool
from orchestrator.store.manifest import Manifest
from orchestrator.store.opening import Qdrant
from orchestrator.store.points import Points, Record, Vectors
from orchestrator.store.qdrant.client import Probe, Search, ServerPoints, Where
from orchestrator.store.tool_records import stored_tool, tool_id, tool_payload

_PAGE, _MOST_KNOWN = 4_096, 20_000
_PATIENCE, _BELIEVED_S = 0.2, 10.0
"""The share of the store's timeout for one search of a route, and the seconds until a failure is tried again."""
_SAMPLE = 500
"""The number of tools from which the spread of all cosines is estimated. Ids are hashes, so any tools are a fair
sample.
"""


def add(points: ServerPoints, collection: str, tools: Mapping[str, Tool], vectors: Vectors) -> None:
    """Write a searchable point for each tool.

    Args:
        points: The tenant's points on the server.
        collection: The name of the collection.
        tools: The tools by point id.
        vectors: The vectors of the tools, shape [tools, dimension].
    """
    documents = [Document.of(tool) for tool in tools.values()]
    sizes = Sizes.of([document.tool for document in documents])  # Without the suspicious parts.
    payloads = [_payload(*one) for one in zip(tools.values(), sizes.tokens.tolist(), sizes.plain.tolist(), strict=True)]
    points.create_searched(collection, vectors.shape[1])
    new = dict(zip(tools, payloads, strict=True))
    points.put_searched(collection, new, vectors, [bm25_weights(document) for document in documents])


def _payload(tool: Tool, tokens: int, plain: int) -> dict[str, Any]:
    return {**tool_payload(tool), **_fields(tool), "sizes": [tokens, plain]}


def _fields(tool: Tool) -> dict[str, Any]:
    """Return the fields by which a search filters."""
    return {
        "server": tool.server,
        "name": tool.name,
        "keys": [tool.key, *(relation.to for relation in tool.relations if relation.replaces)],
        "labels": [f"{name}={value}" for name, value in tool.filtered_by.items()],
        "hosted": tool.server if tool.kind is Kind.MCP else "",
    }


def with_statistics(points: Points, before: Manifest, after: Manifest) -> Manifest:
    """Return `after` with the statistics of its tools. Only tools that `before` does not count are read.

    Args:
        points: The tenant's points.
        before: The manifest before the write.
        after: The manifest after the write.
    """
    had, has = before.definitions(), after.definitions()
    with suppress(*FAULTS):  # If a record is damaged or missing, all tools are counted again.
        if before.statistics and before.collection == after.collection:
            counted = CorpusStatistics.read(before.statistics)
            if had == has:
                return replace(after, statistics=before.statistics)
            new, gone = (_counted(points, after, tools) for tools in (has - had, had - has))
            return replace(after, statistics=(counted + new - gone).text())
    return replace(after, statistics=_counted(points, after, has).text())


def _counted(points: Points, owner: Manifest, tools: Collection[tuple[str, str]]) -> CorpusStatistics:
    """Return the statistics of these tools, given by key and definition hash. Raise KeyError if one is missing."""
    found, wanted = CorpusStatistics(), sorted(tool_id(owner.tenant, *tool) for tool in tools)
    for start in range(0, len(wanted), _PAGE):
        page = wanted[start : start + _PAGE]
        records = points.get(owner.collection, page, payload=["tool", "sizes"])
        read = [
            (tool, records[point].payload["sizes"][0])
            for point in page
            if (tool := stored_tool(records[point].payload))
        ]
        found += CorpusStatistics.of([Document.of(tool) for tool, _ in read], sum(tokens for _, tokens in read))
    return found


class Candidate(NamedTuple):
    """A tool that a search found.

    Attributes:
        tool: The tool.
        vector: Its vector, shape [dimension].
        sizes: The tokens and the bytes of its definition.
    """

    tool: Tool
    vector: NDArray[np.float32]
    sizes: tuple[int, int]


class SearchedTools:
    """The tools of one owner that the server searches, with their statistics and a sample of their vectors."""

    def __init__(self, qdrant: Qdrant, owner: Manifest, hidden: Collection[str] = ()) -> None:
        """Read the statistics and the sample.

        Args:
            qdrant: The store.
            owner: The manifest of the owner.
            hidden: The names of servers that are never found.
        """
        self._qdrant, self.owner, self._hidden = qdrant, owner, tuple(hidden)
        self._known: dict[str, Candidate] = {}
        self.failure, self._again_at = "", 0.0
        """Why the server does not answer (empty if it does), and the time of the next try."""
        try:
            self.statistics = CorpusStatistics.read(owner.statistics)
        except FAULTS:
            raise InvalidConfig(
                f"the store's statistics of the tools of tenant {owner.tenant!r} are damaged: import the tools again "
                "with `toolroute tools import`"
            ) from None
        [self.sample] = self.search([((), Where(), _SAMPLE)])

    def servers_with(self, name: str) -> set[str]:
        """Return the servers that have a tool of this name."""
        tools = self.owner.tools.items()
        return {server for server, named in tools if name in named and server not in self._hidden}

    def search(self, searches: Sequence[Search]) -> list[list[Candidate]]:
        """Return the tools that each search finds, best first.

        A search without probes finds any tools that meet its conditions. While the server does not answer, tools that
        it returned earlier are searched, and `failure` has the reason.
        """
        if self._hidden:
            searches = [(probes, where.without("server", self._hidden), most) for probes, where, most in searches]
        if not self._known or time.monotonic() >= self._again_at:
            try:
                found = self._searched(searches)
                self.failure = ""
                return found
            except (StoreUnavailable, Unauthorised) as error:
                if not self._known:
                    raise
                self.failure, self._again_at = str(error), time.monotonic() + _BELIEVED_S
        return [self._at_hand(*search) for search in searches]

    def _searched(self, searches: Sequence[Search]) -> list[list[Candidate]]:
        known = self._known
        with self._qdrant.searching(self.owner.tenant, _PATIENCE * self._qdrant.timeout_s if known else 0) as points:
            found = points.search(self.owner.collection, searches)
            known = self._known = known if len(known) < _MOST_KNOWN else {}
            if new := list(dict.fromkeys(point for ids in found for point in ids if point not in known)):
                records = points.get(self.owner.collection, new, vectors=True)
                known |= {point: one for point, record in records.items() if (one := _candidate(record))}
        return [[known[point] for point in ids if point in known and self._has(known[point].tool)] for ids in found]

    def _at_hand(self, probes: Sequence[Probe], where: Where, most: int) -> list[Candidate]:
        """Return the known tools that are nearest to a vector of the probes. Probes with words alone give no order."""
        fitting = [own for own in list(self._known.values()) if where.fits(_fields(own.tool)) and self._has(own.tool)]
        wanted = [probe for probe, _ in probes if not isinstance(probe, Mapping)]
        if not (fitting and wanted):
            return fitting[:most]
        nearest = (np.array([own.vector for own in fitting]) @ np.array(wanted, np.float32).T).max(axis=1)
        return [fitting[row] for row in np.argsort(-nearest, kind="stable")[:most]]

    def _has(self, tool: Tool) -> bool:
        """Return True if the manifest names the tool. Other writers may add or remove points."""
        return self.owner.tools.get(tool.server, {}).get(tool.name) == tool.hash


def _candidate(record: Record) -> Candidate | None:
    tool = stored_tool(record.payload)
    if tool is None or record.vector is None:
        return None
    tokens, plain = record.payload["sizes"]
    return Candidate(tool, np.array(record.vector, np.float32), (tokens, plain))
