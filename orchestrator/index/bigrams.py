"""Bigrams: which documents hold two terms side by side, as the query does.

"Pull request" is more than a pull and a request: sequential dependence (Metzler and Croft, 2005, "A Markov random
field model for term dependencies").
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.bm25 import Corpus, inverse_frequency

Pair = tuple[str, str]


def side_by_side(terms: Iterable[str], weights: Mapping[str, float]) -> dict[Pair, float]:
    """Return the pairs of different terms that follow one another, each with its lesser weight, at most 1."""
    return {(a, b): min(weights[a], weights[b], 1.0) for a, b in pairwise(terms) if a != b}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bigrams:
    """The bigrams that each document holds within a field, each once: sorted codes and documents, [pairs]."""

    codes: NDArray[np.uint64]
    documents: NDArray[np.int64]
    size: int

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        terms, runs = np.array([_code(term) for term in corpus.ids], np.uint64)[corpus.terms], corpus.runs
        first = ((runs[1:] == runs[:-1]) & (terms[1:] != terms[:-1])).nonzero()[0]
        codes, documents = terms[first] << np.uint64(32) | terms[first + 1], corpus.documents[first]
        order = codes.argsort(kind="stable")
        codes, documents = codes[order], documents[order]
        once = np.ones(len(codes), np.bool_)
        once[1:] = (codes[1:] != codes[:-1]) | (documents[1:] != documents[:-1])
        return cls(codes=codes[once], documents=documents[once], size=corpus.size)

    def scores(
        self, parts: Sequence[Mapping[Pair, float]], among: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the summed weighted idf of the bigrams that each document holds [parts, documents].

        among: the documents that count [documents].
        """
        pairs = list(dict.fromkeys(chain.from_iterable(parts)))
        wanted = np.array([_code(a) << 32 | _code(b) for a, b in pairs], np.uint64)
        starts, ends = self.codes.searchsorted(wanted), self.codes.searchsorted(wanted, side="right")
        known = (ends > starts).nonzero()[0]
        if not len(known):
            return np.zeros((len(parts), self.size))
        spans = zip(starts[known].tolist(), ends[known].tolist(), strict=True)
        documents = np.concatenate([self.documents[start:end] for start, end in spans])
        holders, size = (ends - starts)[known], self.size
        pair = np.arange(len(known)).repeat(holders)
        if among is not None:
            there, size = among[documents], int(among.sum())
            documents, pair = documents[there], pair[there]
            holders = np.bincount(pair, minlength=len(known))
        own = [pairs[number] for number in known.tolist()]
        weights = np.array([[part.get(one, 0.0) for one in own] for part in parts]) * inverse_frequency(holders, size)
        return np.array([np.bincount(documents, of_part[pair], self.size) for of_part in weights])


def _code(term: str) -> int:
    """Return a number of 32 bits, the same in every process; two terms that share one cost a bigram too many."""
    return zlib.crc32(term.encode())
