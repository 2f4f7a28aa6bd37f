"""The keyword side: BM25 over each tool's texts, with its server's other tools as further evidence."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.bm25 import Bigrams, Columns, Counts, KnownWeight, Pair, Postings, each
from orchestrator.index.intent import known_actions
from orchestrator.index.reading import FIELD_WEIGHTS, Reading
from orchestrator.index.text import terms

FIELDS = tuple(FIELD_WEIGHTS)
"""The fields in the order of the bits of `Columns.held`."""
SERVER_BIT, NAME_BIT, DESCRIPTION_BIT = (1 << FIELDS.index(name) for name in ("server", "name", "description"))
NAME_OF_SERVER = 3.0
"""The number of times that a server's name counts in the server's document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordScores:
    """BM25 scores of a query's parts: the whole query in row 0, followed by its clauses if there are several.

    Attributes:
        parts: Scores by words [parts, tools].
        pairs: The idf of each tool's matching bigrams [parts, tools].
        servers: The servers' scores for the whole query as shares of the best [servers].
        asked: The weight of each word of `columns` in each part [parts, words].
        ceilings: The maximum score of a tool [parts].
        named: The share of each server's name in a part [parts, servers].
        known: The weight and the weighted idf of each part's known words [parts].
        tools: The number of searched tools.
    """

    parts: NDArray[np.float32]
    pairs: NDArray[np.float64]
    servers: NDArray[np.float32]
    columns: Columns
    asked: NDArray[np.float64]
    ceilings: NDArray[np.float64]
    named: NDArray[np.float64]
    known: list[KnownWeight]
    tools: int


class KeywordIndex:
    """The keyword leg of one catalogue. Tools must be ordered by server, as a Catalogue orders them."""

    def __init__(
        self,
        reading: Reading,
        places: Mapping[str, slice],
        flagged: NDArray[np.bool_] | None = None,
    ) -> None:
        """flagged: the tools that are as if they were not there [tools]."""
        self.servers = list(places)
        self.server_of = np.arange(len(places)).repeat([place.stop - place.start for place in places.values()])
        corpus = reading.corpus.without(flagged)
        self._bigrams, self.postings = Bigrams.of(corpus), Postings(Counts.of(corpus))
        by_server = _by_server(self.postings.counts, self.server_of, len(places))
        self.server_postings = Postings(by_server) if len(places) > 1 else None
        self.name_weight = _name_weights(self.postings)
        self.server_terms = [frozenset(terms(server)) for server in places]
        self._servers_named: dict[str, list[int]] = {}
        for place, words in enumerate(self.server_terms):
            for word in words:
                self._servers_named.setdefault(word, []).append(place)
        self._name_sizes = np.array([max(len(words), 1) for words in self.server_terms], np.float64)
        self.actions = known_actions() | reading.actions
        """The words that begin an action."""
        self.write_variants = reading.write_variants

    @property
    def terms(self) -> Container[str]:
        """All terms of the catalogue, stemmed."""
        return self.postings.counts.ids

    def named(self, term: str) -> list[int]:
        """Return the tools whose name or server has the term."""
        columns = self.postings.columns([term])
        found: list[int] = columns.documents[(columns.fields & (SERVER_BIT | NAME_BIT)) > 0].tolist()
        return found

    def score(
        self,
        *parts: Mapping[str, float],
        pairs: Sequence[Mapping[Pair, float]] = (),
        among: NDArray[np.bool_] | None = None,
    ) -> KeywordScores:
        """Score every tool by the weighted terms of a query and of its clauses.

        Args:
            pairs: Each part's weighted bigrams.
            among: True for each searched tool [tools]. The others are ignored completely.
        """
        columns = self.postings.columns(dict.fromkeys(chain.from_iterable(parts)))
        columns = columns if among is None else columns.among(among)
        servers = self._score_servers(parts[0], columns, among)
        asked = columns.asked(parts)
        known = [columns.known(weighted) for weighted in parts]
        tools = self.postings.searched if among is None or self.postings.partial else int(among.sum())
        ceilings = [
            self.postings.ceiling(of_part.idf, sum(weighted.values()) - of_part.weight, tools)
            for weighted, of_part in zip(parts, known, strict=True)
        ]
        return KeywordScores(
            parts=columns.scores(asked),
            pairs=self._bigrams.scores(pairs or [{}] * len(parts), among),
            servers=servers / max(float(servers.max(initial=0)), 1e-9),
            columns=columns,
            asked=asked,
            ceilings=np.array(ceilings),
            named=np.array([self._share_of_names(weighted) for weighted in parts]),
            known=known,
            tools=tools,
        )

    def _score_servers(
        self, weighted: Mapping[str, float], left: Columns, among: NDArray[np.bool_] | None
    ) -> NDArray[np.float32]:
        """Return the score of every server from its tools in these columns. A single server scores 0."""
        there = self.server_of if among is None else self.server_of[among]
        if self.server_postings is None or not len(there) or there[0] == there[-1]:
            return np.zeros(len(self.servers) or 1, np.float32)
        if among is None:
            columns = self.server_postings.columns(weighted)
            return columns.scores(columns.asked([weighted])).ravel()
        shape = len(left.words), len(self.servers)
        place = left.word * shape[1] + self.server_of[left.documents]
        in_text, in_name = (
            np.bincount(place, (left.fields & bits) > 0, shape[0] * shape[1]).reshape(shape)
            for bits in (NAME_BIT | DESCRIPTION_BIT, SERVER_BIT)
        )
        asked = {word: weighted.get(word, 0.0) for word in left.words}
        return self.server_postings.scores_if(asked, in_text + NAME_OF_SERVER * (in_name > 0))

    def _share_of_names(self, words: Iterable[str]) -> NDArray[np.float64]:
        """Return the share of each server's name that is among these words [servers]."""
        said = np.zeros(len(self.servers))
        for word in self._servers_named.keys() & words:
            said[self._servers_named[word]] += 1
        return said / self._name_sizes


def _name_weights(postings: Postings) -> NDArray[np.float64]:
    """Return the summed inverse document frequency of each tool's name [tools]."""
    counts = postings.counts
    named = (counts.fields & NAME_BIT) > 0
    summed = np.bincount(counts.documents[named], postings.idf[counts.term[named]], counts.size)
    return summed.astype(np.float64)  # Without pairs numpy counts in integers.


def _by_server(counts: Counts, server_of: NDArray[np.int64], servers: int) -> Counts:
    """Count a document a server: its name three times, each word of its tools' names and descriptions once a tool."""
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
        searched=counts.every.size if counts.every else servers,
        # The number of servers with a term is not known. The number of tools is used in its place.
        every=counts.every and replace(counts.every, length=0.0),
    )
