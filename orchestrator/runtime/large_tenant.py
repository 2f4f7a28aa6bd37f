"""Routing for a large tenant: for each request, a Qdrant server finds the few tools that may fit.

These tools become an Index, with the statistics of all tools. So every stage runs on it as on an Index of all tools.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.catalogue import Excerpt
from orchestrator.common.digests import digest
from orchestrator.common.keys import split_key
from orchestrator.index.always import Capability, candidates, key_for
from orchestrator.index.bm25 import code_of, inverse_frequency
from orchestrator.index.corpus_statistics import CorpusStatistics
from orchestrator.index.embed import Vectors
from orchestrator.index.graph import NEEDED_HOPS
from orchestrator.index.index import Index, Sizes
from orchestrator.index.intent import known_actions
from orchestrator.index.prerequisites import sought
from orchestrator.index.reading import Documents, Reading
from orchestrator.index.servers import ServerIndex
from orchestrator.pipeline.legs.explicit import find_servers
from orchestrator.pipeline.understand import Understood
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import CatalogueVersion
from orchestrator.store.qdrant.client import Probe, Search, Where
from orchestrator.store.qdrant.large_tenant_search import Candidate
from orchestrator.store.store import LargeTenantTools

MOST, LEG, PART = 200, 80, 12
"""The maximum number of candidates: of one search, for a vector of the whole task, and for a vector of each of its
parts.
"""
NEAR, SIBLINGS = 10, 100
"""The number of servers of the best candidates, and of further tools of each. They are the evidence for a server."""
RELATED = 20
"""The number of best candidates for which needed tools are searched."""
_MOST_PARTS, _MOST_READ, _MOST_NAMED = 8, 20_000, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRequest:
    """A request for which candidates are searched.

    Attributes:
        request: The request itself.
        understood: The analysis of its task.
        vectors: The vectors of the whole task and of its parts, shape [1 + parts, dimension]. None: search by words
            alone.
        keys: Tools that must be candidates, if the tenant has them.
        servers: The MCP servers that can be called. None: all.
    """

    request: RouteRequest
    understood: Understood
    vectors: Vectors | None = None
    keys: Collection[str] = ()
    servers: Collection[str] | None = None


class LargeTenant:
    """The tools of a large tenant, searched by a Qdrant server."""

    def __init__(self, tools: LargeTenantTools, capabilities: Sequence[Capability]) -> None:
        self._searched, few = tools.searched, tools.few
        self.note, self._seen = few.note, Documents(())
        self._owners: dict[str, set[str]] = {}
        documents = Documents(few.tools, self._seen).all()
        sizes = Sizes.of([document.tool for document in documents])
        self._few = [Candidate(*row) for row in zip(few.tools, tools.vectors, sizes.rows, strict=True)]
        self._statistics = CorpusStatistics.of(documents, sizes.tokens_total)
        for own in self._searched:
            self._statistics += own.statistics
        self._sample = np.array([*(one.vector for own in self._searched for one in own.sample), *tools.vectors])
        prints = [few.catalogue.fingerprint, *(own.owner.fingerprint for own in self._searched)]
        self.version = CatalogueVersion(fingerprint=digest(" ".join(prints), 16), tools=self._statistics.size)
        self.terms, self.actions = self._statistics.holders, known_actions()
        owned = (server for own in self._searched for server, named in own.owner.tools.items() if named)
        self.hosts: AbstractSet[str] = {*owned, *(tool.server for tool in few.tools)}
        """The servers whose tools the tenant has."""
        named = self.hosts - {""}
        self.servers = ServerIndex(named, self._statistics.words, few.unlisted - named)
        self._always = dict(self._always_of(capabilities))

    @property
    def warning(self) -> str:
        """Why the server does not answer. Empty if it does."""
        failures = "; ".join(dict.fromkeys(own.failure for own in self._searched if own.failure))
        return f"only tools in the memory of this process were searched: {failures}" if failures else ""

    def index(self, asked: CandidateRequest) -> Index:
        """Return an Index of the few tools that may fit. The call blocks, because it asks the server."""
        found = self._found(asked)
        catalogue = Excerpt((own.tool for own in found.values()), self.version)
        ordered = [found[tool.key] for tool in catalogue]
        documents = Documents(catalogue.tools, self._seen)
        said = asked.understood
        terms = dict.fromkeys([*said.terms, *(term for part in said.parts for term in part.terms)])
        owners = self._owners_of({name for document in documents.all() for name in document.names})
        reading = Reading.of(documents.all(), catalogue.places, self._statistics.global_statistics, terms, owners)
        if len(self._seen.known) > _MOST_READ:
            self._seen.known.clear()
        self._seen.known.update(documents.known)
        index = Index(
            catalogue,
            list(self._always),
            np.array([own.vector for own in ordered], np.float32) if ordered else None,
            note=self.note,
            documents=documents,
            reading=reading,
            servers=self.servers,
            spread=self._spread,
            owners=owners,
        )
        index.sizes = Sizes.of_rows([own.sizes for own in ordered], self._statistics.tokens)
        return index

    def _owners_of(self, names: AbstractSet[str]) -> dict[str, set[str]]:
        """Return the servers that have a tool of each of these names. Names that no tool has are left out."""
        if len(self._owners) > _MOST_READ:
            self._owners.clear()
        for name in names - self._owners.keys():
            found = {own.tool.server for own in self._few if own.tool.name == name}
            self._owners[name] = found.union(*(own.servers_with(name) for own in self._searched))
        return {name: self._owners[name] for name in names if self._owners[name]}

    def _spread(self, queries: Vectors) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean and the standard deviation of all tools' cosines with each query, estimated from a sample."""
        cosines = (queries @ self._sample.T).astype(np.float64)
        return cosines.mean(axis=1), cosines.std(axis=1)

    def _found(self, asked: CandidateRequest) -> dict[str, Candidate]:
        """Return the candidates by key, best first."""
        said = find_servers(asked.understood.text, self.servers)
        here = Where(tuple(("labels", (f"{name}={value}",)) for name, value in asked.request.filters.items()))
        if servers := _servers_of(asked.request.only):
            here = here.having("server", servers)
        if unwanted := [server for server in said.unwanted if server not in said.wanted]:
            here = here.without("server", unwanted)
        if asked.servers is not None:
            here = here.having("hosted", [*asked.servers, ""])
        probes = self._probes(asked)
        whole = [(probe, SIBLINGS) for probe, _ in probes[:2]]
        first = self._search(probes, here) or self._search(probes, Where()) or self._search((), Where())
        near = dict.fromkeys(own.tool.server for own in first.values())
        searches: list[Search] = [(whole, here.having("server", [*list(near)[:NEAR], *said.wanted]), MOST)]
        wishes = [("labels", (f"{name}={value}",)) for name, value in asked.request.context.items()]
        # The stage `filters` applies as many wishes as leave a tool, in an order that the pipeline defines.
        some = dict.fromkeys([*(tuple(wishes[: n + 1]) for n in range(len(wishes))), *((own,) for own in wishes)])
        searches += [(whole, here._replace(all=(*here.all, *own)), MOST) for own in some]
        documents = Documents([own.tool for own in list(first.values())[:RELATED]], self._seen)
        best = documents.all()
        self._seen.known.update(documents.known)
        needs = [sought(document) for document in best]
        if giving := self._rarities({term: 1.0 for terms, _ in needs for term in terms}):
            of_best = here.having("server", {own.tool.server for own in best})
            searches.append(([(giving, SIBLINGS)], of_best, MOST))
        found = first | {own.tool.key: own for own in (*self._few, *self._always.values())}
        wanted = {*asked.keys, *(key for _, named in needs for key in named)}
        wanted |= {relation.to for own in best for relation in own.tool.relations}
        searches += _of_keys(wanted - found.keys())
        found |= self._search_all(searches)
        return self._with_related(found, wanted)

    def _probes(self, asked: CandidateRequest) -> list[Probe]:
        """Return the words and the vectors of the whole task and of its parts."""
        width, found = max(LEG, 3 * asked.request.limit), list[Probe]()
        terms = [asked.understood.terms, *(part.terms for part in asked.understood.parts[:_MOST_PARTS])]
        for number, weighted in enumerate(terms):
            most = width if number == 0 else PART
            if words := self._rarities(weighted):
                found.append((words, most))
            if asked.vectors is not None and asked.vectors[number].any():
                found.append((asked.vectors[number].tolist(), most))
        return found

    def _rarities(self, terms: Mapping[str, float]) -> dict[int, float]:
        known = [term for term in terms if term in self.terms]
        rare = inverse_frequency(np.array([self.terms[term] for term in known], np.int64), self._statistics.size)
        return {code_of(term): terms[term] * idf for term, idf in zip(known, rare.tolist(), strict=True)}

    def _with_related(self, found: dict[str, Candidate], ahead: Iterable[str]) -> dict[str, Candidate]:
        """Return the candidates with the tools to which relations lead, also over several hops."""
        for _ in range(NEEDED_HOPS - 1):
            new = {
                relation.to for key in ahead if key in found for relation in found[key].tool.relations
            } - found.keys()
            own = self._search_all(_of_keys(new))
            if not own:
                break
            found, ahead = found | own, list(own)
        return found

    def _always_of(self, capabilities: Sequence[Capability]) -> Iterable[tuple[Capability, Candidate]]:
        """Yield the capabilities that these tools have, by key."""
        names = {split_key(own.tool)[1] for own in capabilities}
        found = self._search((), Where().having("name", sorted(names)), _MOST_NAMED) if names else {}
        found |= {own.tool.key: own for own in self._few}
        tools = candidates((one.tool for one in found.values()), capabilities)
        for own in capabilities:
            if (key := key_for(own.tool, tools)) is not None:
                yield replace(own, tool=key), found[key]

    def _search(self, probes: Sequence[Probe], where: Where, most: int = MOST) -> dict[str, Candidate]:
        return self._search_all([(probes, where, most)])

    def _search_all(self, searches: Sequence[Search]) -> dict[str, Candidate]:
        """Return the results of the searches by key. The server gets one request."""
        found = [owned for own in self._searched for owned in own.search(searches)] if searches else []
        return {one.tool.key: one for candidates in found for one in candidates}


def _of_keys(keys: Collection[str]) -> list[Search]:
    """Return the search for the tools with these keys. Without keys, nothing is searched."""
    return [((), Where().having("keys", sorted(keys)[:_MOST_NAMED]), _MOST_NAMED)] if keys else []


def _servers_of(patterns: Sequence[str]) -> list[str]:
    """Return the servers to which patterns of keys are limited. Empty if a pattern may mean any server."""
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    if any(not {*"*?["}.isdisjoint(pattern.partition(":")[0]) for pattern in wanted):
        return []
    return [split_key(pattern)[0] for pattern in wanted]  # "" for a tool without a server.
