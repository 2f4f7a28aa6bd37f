"""BM25 as sparse columns, one a term. `rank-bm25` gives the statistics, and a test holds the scores to its own."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

Scores = NDArray[np.float32]
"""Shape [documents]; 0 where no term overlaps."""
Document = Sequence[tuple[Sequence[str], float]]
"""The terms of each of its fields, and how much one of them counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Documents read once: `words` [words] are the numbers that `ids` gives the terms.

    They stand in runs, one a field of a document: of `lengths`, in `documents`, with the bit and the weight of the
    field; [runs].
    """

    ids: dict[str, int]
    words: NDArray[np.int64]
    lengths: NDArray[np.int64]
    documents: NDArray[np.int64]
    bits: NDArray[np.int64]
    weights: NDArray[np.float64]
    size: int

    @classmethod
    def of(cls, documents: Iterable[Document]) -> Self:
        """Numbered in the order in which terms come up."""
        ids: defaultdict[str, int] = defaultdict()
        ids.default_factory = ids.__len__
        words: list[int] = []
        runs: list[tuple[int, int, int, float]] = []
        size = 0
        for size, document in enumerate(documents, start=1):
            for bit, (terms, weight) in enumerate(document):
                words += map(ids.__getitem__, terms)
                runs.append((len(terms), size - 1, 1 << bit, weight))
        lengths, places, bits, weights = zip(*runs, strict=True) if runs else ((), (), (), ())
        return cls(
            ids=dict(ids),
            words=np.array(words, np.int64),
            lengths=np.array(lengths, np.int64),
            documents=np.array(places, np.int64),
            bits=np.array(bits, np.int64),
            weights=np.array(weights, np.float64),
            size=size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How often each document says each term. Arrays over all pairs that occur, [pairs], ordered by term.

    `ids` numbers the terms in their order, whose pairs begin at `starts` [terms + 1]; `fields` has a bit for each field
    of the document that holds the term.
    """

    ids: dict[str, int]
    starts: NDArray[np.int64]
    documents: NDArray[np.int64]
    frequency: NDArray[np.float32]
    fields: NDArray[np.uint8]
    size: int

    @classmethod
    def of(cls, said: Said) -> Self:
        """Counted anew; within a term the documents are in order."""
        many = max(said.size, 1)
        key = said.words * many + said.documents.repeat(said.lengths)
        order = np.argsort(key, kind="stable")
        key = key[order]
        first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.zeros(0, np.int64)
        term, place = np.divmod(key[first], many)
        return cls(
            ids=said.ids,
            starts=_starts(term, len(said.ids)),
            documents=place,
            frequency=each(np.add, said.weights.repeat(said.lengths)[order], first).astype(np.float32),
            fields=each(np.bitwise_or, said.bits.repeat(said.lengths)[order], first).astype(np.uint8),
            size=said.size,
        )

    @property
    def term(self) -> NDArray[np.int64]:
        """The number of each pair's term."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.starts))


def _starts(term: NDArray[np.int64], terms: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.bincount(term, minlength=terms))]).astype(np.int64)


def each(sum_up: np.ufunc, values: NDArray[Any], first: NDArray[np.int64]) -> NDArray[Any]:
    """The values of each run summed up, where runs begin at `first`."""
    return np.asarray(sum_up.reduceat(values, first)) if len(first) else values[:0]


def inverse_frequency(holders: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Lucene's inverse document frequency of terms that so many of the documents hold."""
    return np.asarray(np.log1p((size - holders + 0.5) / (holders + 0.5)))


class PositiveBM25(BM25Okapi):  # type: ignore[misc]
    """BM25Okapi with Lucene's inverse document frequency, log(1 + (N - n + .5) / (n + .5)), which is never negative.

    Okapi's own is zero or below for a term in half of the documents, which is every term of a catalogue of two tools.
    It takes documents as terms, as rank-bm25 does, or Counts; `idf` by term and `get_scores` are for documents alone.
    """

    def _initialize(self, corpus: Counts | Sequence[Sequence[str]]) -> Counts:
        if isinstance(corpus, Counts):
            counts = corpus
        else:
            counts = Counts.of(Said.of([(words, 1.0)] for words in corpus))
            self.doc_freqs = [Counter(words) for words in corpus]
        self.corpus_size = counts.size
        self.doc_len = np.bincount(counts.documents, counts.frequency, minlength=counts.size)
        self.avgdl = float(self.doc_len.sum()) / max(counts.size, 1) or 1.0
        return counts

    def _calc_idf(self, counts: Counts) -> None:
        holders = np.diff(counts.starts)
        self.idf_by_number = inverse_frequency(holders, self.corpus_size)
        if self.doc_freqs:
            self.idf = dict(zip(counts.ids, self.idf_by_number.tolist(), strict=True))


