"""The keyword leg: BM25 over what a tool says of itself, with its whole server as further evidence."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.catalogue import places_of_servers
from orchestrator.index.bigrams import Bigrams, Pair
from orchestrator.index.bm25 import Columns, Counts, Postings, Said, each
from orchestrator.index.documents import Document
from orchestrator.index.intent import changing_twins, known_actions
from orchestrator.index.text import terms

FIELD_WEIGHTS = {"server": 1.0, "name": 2.0, "keywords": 1.0, "description": 1.0, "parameters": 0.5}
FIELDS = tuple(FIELD_WEIGHTS)
"""In the order of the bits of `Columns.held`."""
SERVER_BIT, NAME_BIT, DESCRIPTION_BIT = (1 << FIELDS.index(name) for name in ("server", "name", "description"))
NAME_OF_SERVER = 3.0
"""Times that a server's name counts in the document of the server."""


@dataclass(frozen=True, slots=True)
class KeywordScores:
    """BM25 scores of the parts of a query: the whole of it in row 0, and its clauses below, where it has several.

    `servers` are the whole's scores of every server, as shares of the best one's. `columns` are the postings of the
    query's words; `asked` is what each part asks of these, `ceilings` the most that a tool could score for it, and
    `named` the share of each server's name that it says; `pairs` is what a tool holds of its word pairs.
    """

    parts: NDArray[np.float32]
    """[parts, tools]"""
    servers: NDArray[np.float32]
    columns: Columns
    asked: NDArray[np.float64]
    """[parts, words]"""
    ceilings: NDArray[np.float64]
    named: NDArray[np.float64]
    """[parts, servers]"""
    pairs: NDArray[np.float64]
    """[parts, tools]"""
    says: list[tuple[float, float]]
    """For each part the weight of its known words, and their summed inverse document frequency."""
    tools: int
    """How many tools were searched."""


class Counted(NamedTuple):
    """What is said: a document a tool, and a document a server; and the tools' word pairs."""

    tools: Counts
    servers: Counts
    pairs: Bigrams


class KeywordIndex:
    """The keyword leg of one catalogue. Tools must be ordered by server, as a Catalogue orders them."""

    def __init__(self, documents: Sequence[Document], places: Mapping[str, slice] | None = None) -> None:
        self.tools = [document.tool for document in documents]
        places = places or places_of_servers(self.tools)
        self.servers, self.server_of = list(places), _server_of(places)
        self._counts = count(documents, places)
        self.postings = Postings(self._counts.tools)
        self.server_postings = Postings(self._counts.servers) if len(places) > 1 else None
        self.name_weight = _name_weights(self.postings)
        self.names = ServerNames(self.servers)
        self.server_terms = self.names.terms
        self.actions = known_actions() | {document.action for document in documents}
        """The words that begin an action."""
        self.changing_twins = np.array(changing_twins(self.tools), np.bool_)

    @property
    def terms(self) -> Container[str]:
        """All terms of the catalogue, stemmed."""
        return self.postings.counts.ids

    def named(self, term: str) -> list[int]:
        """The tools whose name or server holds the term."""
        columns = self.postings.columns([term])
        found: list[int] = columns.documents[(columns.fields & (SERVER_BIT | NAME_BIT)) > 0].tolist()
        return found

    def score(
        self,
        *parts: Mapping[str, float],
        pairs: Sequence[Mapping[Pair, float]] = (),
        among: NDArray[np.bool_] | None = None,
    ) -> KeywordScores:
        """The leg: weighted terms of the query, and of its clauses where it has several, against every tool.

        pairs: each part's weighted word pairs. among: the tools that count [tools]; the others are as if they were not
        there.
        """
        columns = self.postings.columns(dict.fromkeys(chain.from_iterable(parts)) if len(parts) > 1 else parts[0])
        columns = columns if among is None else columns.among(among)
        servers = self._servers(parts[0], columns, among)
        asked = columns.asked(parts)
        says = [columns.says(weighted) for weighted in parts]
        unknown = [sum(weighted.values()) - known for weighted, (known, _) in zip(parts, says, strict=True)]
        tools = len(self.tools) if among is None else int(among.sum())
        return KeywordScores(
            parts=columns.scores(asked),
            servers=servers / max(float(servers.max(initial=0)), 1e-9),
            columns=columns,
            asked=asked,
            ceilings=np.array(
                [self.postings.ceiling(idf, lost, tools) for (_, idf), lost in zip(says, unknown, strict=True)]
            ),
            named=np.array([self.names.said_by(weighted) for weighted in parts]),
            pairs=self._counts.pairs.scores(pairs or [{}] * len(parts), among) * self.postings.one,
            says=says,
            tools=tools,
        )

    def _servers(
        self, weighted: Mapping[str, float], left: Columns, among: NDArray[np.bool_] | None
    ) -> NDArray[np.float32]:
        """The score of every server, by the tools that are left of it in these columns; of a single one 0."""
        if self.server_postings is None:
            return np.zeros(1, np.float32)
        if among is None:
            return self.server_postings.scores(weighted)
        there = self.server_of[among]
        if not len(there) or there[0] == there[-1]:
            return np.zeros(len(self.servers), np.float32)
        shape = len(left.words), len(self.servers)
        place = left.word * shape[1] + self.server_of[left.documents]
        in_text, in_name = (
            np.bincount(place, (left.fields & bits) > 0, shape[0] * shape[1]).reshape(shape)
            for bits in (NAME_BIT | DESCRIPTION_BIT, SERVER_BIT)
        )
        asked = {word: weighted.get(word, 0.0) for word in left.words}
        return self.server_postings.scores_if(asked, in_text + NAME_OF_SERVER * (in_name > 0))


