"""Postings: BM25 as sparse columns, one a term. `rank-bm25` gives the statistics, a test holds the scores to its own.

A few documents can be replaced without counting the others again; the scores are those of a fresh count.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

Scores = NDArray[np.float32]
"""Shape [documents]; 0 where no term overlaps."""

Said = Sequence[tuple[Sequence[str], float]]
"""A document: the terms of each of its fields, and how much one of them counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How often each document says each term. Arrays over all pairs that occur, [pairs], ordered by term.

    `ids` numbers the terms in their order, whose pairs begin at `starts` [terms + 1]; `fields` has a bit for each field
    of the document that holds the term.
    """

    ids: dict[str, int]
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    frequency: NDArray[np.float32]
    fields: NDArray[np.uint8]
    size: int

    @classmethod
    def of(cls, documents: Iterable[Said]) -> Self:
        """Counted anew; within a term the documents are in order."""
        ids: defaultdict[str, int] = defaultdict()
        ids.default_factory = ids.__len__
        said: list[int] = []
        runs: list[tuple[int, int, int, float]] = []
        size = 0
        for size, document in enumerate(documents, start=1):  # noqa: B007
            for bit, (terms, weight) in enumerate(document):
                said += map(ids.__getitem__, terms)
                runs.append((len(terms), size - 1, 1 << bit, weight))
        ids.default_factory = None
        lengths, places, bits, weights = (np.array(column) for column in zip(*runs, strict=True)) if runs else _NONE
        key = np.array(said, np.int64) * max(size, 1) + np.repeat(places, lengths)
        order = np.argsort(key, kind="stable")
        key = key[order]
        first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.zeros(0, np.int64)
        term, place = np.divmod(key[first], max(size, 1))
        return cls(
            ids=dict(ids),
            starts=_starts(term, len(ids)),
            documents=place.astype(np.int32),
            frequency=_each(np.add, np.repeat(weights, lengths)[order], first).astype(np.float32),
            fields=_each(np.bitwise_or, np.repeat(bits, lengths)[order], first).astype(np.uint8),
            size=size,
        )

    @property
    def term(self) -> NDArray[np.int64]:
        """The number of each pair's term."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.starts))

    def changed(self, moved: NDArray[np.int32], places: NDArray[np.int32], added: "Counts", size: int) -> "Counts":
        """The same with documents moved to other places ([documents]; -1: gone) and those of `added` put at `places`."""
        place = moved[self.documents]
        kept = place >= 0
        ids = dict(self.ids)
        number = np.array([ids.setdefault(term, len(ids)) for term in added.ids], np.int64)
        old, new = self.term[kept], number[added.term]
        ends = _starts(old, len(ids))[new + 1]
        counts = np.bincount(old, minlength=len(ids)) + np.bincount(new, minlength=len(ids))
        alive = (counts > 0).tolist()
        left = [term for term, lives in zip(ids, alive, strict=True) if lives]
        return Counts(
            ids={term: place for place, term in enumerate(left)},
            starts=np.concatenate([[0], np.cumsum(counts[counts > 0])]),
            documents=np.insert(place[kept], ends, places[added.documents]),
            frequency=np.insert(self.frequency[kept], ends, added.frequency),
            fields=np.insert(self.fields[kept], ends, added.fields),
            size=size,
        )


_NONE = (np.zeros(0, np.int64),) * 4


def _starts(term: NDArray[np.int64], terms: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.bincount(term, minlength=terms))]).astype(np.int64)


def _each(sum_up: np.ufunc, values: NDArray[np.generic], first: NDArray[np.int64]) -> NDArray[np.generic]:
    return np.asarray(sum_up.reduceat(values, first)) if len(first) else values[:0]


