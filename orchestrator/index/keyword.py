"""The keyword side: BM25 over each tool's texts, with its server's other tools as further evidence."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from orchestrator.common.arrays import Integers, Mask
from orchestrator.index.bm25 import (
    Bigrams,
    Columns,
    Counts,
    KnownWeight,
    Pair,
    Postings,
    reduce_runs,
)
from orchestrator.index.documents import FIELD_WEIGHTS, Reading
from orchestrator.index.intent import known_actions
from orchestrator.index.text import terms

FIELDS = tuple(FIELD_WEIGHTS)
"""The fields in the order of the bits of `Columns.field_bits`."""
SERVER_BIT, NAME_BIT, DESCRIPTION_BIT = (
    1 << FIELDS.index(name) for name in ("server", "name", "description")
)
NAME_OF_SERVER = 3.0
"""The number of times that a server's name counts in the server's document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordScores:
    """BM25 scores of a query's parts: the whole query in row 0, followed by its clauses if there are several.

    Attributes:
        parts: Scores by words [parts, tools].
        pairs: The idf of each tool's matching bigrams [parts, tools].
        servers: The servers' scores for the whole query as shares of the best [servers].
        columns: The postings of the query's words.
        word_weights: The weight of each word of `columns` in each part [parts, words].
        ceilings: The maximum score of a tool [parts].
        server_name_shares: The share of each server's name in a part [parts, servers].
        known_weights: The weight and the weighted idf of each part's known words [parts].
        tools: The number of searched tools.
    """

    parts: NDArray[np.float32]
    pairs: NDArray[np.float64]
    servers: NDArray[np.float32]
    columns: Columns
    word_weights: NDArray[np.float64]
    ceilings: NDArray[np.float64]
    server_name_shares: NDArray[np.float64]
    known_weights: list[KnownWeight]
    tools: int


