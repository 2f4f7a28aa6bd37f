"""Routing among more tools than a process holds: for each request the store is searched for the few that may fit.

An Index is made of these, which knows what a search must know of all tools from their census. So every stage runs on it
as on an Index of all.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from orchestrator.catalogue.catalogue import Excerpt
from orchestrator.common.digests import digest
from orchestrator.index.always import Capability, position_of
from orchestrator.index.bm25 import code_of, inverse_frequency
from orchestrator.index.corpus_statistics import CorpusStatistics
from orchestrator.index.embed import Vectors
from orchestrator.index.graph import NEEDED_HOPS
from orchestrator.index.index import Index, Sizes
from orchestrator.index.intent import known_actions
from orchestrator.index.prerequisites import sought
from orchestrator.index.reading import Documents, Reading
from orchestrator.index.servers import ServerIndex
from orchestrator.pipeline.explain import MAX_REJECTED
from orchestrator.pipeline.legs.explicit import find_servers
from orchestrator.pipeline.understand import Understood
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import CatalogueVersion
from orchestrator.store.large_tenant import Candidate, Searched
from orchestrator.store.manifest import tool_id
from orchestrator.store.points import Probe, Where

MOST, LEG, PART = 200, 80, 12
"""Candidates in all, of a leg for the whole task, and of a leg for each of its parts."""
NEAR, SIBLINGS = 10, 100
"""Servers of the best candidates, and how many of their tools are candidates, too: these are the servers' evidence."""
RELATED = 20
"""The best candidates whose stated relations are followed."""
_MOST_PARTS, _MOST_READ, _MOST_NAMED = 8, 20_000, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRequest:
    """A request as candidates are sought for it; vectors of the whole and its parts [1 + parts, dimension].

    `keys`: tools that must be there, if they are any of the tenant's; `servers`: the MCP servers that can be called.
    """

    request: RouteRequest
    understood: Understood
    vectors: Vectors | None = None
    keys: Collection[str] = ()
    servers: Collection[str] | None = None