class ServerNames:
    """What the names of servers say: the terms of each, and the servers that a term names."""

    def __init__(self, servers: Sequence[str]) -> None:
        self.terms = [frozenset(terms(server)) for server in servers]
        self._named: dict[str, list[int]] = {}
        for place, words in enumerate(self.terms):
            for word in words:
                self._named.setdefault(word, []).append(place)
        self._sizes = np.array([max(len(words), 1) for words in self.terms], np.float64)

    def said_by(self, words: Iterable[str]) -> NDArray[np.float64]:
        """The share of each name that is among these words; [servers]."""
        said = np.zeros(len(self._sizes))
        for word in words:
            if (servers := self._named.get(word)) is not None:
                said[servers] += 1
        return said / self._sizes


def count(documents: Sequence[Document], places: Mapping[str, slice]) -> Counted:
    """Return what the tools say, field by field, and what their servers do."""
    weights = FIELD_WEIGHTS.values()
    said = Said.of(list(zip(document.terms, weights, strict=True)) for document in documents)
    counts = Counts.of(said)
    return Counted(tools=counts, servers=_by_server(counts, _server_of(places), len(places)), pairs=Bigrams.of(said))


def _server_of(places: Mapping[str, slice]) -> NDArray[np.int64]:
    """The number of each tool's server; [tools]."""
    return np.arange(len(places)).repeat([place.stop - place.start for place in places.values()])


def _name_weights(postings: Postings) -> NDArray[np.float64]:
    """How much each tool's name says in all: the summed inverse document frequency of its terms."""
    counts = postings.counts
    named = (counts.fields & NAME_BIT) > 0
    summed = np.bincount(counts.documents[named], postings.idf[counts.term[named]], counts.size)
    return summed.astype(np.float64)  # Without pairs numpy counts in integers.


def _by_server(counts: Counts, server_of: NDArray[np.int64], servers: int) -> Counts:
    """A document a server: its name three times, and each word of its tools' names and descriptions once a tool."""
    said = np.flatnonzero(counts.fields & (SERVER_BIT | NAME_BIT | DESCRIPTION_BIT))
    term, server, bits = counts.term[said], server_of[counts.documents[said]], counts.fields[said]
    first = np.flatnonzero(np.diff(term, prepend=-1) | np.diff(server, prepend=-1))
    in_text = (bits & (NAME_BIT | DESCRIPTION_BIT)) > 0
    in_name = (each(np.bitwise_or, bits, first) & SERVER_BIT) > 0
    used, number = np.unique(term[first], return_inverse=True)
    names = list(counts.ids)
    return Counts(
        ids={names[place]: i for i, place in enumerate(used.tolist())},
        starts=np.searchsorted(number, np.arange(len(used) + 1)),
        documents=server[first],
        frequency=(each(np.add, in_text.astype(np.float64), first) + NAME_OF_SERVER * in_name).astype(np.float32),
        fields=np.ones(len(first), np.uint8),
        size=servers,
    )
