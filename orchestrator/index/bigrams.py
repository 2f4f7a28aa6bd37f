"""Bigrams: which documents say two words side by side, as the query does.

"Pull request" is more than a pull and a request. In retrieval it is known as sequential dependence (Metzler and Croft,
2005, "A Markov random field model for term dependencies").
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.bm25 import Said, inverse_frequency

Pair = tuple[str, str]
"""Two terms, in order."""


def side_by_side(terms: Iterable[str], weights: Mapping[str, float]) -> dict[Pair, float]:
    """The pairs of different terms that follow one another, each with the weight of its lesser one, at most 1."""
    return {(a, b): min(weights[a], weights[b], 1.0) for a, b in pairwise(terms) if a != b}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bigrams:
    """Which pairs each document says within a field, each once: their codes in order, and the documents, [pairs]."""

    codes: NDArray[np.uint64]
    documents: NDArray[np.int64]
    size: int

    @classmethod
    def of(cls, said: Said) -> Self:
        """Read anew."""
        words = np.array([_code(term) for term in said.ids], np.uint64)[said.words]
        run = np.arange(len(said.lengths)).repeat(said.lengths)
        beside = ((run[1:] == run[:-1]) & (words[1:] != words[:-1])).nonzero()[0]
        codes, documents = words[beside] << np.uint64(32) | words[beside + 1], said.documents[run[beside]]
        order = codes.argsort(kind="stable")
        codes, documents = codes[order], documents[order]
        once = np.ones(len(codes), np.bool_)
        once[1:] = (codes[1:] != codes[:-1]) | (documents[1:] != documents[:-1])
        return cls(codes=codes[once], documents=documents[once], size=said.size)

    def scores(
        self, parts: Sequence[Mapping[Pair, float]], among: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """The summed weight and inverse document frequency of the pairs that each document says; [parts, documents].

        among: the documents that count [documents].
        """
        pairs = list(dict.fromkeys(chain.from_iterable(parts)) if len(parts) > 1 else parts[0])
        wanted = np.array([_code(a) << 32 | _code(b) for a, b in pairs], np.uint64)
        starts, ends = self.codes.searchsorted(wanted), self.codes.searchsorted(wanted, side="right")
        said = (ends > starts).nonzero()[0]
        if not len(said):
            return np.zeros((len(parts), self.size))
        spans = zip(starts[said].tolist(), ends[said].tolist(), strict=True)
        documents = np.concatenate([self.documents[start:end] for start, end in spans])
        holders, size = (ends - starts)[said], self.size
        pair = np.arange(len(said)).repeat(holders)
        if among is not None:
            there, size = among[documents], int(among.sum())
            documents, pair = documents[there], pair[there]
            holders = np.bincount(pair, minlength=len(said))
        own = [pairs[number] for number in said.tolist()]
        rarity = inverse_frequency(holders, size)
        weights = np.array([[part.get(one, 0.0) for one in own] for part in parts]) * rarity
        return np.array([np.bincount(documents, of_part[pair], self.size) for of_part in weights])


def _code(term: str) -> int:
    """A number of 32 bits, the same in every process; two terms that share one cost a pair too many."""
    return zlib.crc32(term.encode())
