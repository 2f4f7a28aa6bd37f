"""BM25 as sparse columns, one for each term, with the parameters and weights of `rank-bm25`, and bigrams.

Bigrams follow the sequential dependence model (Metzler and Croft, 2005, "A Markov random field model for term
dependencies"), because "pull request" means more than its two words.
"""

import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

Pair = tuple[str, str]
K1, B = 1.5, 0.75
"""BM25's two constants: how early further mentions of a word count little, and how much a document's length counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalStatistics:
    """Statistics of all documents, if only some of them are loaded.

    Attributes are the number of documents, their mean length (0: that of the loaded ones), and the number of documents
    with each term.
    """

    size: int
    length: float
    holders: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Documents of several fields as one row of numbered terms, `terms`, with the field of each term.

    Fields are numbered through all documents, in `runs` [terms]. `weights` has the weight of each kind of field.
    `left_out` is the number of excluded documents. `every` has the statistics of all documents if these are only some
    of them.
    """

    ids: dict[str, int]
    terms: NDArray[np.int64]
    runs: NDArray[np.int64]
    weights: Sequence[float]
    size: int
    left_out: int = 0
    every: GlobalStatistics | None = None

    @classmethod
    def of(cls, documents: Sequence[Sequence[Sequence[str]]], weights: Sequence[float]) -> Self:
        """Give the terms of documents, [documents][fields][terms], numbers in the order in which they come up."""
        ids: defaultdict[str, int] = defaultdict()
        ids.default_factory = ids.__len__
        fields = list(chain.from_iterable(documents))
        terms = np.array(list(map(ids.__getitem__, chain.from_iterable(fields))), np.int64)
        runs = np.arange(len(fields)).repeat([len(field) for field in fields])
        return cls(ids=dict(ids), terms=terms, runs=runs, weights=weights, size=len(documents))

    @property
    def documents(self) -> NDArray[np.int64]:
        return self.runs // len(self.weights)

    @property
    def searched(self) -> int:
        """How many documents are searched."""
        return self.every.size if self.every else self.size - self.left_out

    def without(self, documents: NDArray[np.bool_] | None) -> "Corpus":
        """Return the same without these documents [documents]. The others keep their positions."""
        if documents is None:
            return self
        kept = ~documents[self.documents]
        return replace(self, terms=self.terms[kept], runs=self.runs[kept], left_out=int(documents.sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The count of each term in each document, for all pairs that occur [pairs], ordered by term and document.

    `ids` numbers the terms in their order. Their pairs begin at `starts` [terms + 1]. `fields` has a bit for each field
    of the document with the term. `searched` and `every` are as in Corpus.
    """

    ids: dict[str, int]
    starts: NDArray[np.int64]
    documents: NDArray[np.int64]
    frequency: NDArray[np.float32]
    fields: NDArray[np.uint8]
    size: int
    searched: int
    every: GlobalStatistics | None = None

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        # Numbers that hold all there is to know of a pair are sorted ten times as fast as an order is found.
        runs, kinds = max(corpus.size, 1) * len(corpus.weights), len(corpus.weights)
        key, field = np.divmod(np.sort(corpus.terms * runs + corpus.runs), kinds)
        first = np.flatnonzero(np.diff(key, prepend=-1))
        term, document = np.divmod(key[first], max(corpus.size, 1))
        return cls(
            ids=corpus.ids,
            starts=term.searchsorted(np.arange(len(corpus.ids) + 1)),
            documents=document,
            frequency=each(np.add, np.array(corpus.weights)[field], first).astype(np.float32),
            fields=each(np.bitwise_or, 1 << field, first).astype(np.uint8),
            size=corpus.size,
            searched=corpus.searched,
            every=corpus.every,
        )

    @property
    def term(self) -> NDArray[np.int64]:
        """The number of each pair's term."""
        return np.arange(len(self.ids)).repeat(np.diff(self.starts))


def each(sum_up: np.ufunc, values: NDArray[Any], first: NDArray[np.int64]) -> NDArray[Any]:
    """Return the sum of the values in each run.

    Args:
        sum_up: The reduction.
        values: The values.
        first: The start of each run.
    """
    return np.asarray(sum_up.reduceat(values, first)) if len(first) else values[:0]


def inverse_frequency(holders: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Return Lucene's inverse document frequency of terms, by the number of documents that hold each."""
    return np.asarray(np.log1p((size - holders + 0.5) / (holders + 0.5)))


class PositiveBM25(BM25Okapi):  # type: ignore[misc]
    """BM25Okapi over Counts, with Lucene's inverse document frequency, which is never negative.

    Okapi's own is zero or below for a term in half of the documents, which is every term of a catalogue of two tools.
    """

    def _initialize(self, corpus: Counts) -> Counts:
        self.corpus_size = corpus.searched
        self.doc_len = np.bincount(corpus.documents, corpus.frequency, minlength=corpus.size)
        self.avgdl = float(self.doc_len.sum()) / max(corpus.searched if corpus.every is None else corpus.size, 1) or 1.0
        if corpus.every is not None:
            self.avgdl = corpus.every.length or self.avgdl
        return corpus

    def _calc_idf(self, nd: Counts) -> None:
        holders = np.diff(nd.starts)
        if nd.every is not None:
            holders = np.maximum([nd.every.holders.get(term, 0) for term in nd.ids], holders)
        self.idf = inverse_frequency(holders, self.corpus_size)


class KnownWeight(NamedTuple):
    """The summed weight of a query's known terms, and their summed weighted inverse document frequency."""

    weight: float
    idf: float


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The postings of a query's words, gathered once.

    `idf` and `idf_of_all` [words] are by these documents and by all documents. `lengths` [words] has the number of
    pairs of each word. `partial` means that further documents exist that are not loaded.
    """

    words: Sequence[str]
    idf: NDArray[np.float64]
    idf_of_all: NDArray[np.float64]
    lengths: NDArray[np.int64]
    documents: NDArray[np.int64]
    impact: NDArray[np.float32]
    fields: NDArray[np.uint8]
    size: int
    partial: bool = False

    def among(self, kept: NDArray[np.bool_]) -> "Columns":
        """Return the same as if these documents [documents] were all there are."""
        there = kept[self.documents]
        word = self.word[there]
        lengths = np.bincount(word, minlength=len(self.words))
        held, idf = lengths > 0, inverse_frequency(lengths, int(kept.sum()))
        if self.partial:
            held, idf = np.ones_like(held), self.idf
        return Columns(
            words=list(compress(self.words, held.tolist())),
            idf=idf[held],
            idf_of_all=self.idf_of_all[held],
            lengths=lengths[held],
            documents=self.documents[there],
            impact=self.impact[there] * (idf / self.idf)[word].astype(np.float32),
            fields=self.fields[there],
            size=self.size,
            partial=self.partial,
        )

    @property
    def word(self) -> NDArray[np.int64]:
        """The number of each pair's word."""
        return np.arange(len(self.words)).repeat(self.lengths)

    def known(self, weights: Mapping[str, float]) -> KnownWeight:
        """Return the summed weight of those terms that are known, and their summed weighted idf."""
        weight = 0.0
        idf = 0.0
        for word, word_weight in weights.items():
            if word in self._idf_by_word:
                weight += word_weight
                idf += word_weight * self._idf_by_word[word]
        return KnownWeight(weight, idf)

    @cached_property
    def _idf_by_word(self) -> dict[str, float]:
        return dict(zip(self.words, self.idf.tolist(), strict=True))

    def asked(self, parts: Sequence[Mapping[str, float]]) -> NDArray[np.float64]:
        """Return the weight of each word in each part of a query [parts, words]."""
        return np.array([[weighted.get(word, 0.0) for word in self.words] for weighted in parts])

    def scores(self, asked: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return every document's BM25 score [parts, documents] for weights of the words [parts, words]."""
        found = np.empty((len(asked), self.size), np.float32)
        for own, weights in zip(found, asked.astype(np.float32), strict=True):
            own[:] = np.bincount(self.documents, self.impact * weights.repeat(self.lengths), self.size)
        return found

    @cached_property
    def held(self) -> NDArray[np.uint8]:
        """The fields of each document that hold each word, as bits [words, documents]."""
        found = np.zeros((len(self.words), self.size), np.uint8)
        found[self.word, self.documents] = self.fields
        return found


class Postings:
    """For each term, the documents with it, and its contribution to the score of each."""

    def __init__(self, counts: Counts, *, k1: float = K1, b: float = B) -> None:
        model = PositiveBM25(counts, k1=k1, b=b)
        self.counts, self.size, self.k1 = counts, counts.size, float(model.k1)
        self.searched, self.partial = counts.searched, counts.every is not None
        """The number of searched documents, and whether only a part of the documents is in memory."""
        self.idf: NDArray[np.float64] = model.idf
        self._norm: NDArray[np.float64] = model.k1 * (1 - model.b + model.b * model.doc_len / model.avgdl)
        self.single_mention = self._saturated(np.ones(1), self._norm)
        """The weight of one mention in each document, by its length, shape [documents]."""
        impact = self._saturated(counts.frequency.astype(np.float64), self._norm[counts.documents])
        self._impact = (self.idf[counts.term] * impact).astype(np.float32)
        self._starts: list[int] = counts.starts.tolist()

    def scores_if(self, words: Mapping[str, float], frequency: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the scores if the documents had these counts of these words [words, documents]."""
        ids = self.counts.ids
        weights = [weight * self.idf[ids[word]] if word in ids else 0.0 for word, weight in words.items()]
        return np.asarray(np.array(weights) @ self._saturated(frequency, self._norm), np.float32)

    def _saturated(self, frequency: NDArray[np.float64], norm: NDArray[np.float64]) -> NDArray[np.float64]:
        return frequency * (self.k1 + 1) / (frequency + norm)

    def columns(self, words: Iterable[str]) -> Columns:
        """Return the columns of the words that are known."""
        ids, starts, counts = self.counts.ids, self._starts, self.counts
        known = {word: ids[word] for word in words if word in ids}
        spans = [slice(starts[number], starts[number + 1]) for number in known.values()]
        idf = self.idf[[*known.values()]] if known else np.zeros(0)
        documents, impact, fields = (
            np.concatenate([values[:0], *[values[span] for span in spans]])
            for values in (counts.documents, self._impact, counts.fields)
        )
        return Columns(
            words=list(known),
            idf=idf,
            idf_of_all=idf,
            lengths=np.array([span.stop - span.start for span in spans], np.int64),
            documents=documents,
            impact=impact,
            fields=fields,
            size=self.size,
            partial=self.partial,
        )

    def ceiling(self, known: float, unknown: float, size: int) -> float:
        """Return the score of a document that had unlimited counts of every term.

        Args:
            known: The sum of the known terms' weighted idf.
            unknown: The weight of the unknown terms, which get the highest idf.
            size: The number of documents.
        """
        return (self.k1 + 1) * (known + math.log1p((size + 0.5) / 0.5) * unknown)


def side_by_side(terms: Iterable[str], weights: Mapping[str, float]) -> dict[Pair, float]:
    """Return the pairs of different terms that follow one another, each with its lesser weight, at most 1."""
    return {(a, b): min(weights[a], weights[b], 1.0) for a, b in pairwise(terms) if a != b}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bigrams:
    """The bigrams of each document within a field, each once, with `keys` in ascending order of both terms and
    document.

    `ids` numbers the terms. `searched` documents are searched. `partial` means that not all of them are loaded.
    """

    keys: NDArray[np.int64]
    ids: Mapping[str, int]
    size: int
    searched: int
    partial: bool

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        terms, runs, size = corpus.terms, corpus.runs, max(corpus.size, 1)
        first = ((runs[1:] == runs[:-1]) & (terms[1:] != terms[:-1])).nonzero()[0]
        keys = np.sort((terms[first] * len(corpus.ids) + terms[first + 1]) * size + corpus.documents[first])
        once = np.flatnonzero(np.diff(keys, prepend=-1))
        return cls(
            keys=keys[once],
            ids=corpus.ids,
            size=corpus.size,
            searched=corpus.searched,
            partial=corpus.every is not None,
        )

    def scores(
        self, parts: Sequence[Mapping[Pair, float]], among: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the summed weighted idf of the bigrams that each document holds [parts, documents].

        among: the documents that count [documents].
        """
        ids, size = self.ids, max(self.size, 1)
        pairs = [pair for pair in dict.fromkeys(chain.from_iterable(parts)) if pair[0] in ids and pair[1] in ids]
        wanted = np.array([ids[a] * len(ids) + ids[b] for a, b in pairs], np.int64) * size
        starts, ends = self.keys.searchsorted(wanted), self.keys.searchsorted(wanted + size)
        known = (ends > starts).nonzero()[0]
        if not len(known):
            return np.zeros((len(parts), self.size))
        spans = zip(starts[known].tolist(), ends[known].tolist(), strict=True)
        documents = np.concatenate([self.keys[start:end] for start, end in spans]) % size
        holders, searched = (ends - starts)[known], self.searched
        pair = np.arange(len(known)).repeat(holders)
        if among is not None:
            there, searched = among[documents], searched if self.partial else int(among.sum())
            documents, pair = documents[there], pair[there]
            holders = np.bincount(pair, minlength=len(known))
        own = [pairs[number] for number in known.tolist()]
        weights = np.array([[part.get(one, 0.0) for one in own] for part in parts])
        weights *= inverse_frequency(holders, searched)
        return np.array([np.bincount(documents, of_part[pair], self.size) for of_part in weights])


def code_of(term: str) -> int:
    """Return a 32-bit number that is the same in every process. If two terms share one, a false bigram can result."""
    return zlib.crc32(term.encode())