_NO_DOCUMENTS, _NO_IMPACT = np.zeros(0, np.int64), np.zeros(0, np.float32)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The postings of a query's words, gathered once: what is asked of the query is answered from them.

    Words, `idf` and `idf_of_all` [words], by these documents and by all; `lengths` [words] says how many of the pairs,
    [pairs], are each word's.
    """

    words: Sequence[str]
    idf: NDArray[np.float64]
    idf_of_all: NDArray[np.float64]
    lengths: NDArray[np.int64]
    documents: NDArray[np.int64]
    impact: NDArray[np.float32]
    fields: NDArray[np.uint8]
    size: int

    def among(self, kept: NDArray[np.bool_]) -> "Columns":
        """The same if these documents [documents] were all there are."""
        there = kept[self.documents]
        word = self.word[there]
        lengths = np.bincount(word, minlength=len(self.words))
        held, idf = lengths > 0, inverse_frequency(lengths, int(kept.sum()))
        return Columns(
            words=list(compress(self.words, held.tolist())),
            idf=idf[held],
            idf_of_all=self.idf_of_all[held],
            lengths=lengths[held],
            documents=self.documents[there],
            impact=self.impact[there] * (idf / self.idf)[word].astype(np.float32),
            fields=self.fields[there],
            size=self.size,
        )

    @property
    def word(self) -> NDArray[np.int64]:
        """The number of each pair's word."""
        return np.arange(len(self.words)).repeat(self.lengths)

    def says(self, weighted: Mapping[str, float]) -> tuple[float, float]:
        """How much of these weights is of these words, and their summed inverse document frequency by weight."""
        idf = self.idf_of
        known = [(idf[word], weight) for word, weight in weighted.items() if word in idf]
        return sum([weight for _, weight in known]), sum([own * weight for own, weight in known])

    @cached_property
    def idf_of(self) -> Mapping[str, float]:
        return dict(zip(self.words, self.idf.tolist(), strict=True))

    def asked(self, parts: Sequence[Mapping[str, float]]) -> NDArray[np.float64]:
        """What each part of a query asks of each word [parts, words]; 0 where it does not say the word."""
        return np.array([[weighted.get(word, 0.0) for word in self.words] for weighted in parts])

    def scores(self, asked: NDArray[np.float64]) -> NDArray[np.float32]:
        """The BM25 score of every document for the weights of the words [parts, words]; [parts, documents]."""
        found = np.empty((len(asked), self.size), np.float32)
        for own, weights in zip(found, asked.astype(np.float32), strict=True):
            own[:] = np.bincount(self.documents, self.impact * weights.repeat(self.lengths), self.size)
        return found

    @cached_property
    def held(self) -> NDArray[np.uint8]:
        """For each word and document [words, documents] the fields that hold it, as bits; 0: none."""
        found = np.zeros(len(self.words) * self.size, np.uint8)
        rows = np.arange(0, len(found), self.size) if self.size else self.lengths
        found[rows.repeat(self.lengths) + self.documents] = self.fields
        return found.reshape(len(self.words), self.size)


class Postings:
    """A BM25 model as sparse columns: for each term the documents that hold it and what it adds to each."""

    def __init__(self, counts: Counts) -> None:
        model = PositiveBM25(counts)
        self.counts, self.size, self.k1 = counts, counts.size, float(model.k1)
        self.idf: NDArray[np.float64] = model.idf_by_number
        """Of each term, by its number."""
        self._norm: NDArray[np.float64] = model.k1 * (1 - model.b + model.b * model.doc_len / model.avgdl)
        self.one = self._saturated(np.ones(1), self._norm)
        """What saying something once counts in each document, by its length; [documents]."""
        impact = self._saturated(counts.frequency.astype(np.float64), self._norm[counts.documents])
        self._impact = (np.repeat(self.idf, np.diff(counts.starts)) * impact).astype(np.float32)
        self._starts: list[int] = counts.starts.tolist()
        self._idf: list[float] = self.idf.tolist()

    def scores(self, weighted: Mapping[str, float]) -> Scores:
        """The BM25 score of every document for weighted query terms."""
        ids, starts = self.counts.ids, self._starts
        documents, impact = [_NO_DOCUMENTS], [_NO_IMPACT]
        for term, weight in weighted.items():
            if (number := ids.get(term)) is not None:
                span = slice(starts[number], starts[number + 1])
                documents.append(self.counts.documents[span])
                impact.append(self._impact[span] if weight == 1 else self._impact[span] * np.float32(weight))
        return np.bincount(np.concatenate(documents), np.concatenate(impact), self.size).astype(np.float32)

    def scores_if(self, words: Mapping[str, float], frequency: NDArray[np.float64]) -> Scores:
        """The same if the documents said these words so often [words, documents], and nothing else had changed."""
        ids, idf = self.counts.ids, self._idf
        weights = [weight * idf[ids[word]] if word in ids else 0.0 for word, weight in words.items()]
        return np.asarray(np.array(weights) @ self._saturated(frequency, self._norm), np.float32)

    def _saturated(self, frequency: NDArray[np.float64], norm: NDArray[np.float64]) -> NDArray[np.float64]:
        return frequency * (self.k1 + 1) / (frequency + norm)

    def columns(self, words: Iterable[str]) -> "Columns":
        """The columns of those of these words that are known."""
        ids, starts = self.counts.ids, self._starts
        known = {word: ids[word] for word in words if word in ids}
        numbers = known.values()
        spans = [slice(starts[number], starts[number + 1]) for number in numbers] or [slice(0)]
        documents, impact, fields = self.counts.documents, self._impact, self.counts.fields
        idf = np.array([self._idf[number] for number in numbers])
        return Columns(
            words=list(known),
            idf=idf,
            idf_of_all=idf,
            lengths=np.array([starts[number + 1] - starts[number] for number in numbers], np.int64),
            documents=np.concatenate([documents[span] for span in spans]),
            impact=np.concatenate([impact[span] for span in spans]),
            fields=np.concatenate([fields[span] for span in spans]),
            size=self.size,
        )

    def ceiling(self, says: float, unknown: float, size: int) -> float:
        """What a document would score that held every term without end: known ones by their summed inverse document
        frequency, unknown ones by their weight, as the rarest of so many documents would."""
        return (self.k1 + 1) * (says + math.log1p((size + 0.5) / 0.5) * unknown)