class LargeTenant:
    """The tools of a tenant with more than a process holds."""

    def __init__(self, searched: Searched, capabilities: Sequence[Capability]) -> None:
        self._held, few = searched.held, searched.few
        self.note, self._seen = few.note, Documents(())
        read = Documents(few.tools).all()
        rows = Sizes.of([document.tool for document in read]).rows
        self._few = [Candidate(*row) for row in zip(few.tools, searched.vectors, rows, strict=True)]
        self._statistics = self._counted(searched.vectors)
        prints = [few.catalogue.fingerprint] if self._few else []
        prints += [own.census.fingerprint for own in self._held]
        whole = prints[0] if len(prints) == 1 else digest(" ".join(prints), 16)
        self.version = CatalogueVersion(fingerprint=whole, tools=len(self._statistics))
        self.terms, self.actions = self._statistics.holders, known_actions() | self._statistics.actions.keys()
        named = self._statistics.servers.keys() - {""}
        self.servers = ServerIndex(named, self._statistics.words.keys(), few.unlisted - named)
        self._always = list(self._always_of(capabilities))
        self._capabilities = [own for own, _ in self._always]

    @property
    def hosts(self) -> AbstractSet[str]:
        """The servers whose tools the tenant has."""
        return self._statistics.servers.keys()

    def index(self, asked: CandidateRequest) -> Index:
        """Return an Index of the few tools that may fit; blocks, as the store is searched."""
        found = self._found(asked)
        catalogue = Excerpt((own.tool for own in found.values()), self.version)
        ordered = [found[tool.key] for tool in catalogue]
        documents = Documents(catalogue.tools, self._seen)
        said = asked.understood
        terms = dict.fromkeys([*said.terms, *(term for part in said.parts for term in part.terms)])
        reading = Reading.of(documents.all(), catalogue.places, self._statistics.global_statistics, terms)
        if len(self._seen.known) > _MOST_READ:
            self._seen.known.clear()
        self._seen.known.update(documents.known)
        vectors = np.array([own.vector for own in ordered], np.float32)
        index = Index(
            catalogue,
            self._capabilities,
            vectors if len(ordered) else None,
            note=self.note,
            documents=documents,
            reading=reading,
            servers=self.servers,
            spread=self._statistics.spread,
        )
        index.sizes = Sizes.of_rows([own.sizes for own in ordered], self._statistics.tokens)
        return index

    def _found(self, asked: CandidateRequest) -> dict[str, Candidate]:
        """Return the candidates by key, the best first."""
        said = find_servers(asked.understood.text, self.servers)
        unwanted = [server for server in said.unwanted if server not in said.wanted]
        labels = [("labels", (f"{name}={value}",)) for name, value in asked.request.filters.items()]
        here = Where(tuple(labels)).without("server", unwanted)
        if asked.servers is not None:
            here = here.having("hosted", [*asked.servers, ""])
        probes = self._probes(asked)
        whole = [(probe, SIBLINGS) for probe, _ in probes[:2]]
        first = self._search(probes, here) or self._search(probes, Where()) or self._search((), Where())
        near = dict.fromkeys(own.tool.server for own in first.values())
        found = first | self._search(whole[-1:], here.having("server", list(near)[:NEAR]))
        if said.wanted:
            found |= self._search(whole, here.having("server", said.wanted))
        wishes = [("labels", (f"{name}={value}",)) for name, value in asked.request.context.items()]
        for some in range(1, len(wishes) + 1):  # As `narrow` takes them: as many as leave any.
            found |= self._search(whole, here._replace(all=(*here.all, *wishes[:some])))
        if unwanted:
            found |= self._search((), Where().having("server", unwanted), MAX_REJECTED)
        if asked.servers is not None:
            found |= self._search((), Where().without("hosted", [*asked.servers, ""]), MAX_REJECTED)
        found |= {own.tool.key: own for own in (*self._few, *(own for _, own in self._always))}
        best = Documents([own.tool for own in list(first.values())[:RELATED]], self._seen).all()
        needs = [sought(document) for document in best]
        if giving := self._rarities({term: 1.0 for terms, _ in needs for term in terms}):
            found |= self._search([(giving, SIBLINGS)], here.having("server", {own.tool.server for own in best}))
        keys = {*asked.keys, *(key for _, named in needs for key in named)}
        return self._with_keys(found, keys, [own.tool.key for own in best])

    def _probes(self, asked: CandidateRequest) -> list[Probe]:
        """Return the words and the meaning of the whole, and those of its parts."""
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
        known = {term: weight for term, weight in terms.items() if term in self.terms}
        rare = inverse_frequency(
            np.array([self.terms[term] for term in known], np.int64), len(self._statistics)
        ).tolist()
        return {code_of(term): weight * idf for (term, weight), idf in zip(known.items(), rare, strict=True)}

    def _with_keys(self, found: dict[str, Candidate], keys: Iterable[str], best: Sequence[str]) -> dict[str, Candidate]:
        """Return the candidates with the tools of these keys, and those to which relations of the best lead."""
        wanted, ahead = set(keys), list(best)
        for _ in range(NEEDED_HOPS):
            wanted |= {relation.to for key in ahead if key in found for relation in found[key].tool.relations}
            new = wanted - found.keys()
            if not new:
                break
            own = self._search((), Where().having("keys", sorted(new)[:_MOST_NAMED]), _MOST_NAMED)
            found, ahead, wanted = found | own, list(own), set()
        return found

    def _always_of(self, capabilities: Sequence[Capability]) -> Iterable[tuple[Capability, Candidate]]:
        """Yield the capabilities that these tools have, by their keys."""
        names = {own.tool.rpartition(":")[2] for own in capabilities}
        found = self._search((), Where().having("name", sorted(names)), _MOST_NAMED) if names else {}
        found |= {own.tool.key: own for own in self._few}
        keys = list(found)
        for own in capabilities:
            place = position_of(own.tool, dict(zip(keys, range(len(keys)), strict=True)))
            if place is not None:
                yield replace(own, tool=keys[place]), found[keys[place]]

    def _search(self, probes: Sequence[Probe], where: Where, most: int = MOST) -> dict[str, Candidate]:
        return {own.tool.key: own for held in self._held for own in held.search(probes, where, most)}

    def _counted(self, vectors: Vectors) -> CorpusStatistics:
        census = self._held[0].census
        for own in self._held[1:]:
            census += own.census
        if not self._few:
            return census
        documents = Documents([own.tool for own in self._few], self._seen).all()
        ids = [tool_id("", own.tool.key, own.tool.hash) for own in self._few]
        return census + CorpusStatistics.of(ids, documents, vectors, sum(own.sizes[0] for own in self._few))