class PositiveBM25(BM25Okapi):  # type: ignore[misc]
    """BM25Okapi with Lucene's inverse document frequency, log(1 + (N - n + .5) / (n + .5)), which is never negative.

    Okapi's own is zero or below for a term in half of the documents, which is every term of a catalogue of two tools.
    It takes documents as terms, as rank-bm25 does, or Counts; `get_scores` is for documents alone.
    """

    def _initialize(self, corpus: Counts | Sequence[Sequence[str]]) -> dict[str, int]:
        counts = corpus if isinstance(corpus, Counts) else Counts.of([[(words, 1.0)] for words in corpus])
        self.corpus_size = counts.size
        self.doc_len = np.bincount(counts.documents, counts.frequency, minlength=counts.size)
        self.avgdl = float(self.doc_len.sum()) / max(counts.size, 1) or 1.0
        if counts is not corpus:
            self.doc_freqs = [Counter(words) for words in corpus]
        return dict(zip(counts.ids, np.diff(counts.starts).tolist(), strict=True))

    def _calc_idf(self, holders: Mapping[str, int]) -> None:
        self.average_idf = 0.0
        self.idf = {term: math.log1p((self.corpus_size - n + 0.5) / (n + 0.5)) for term, n in holders.items()}


class Postings:
    """A BM25 model as sparse columns: for each term the documents that hold it and what it adds to each."""

    def __init__(self, counts: Counts) -> None:
        model = PositiveBM25(counts)
        self.counts, self.size, self.k1 = counts, counts.size, float(model.k1)
        self.idf: dict[str, float] = model.idf
        norm = model.k1 * (1 - model.b + model.b * model.doc_len / model.avgdl)
        idf = np.fromiter(model.idf.values(), np.float64, len(model.idf))
        frequency = counts.frequency.astype(np.float64)
        impact = frequency * (model.k1 + 1) / (frequency + norm[counts.documents])
        self._impact = (np.repeat(idf, np.diff(counts.starts)) * impact).astype(np.float32)
        self._starts = counts.starts.tolist()

    def __contains__(self, term: str) -> bool:
        return term in self.idf

    def scores(self, weighted: Mapping[str, float]) -> Scores:
        """The BM25 score of every document for weighted query terms."""
        spans, weights = self._spans(weighted), [w for term, w in weighted.items() if term in self.idf]
        if not spans:
            return np.zeros(self.size, np.float32)
        documents = np.concatenate([self.counts.documents[span] for span in spans])
        impact = np.concatenate([self._impact[span] for span in spans])
        impact *= np.repeat(np.array(weights, np.float32), [span.stop - span.start for span in spans])
        return np.bincount(documents, impact, self.size).astype(np.float32)

    def _spans(self, words: Iterable[str]) -> list[slice]:
        """Where the pairs of each known word are."""
        numbers = [number for word in words if (number := self.counts.ids.get(word)) is not None]
        return [slice(self._starts[number], self._starts[number + 1]) for number in numbers]

    def holding(self, words: Sequence[str], documents: NDArray[np.int64]) -> NDArray[np.uint8]:
        """For each term and document [terms, documents] the fields that hold it, as bits; 0: none."""
        found = np.zeros((len(words), len(documents)), np.uint8)
        known = [row for row, word in enumerate(words) if word in self.idf]
        spans = self._spans(words)
        if not spans or not len(documents):
            return found
        place = np.full(self.size, -1, np.int32)
        place[documents] = np.arange(len(documents), dtype=np.int32)
        places = place[np.concatenate([self.counts.documents[span] for span in spans])]
        kept = np.flatnonzero(places >= 0)
        rows = np.repeat(known, [span.stop - span.start for span in spans])[kept]
        found[rows, places[kept]] = np.concatenate([self.counts.fields[span] for span in spans])[kept]
        return found

    def ceiling(self, weighted: Mapping[str, float]) -> float:
        """What a document would score that held every term without end; unknown terms count as the rarest would."""
        rarest = math.log1p((self.size + 0.5) / 0.5)
        return (self.k1 + 1) * sum(self.idf.get(term, rarest) * weight for term, weight in weighted.items())
