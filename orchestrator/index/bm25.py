"""BM25 as sparse columns, one for each term, with the parameters and weights of `rank-bm25`, and bigrams.

Bigrams follow the sequential dependence model (Metzler and Croft, 2005, "A Markov random field model for term
dependencies"), because "pull request" means more than its two words.

Two tools with the fields name and description become one row of numbered terms, and the number of the field of each:

    github:list_repos "List repositories"     terms  0 1  0 1   2 3
    mail:send         "Send"                  runs   0 0  1 1   2 3     (field 0 of tool 0 ... field 1 of tool 1)
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from orchestrator.common.arrays import Integers, Mask

Pair = tuple[str, str]
K1, B = 1.5, 0.75
"""BM25's two constants: how early further mentions of a word count little, and how much a document's length counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Documents of several fields as one row of numbered terms.

    Attributes:
        ids: The number of each term.
        terms: The terms of all documents, one after another.
        runs: The field of each term, numbered through all documents [terms].
        weights: The weight of each kind of field.
        size: The number of documents.
        left_out: The number of excluded documents.
    """

    ids: dict[str, int]
    terms: Integers
    runs: Integers
    weights: Sequence[float]
    size: int
    left_out: int = 0

    @classmethod
    def of(cls, documents: Sequence[Sequence[Sequence[str]]], weights: Sequence[float]) -> Self:
        """Give the terms of documents, [documents][fields][terms], numbers in the order in which they come up."""
        ids: defaultdict[str, int] = defaultdict()
        ids.default_factory = ids.__len__
        fields = list(chain.from_iterable(documents))
        lengths = [len(field) for field in fields]
        numbers = [ids[term] for term in chain.from_iterable(fields)]
        return cls(
            ids=dict(ids),
            terms=np.array(numbers, np.int64),
            runs=np.arange(len(fields)).repeat(lengths),
            weights=weights,
            size=len(documents),
        )

    @property
    def documents(self) -> Integers:
        """The document of each term."""
        return self.runs // len(self.weights)

    @property
    def searched(self) -> int:
        """The number of documents that are searched."""
        return self.size - self.left_out

    def without(self, documents: Mask | None) -> "Corpus":
        """Return the same without these documents [documents]. The others keep their positions."""
        if documents is None:
            return self
        is_kept = ~documents[self.documents]
        return replace(
            self, terms=self.terms[is_kept], runs=self.runs[is_kept], left_out=int(documents.sum())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The count of each term in each document, for all pairs that occur [pairs], ordered by term and document.

    Attributes:
        ids: The number of each term, in the order of the pairs.
        starts: The first pair of each term, and the number of pairs [terms + 1].
        documents: The document of each pair.
        frequency: The weighted count of each pair.
        fields: A bit for each field of the document with the term.
        size: The number of documents.
        searched: The number of documents that are searched.
    """

    ids: dict[str, int]
    starts: Integers
    documents: Integers
    frequency: NDArray[np.float32]
    fields: NDArray[np.uint8]
    size: int
    searched: int

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """Count the terms of a corpus."""
        size = max(corpus.size, 1)
        kinds = len(corpus.weights)
        # A number holds the term, the document and the field of an occurrence. Numbers are sorted ten times as fast as
        # an order is found.
        occurrences = np.sort(corpus.terms * (size * kinds) + corpus.runs)
        pair, field = np.divmod(occurrences, kinds)
        first = np.flatnonzero(_is_new(pair))
        term, document = np.divmod(pair[first], size)
        weight = np.array(corpus.weights)[field]
        all_terms = np.arange(len(corpus.ids) + 1)
        return cls(
            ids=corpus.ids,
            starts=term.searchsorted(all_terms),
            documents=document,
            frequency=reduce_runs(np.add, weight, first).astype(np.float32),
            fields=reduce_runs(np.bitwise_or, 1 << field, first).astype(np.uint8),
            size=corpus.size,
            searched=corpus.searched,
        )

    @property
    def term(self) -> Integers:
        """The number of each pair's term."""
        return np.arange(len(self.ids)).repeat(np.diff(self.starts))