class KeywordIndex:
    """The keyword leg of one catalogue. Tools must be ordered by server, as a Catalogue orders them.

    Attributes:
        servers: The names of the servers, in order.
        server_of: The number of each tool's server [tools].
        postings: The words of the tools.
        server_postings: The words of the servers. None for a single server.
        server_terms: The terms of each server's name.
        name_weight: The summed inverse document frequency of each tool's name [tools].
        actions: The words that begin an action.
        write_variants: As in `Reading`.
    """

    def __init__(
        self,
        reading: Reading,
        places: Mapping[str, slice],
        flagged: Mask | None = None,
    ) -> None:
        """Build the index.

        Args:
            reading: The texts of the catalogue.
            places: The positions of each server's tools.
            flagged: The tools that are as if they were not there [tools].
        """
        self.servers = list(places)
        self.server_of = np.arange(len(places)).repeat(
            [span.stop - span.start for span in places.values()]
        )
        corpus = reading.corpus.without(flagged)
        self._bigrams = Bigrams.of(corpus)
        self.postings = Postings(Counts.of(corpus))
        self.server_postings: Postings | None = None
        if len(places) > 1:
            self.server_postings = Postings(
                _by_server(self.postings.counts, self.server_of, len(places))
            )
        self.name_weight = _name_weights(self.postings)
        self.server_terms = [frozenset(terms(server)) for server in places]
        self._servers_by_term = defaultdict[str, list[int]](list)
        for server, name in enumerate(self.server_terms):
            for term in name:
                self._servers_by_term[term].append(server)
        self._name_sizes = np.array([max(len(name), 1) for name in self.server_terms], np.float64)
        self.actions = known_actions() | reading.actions
        self.write_variants = reading.write_variants

    @property
    def terms(self) -> Container[str]:
        """All terms of the catalogue, stemmed."""
        return self.postings.counts.ids

    def named(self, term: str) -> list[int]:
        """Return the tools whose name or server has the term."""
        columns = self.postings.columns([term])
        in_name = (columns.fields & (SERVER_BIT | NAME_BIT)) > 0
        positions: list[int] = columns.documents[in_name].tolist()
        return positions

    def score(
        self,
        *parts: Mapping[str, float],
        pairs: Sequence[Mapping[Pair, float]] = (),
        among: Mask | None = None,
    ) -> KeywordScores:
        """Score every tool by the weighted terms of a query and of its clauses.

        Args:
            parts: Each part's weighted terms.
            pairs: Each part's weighted bigrams.
            among: True for each searched tool [tools]. The others are ignored completely.
        """
        columns = self.postings.columns(dict.fromkeys(chain.from_iterable(parts)))
        tools = self.postings.searched
        if among is not None:
            columns = columns.among(among)
            tools = int(among.sum())
        word_weights = columns.weights_of(parts)
        known_weights = [columns.known_weight(weights) for weights in parts]
        ceilings = []
        for weights, known_weight in zip(parts, known_weights, strict=True):
            unknown = sum(weights.values()) - known_weight.weight
            ceilings.append(self.postings.ceiling(known_weight.idf, unknown, tools))
        servers = self._score_servers(parts[0], columns, among)
        return KeywordScores(
            parts=columns.scores(word_weights),
            pairs=self._bigrams.scores(pairs or [{}] * len(parts), among),
            servers=servers / max(float(servers.max(initial=0)), 1e-9),
            columns=columns,
            word_weights=word_weights,
            ceilings=np.array(ceilings),
            server_name_shares=np.array([self._share_of_names(weights) for weights in parts]),
            known_weights=known_weights,
            tools=tools,
        )

    def _score_servers(
        self, weights: Mapping[str, float], columns: Columns, among: Mask | None
    ) -> NDArray[np.float32]:
        """Return the score of every server from its tools in these columns. A single server scores 0."""
        server_of = self.server_of if among is None else self.server_of[among]
        has_one_server = not len(server_of) or server_of[0] == server_of[-1]
        if self.server_postings is None or has_one_server:
            return np.zeros(len(self.servers) or 1, np.float32)
        if among is None:
            return self.server_postings.weighted_scores(weights)
        server = self.server_of[columns.documents]
        in_text = self._count_by_server(columns, server, NAME_BIT | DESCRIPTION_BIT)
        in_name = self._count_by_server(columns, server, SERVER_BIT) > 0
        frequency = in_text + NAME_OF_SERVER * in_name
        weights_of_columns = {word: weights.get(word, 0.0) for word in columns.words}
        return self.server_postings.scores_if(weights_of_columns, frequency)

    def _count_by_server(
        self, columns: Columns, server: Integers, bits: int
    ) -> NDArray[np.float64]:
        """Return the number of each server's tools that have a word in one of these fields [words, servers]."""
        shape = len(columns.words), len(self.servers)
        # One number for each word and server: bincount is three times as fast as add.at with two.
        cell = columns.word * len(self.servers) + server
        in_field = (columns.fields & bits) > 0
        counts = np.bincount(cell, in_field, shape[0] * shape[1])
        return counts.astype(np.float64).reshape(shape)

    def _share_of_names(self, words: Iterable[str]) -> NDArray[np.float64]:
        """Return the share of each server's name that is among these words [servers]."""
        counts = np.zeros(len(self.servers))
        for word in self._servers_by_term.keys() & words:
            counts[self._servers_by_term[word]] += 1
        return counts / self._name_sizes


def _name_weights(postings: Postings) -> NDArray[np.float64]:
    """Return the summed inverse document frequency of each tool's name [tools]."""
    counts = postings.counts
    in_name = (counts.fields & NAME_BIT) > 0
    idf = postings.idf[counts.term[in_name]]
    summed = np.bincount(counts.documents[in_name], idf, counts.size)
    return summed.astype(np.float64)  # Without pairs numpy counts in integers.


def _by_server(counts: Counts, server_of: Integers, servers: int) -> Counts:
    """Count a document a server: its name three times, each word of its tools' names and descriptions once a tool."""
    rows = np.flatnonzero(counts.fields & (SERVER_BIT | NAME_BIT | DESCRIPTION_BIT))
    term = counts.term[rows]
    server = server_of[counts.documents[rows]]
    bits = counts.fields[rows]
    term_steps = np.diff(term, prepend=-1)
    server_steps = np.diff(server, prepend=-1)
    first = np.flatnonzero(term_steps | server_steps)
    in_text = (bits & (NAME_BIT | DESCRIPTION_BIT)) > 0
    tools_with_word = reduce_runs(np.add, in_text.astype(np.float64), first)
    in_server_name = (reduce_runs(np.bitwise_or, bits, first) & SERVER_BIT) > 0
    read_terms, number = np.unique(term[first], return_inverse=True)
    words = list(counts.ids)
    return Counts(
        ids={words[old]: new for new, old in enumerate(read_terms.tolist())},
        starts=np.searchsorted(number, np.arange(len(read_terms) + 1)),
        documents=server[first],
        frequency=(tools_with_word + NAME_OF_SERVER * in_server_name).astype(np.float32),
        fields=np.ones(len(first), np.uint8),
        size=servers,
        searched=servers,
    )