def _is_new(ascending: Integers) -> Mask:
    """Return True for each number that differs from the one before it, in an eighth of the time of `numpy.diff`."""
    is_new = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_new[1:])
    return is_new


def reduce_runs(operation: np.ufunc, values: NDArray[Any], first: Integers) -> NDArray[Any]:
    """Return the sum, or another reduction, of the values in each run.

    Args:
        operation: The reduction.
        values: The values.
        first: The start of each run.
    """
    if not len(first):
        return values[:0]
    return np.asarray(operation.reduceat(values, first))


def inverse_frequency(holders: Integers, size: int) -> NDArray[np.float64]:
    """Return Lucene's inverse document frequency of terms, by the number of documents that hold each."""
    return np.asarray(np.log1p((size - holders + 0.5) / (holders + 0.5)))


class KnownWeight(NamedTuple):
    """The summed weight of a query's known terms, and their summed weighted inverse document frequency."""

    weight: float
    idf: float


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The postings of a query's words, gathered once.

    Attributes:
        words: The words that some document has.
        idf: The inverse document frequency of each word among the searched documents [words].
        idf_of_all: The same among all documents [words].
        lengths: The number of documents with each word [words].
        documents: The documents with each word, word after word [pairs].
        impact: The contribution of the word to the document's score [pairs].
        fields: The fields of the document with the word, as bits [pairs].
        size: The number of documents.
    """

    words: Sequence[str]
    idf: NDArray[np.float64]
    idf_of_all: NDArray[np.float64]
    lengths: Integers
    documents: Integers
    impact: NDArray[np.float32]
    fields: NDArray[np.uint8]
    size: int

    def among(self, searched: Mask) -> "Columns":
        """Return the same as if these documents [documents] were all there are."""
        # Filtered searches must answer as a catalogue of only these tools would, so rare words are counted again.
        is_searched = searched[self.documents]
        word = self.word[is_searched]
        lengths = np.bincount(word, minlength=len(self.words))
        idf = inverse_frequency(lengths, int(searched.sum()))
        # The impact includes the idf among all documents.
        change = (idf / self.idf)[word].astype(np.float32)
        occurs = lengths > 0
        return Columns(
            words=list(compress(self.words, occurs.tolist())),
            idf=idf[occurs],
            idf_of_all=self.idf_of_all[occurs],
            lengths=lengths[occurs],
            documents=self.documents[is_searched],
            impact=self.impact[is_searched] * change,
            fields=self.fields[is_searched],
            size=self.size,
        )

    @property
    def word(self) -> Integers:
        """The number of each pair's word."""
        return np.arange(len(self.words)).repeat(self.lengths)

    def known_weight(self, weights: Mapping[str, float]) -> KnownWeight:
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

    def weights_of(self, parts: Sequence[Mapping[str, float]]) -> NDArray[np.float64]:
        """Return the weight of each word in each part of a query [parts, words]."""
        word_weights = np.zeros((len(parts), len(self.words)))
        for row, weights in zip(word_weights, parts, strict=True):
            row[:] = [weights.get(word, 0.0) for word in self.words]
        return word_weights

    def scores(self, word_weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return every document's BM25 score [parts, documents] for weights of the words [parts, words]."""
        scores = np.empty((len(word_weights), self.size), np.float32)
        for part, weights in enumerate(word_weights.astype(np.float32)):
            impact = self.impact * weights.repeat(self.lengths)
            scores[part] = np.bincount(self.documents, impact, self.size)
        return scores

    @cached_property
    def field_bits(self) -> NDArray[np.uint8]:
        """The fields of each document that hold each word, as bits [words, documents]."""
        bits = np.zeros((len(self.words), self.size), np.uint8)
        bits[self.word, self.documents] = self.fields
        return bits


class Postings(BM25Okapi):  # type: ignore[misc]
    """`rank_bm25.BM25Okapi` with one column of documents for each term.

    It keeps that class's parameters, attributes and `get_scores`, and gives the same scores. It replaces the
    arithmetic for speed: rank_bm25 walks through every document for each word of a query, and this class through those
    that have the word. `columns` gathers them once for all parts of a query.

    The inverse document frequency is Lucene's, which is never negative. Okapi's own is zero or below for a term in half
    of the documents, which is every term of a catalogue of two tools.

    Attributes:
        counts: The count of each term in each document.
        size: The number of documents.
        searched: The number of documents that are searched.
        single_mention: The weight of one mention in each document, by its length [documents].
    """

    idf: NDArray[np.float64]

    def __init__(self, counts: Counts, *, k1: float = K1, b: float = B) -> None:
        super().__init__(counts, k1=k1, b=b)
        self.counts = counts
        self.size = counts.size
        self.searched = counts.searched
        length = self.doc_len / self.avgdl
        self._norm: NDArray[np.float64] = self.k1 * (1 - self.b + self.b * length)
        self.single_mention = self._saturated(np.ones(1), self._norm)
        frequency = counts.frequency.astype(np.float64)
        impact = self._saturated(frequency, self._norm[counts.documents])
        self._impact = (self.idf[counts.term] * impact).astype(np.float32)
        self._starts: list[int] = counts.starts.tolist()

    def _initialize(self, corpus: Counts) -> Counts:
        self.corpus_size = corpus.searched
        self.doc_len = np.bincount(corpus.documents, corpus.frequency, minlength=corpus.size)
        self.avgdl = float(self.doc_len.sum()) / max(corpus.searched, 1) or 1.0
        return corpus

    def _calc_idf(self, nd: Counts) -> None:
        self.idf = inverse_frequency(np.diff(nd.starts), self.corpus_size)

    def get_scores(self, query: Iterable[str]) -> NDArray[np.float32]:
        """Return every document's score for the words of a query, as `BM25Okapi.get_scores` does."""
        return self.weighted_scores(Counter(query))

    def weighted_scores(self, weights: Mapping[str, float]) -> NDArray[np.float32]:
        """Return every document's score for weighted words."""
        columns = self.columns(weights)
        scores: NDArray[np.float32] = columns.scores(columns.weights_of([weights]))[0]
        return scores

    def scores_if(
        self, words: Mapping[str, float], frequency: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """Return the scores if the documents had these counts of these words [words, documents]."""
        ids = self.counts.ids
        weights = np.zeros(len(words))
        for row, (word, weight) in enumerate(words.items()):
            if word in ids:
                weights[row] = weight * self.idf[ids[word]]
        impacts = self._saturated(frequency, self._norm)
        return np.asarray(weights @ impacts, np.float32)

    def _saturated(
        self, frequency: NDArray[np.float64], norm: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return np.asarray(frequency * (self.k1 + 1) / (frequency + norm))

    def columns(self, words: Iterable[str]) -> Columns:
        """Return the columns of the words that are known."""
        ids = self.counts.ids
        numbers = {word: ids[word] for word in words if word in ids}
        spans = [
            slice(self._starts[number], self._starts[number + 1]) for number in numbers.values()
        ]
        idf = self.idf[np.array([*numbers.values()], np.int64)]
        return Columns(
            words=list(numbers),
            idf=idf,
            idf_of_all=idf,
            lengths=np.array([span.stop - span.start for span in spans], np.int64),
            documents=_gather(self.counts.documents, spans),
            impact=_gather(self._impact, spans),
            fields=_gather(self.counts.fields, spans),
            size=self.size,
        )

    def ceiling(self, known: float, unknown: float, size: int) -> float:
        """Return the score of a document that had unlimited counts of every term.

        Args:
            known: The sum of the known terms' weighted idf.
            unknown: The weight of the unknown terms, which get the highest idf.
            size: The number of documents.
        """
        highest_idf = math.log1p((size + 0.5) / 0.5)
        return float((self.k1 + 1) * (known + highest_idf * unknown))


def _gather(values: NDArray[Any], spans: Sequence[slice]) -> NDArray[Any]:
    """Return the values of these spans, one after another."""
    return np.concatenate([values[:0], *(values[span] for span in spans)])


def side_by_side(terms: Iterable[str], weights: Mapping[str, float]) -> dict[Pair, float]:
    """Return the pairs of different terms that follow one another, each with its lesser weight, at most 1."""
    return {(a, b): min(weights[a], weights[b], 1.0) for a, b in pairwise(terms) if a != b}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bigrams:
    """The bigrams of each document within a field, each once.

    A bigram of a document is one number, `(first term * terms + second term) * documents + document`, so the numbers of
    one bigram are neighbours.

    Attributes:
        keys: These numbers, in ascending order.
        ids: The number of each term.
        size: The number of documents.
        searched: The number of documents that are searched.
    """

    keys: Integers
    ids: Mapping[str, int]
    size: int
    searched: int

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """Read the bigrams of a corpus."""
        left = corpus.terms[:-1]
        right = corpus.terms[1:]
        is_one_run = corpus.runs[1:] == corpus.runs[:-1]
        # A word that is repeated is no phrase.
        is_bigram = is_one_run & (left != right)
        bigrams = left[is_bigram] * len(corpus.ids) + right[is_bigram]
        documents = corpus.documents[:-1][is_bigram]
        keys = np.sort(bigrams * max(corpus.size, 1) + documents)
        return cls(
            keys=keys[_is_new(keys)],
            ids=corpus.ids,
            size=corpus.size,
            searched=corpus.searched,
        )

    def scores(
        self, parts: Sequence[Mapping[Pair, float]], among: Mask | None = None
    ) -> NDArray[np.float64]:
        """Return the summed weighted idf of the bigrams that each document holds [parts, documents].

        Args:
            parts: The weighted bigrams of each part of a query.
            among: The documents that count [documents].
        """
        size = max(self.size, 1)
        pairs = self._known(parts)
        numbers = np.array([self._number(pair) for pair in pairs], np.int64)
        starts = self.keys.searchsorted(numbers * size)
        ends = self.keys.searchsorted(numbers * size + size)
        occurring = (ends > starts).nonzero()[0]
        if not len(occurring):
            return np.zeros((len(parts), self.size))
        spans = list(map(slice, starts[occurring].tolist(), ends[occurring].tolist()))
        documents = _gather(self.keys, spans) % size
        frequency = (ends - starts)[occurring]
        searched = self.searched
        pair = np.arange(len(occurring)).repeat(frequency)
        if among is not None:
            is_searched = among[documents]
            documents = documents[is_searched]
            pair = pair[is_searched]
            frequency = np.bincount(pair, minlength=len(occurring))
            searched = int(among.sum())
        idf = inverse_frequency(frequency, searched)
        occurring_pairs = [pairs[number] for number in occurring.tolist()]
        scores = np.empty((len(parts), self.size))
        for part, weights in enumerate(parts):
            weighted = idf * [weights.get(bigram, 0.0) for bigram in occurring_pairs]
            scores[part] = np.bincount(documents, weighted[pair], self.size)
        return scores

    def _known(self, parts: Sequence[Mapping[Pair, float]]) -> list[Pair]:
        """Return the bigrams of all parts whose terms are known, each once."""
        pairs = dict.fromkeys(chain.from_iterable(parts))
        return [pair for pair in pairs if pair[0] in self.ids and pair[1] in self.ids]

    def _number(self, pair: Pair) -> int:
        first, second = pair
        return self.ids[first] * len(self.ids) + self.ids[second]
