"""BM25 over stemmed words: the other leg in the measure."""

import re

import numpy as np
import snowballstemmer
from scipy import sparse

from research.views import words

K1, B = 1.5, 0.75
_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    "a an the of to in on for and or is are was be by with from at as it its this that these those i you me my we our "
    "your can could would should will do does did please what which how when where who if so not no have has had need "
    "want some any all about into than then there their them they he she his her us am been being".split()
)
_STEMMER = snowballstemmer.stemmer("english")


def terms(text: str) -> list[str]:
    return _STEMMER.stemWords(
        [word for word in _WORD.findall(words(text).lower()) if word not in _STOP]
    )


class Bm25:
    """Okapi BM25 with Lucene's positive idf."""

    def __init__(self, documents: list[str]) -> None:
        self._number: dict[str, int] = {}
        triples = [
            (row, self._number.setdefault(term, len(self._number)))
            for row, document in enumerate(documents)
            for term in terms(document)
        ]
        row, column = np.array(triples, np.int64).reshape(-1, 2).T
        counts = sparse.csr_matrix(
            (np.ones(len(row)), (row, column)), (len(documents), len(self._number))
        )
        counts.sum_duplicates()
        lengths = np.asarray(counts.sum(1)).ravel()
        frequency = np.bincount(counts.indices, minlength=len(self._number))
        idf = np.log1p((len(documents) - frequency + 0.5) / (frequency + 0.5))
        lengths_of = np.repeat(lengths, np.diff(counts.indptr))
        counts.data *= (K1 + 1) / (counts.data + K1 * (1 - B + B * lengths_of / lengths.mean()))
        self._weights = counts.multiply(idf).tocsr()

    def scores(self, queries: list[str]) -> np.ndarray:
        """[Q, N]"""
        out = np.zeros((len(queries), self._weights.shape[0]), np.float32)
        columns = self._weights.tocsc()
        for number, query in enumerate(queries):
            known = sorted({self._number[term] for term in terms(query) if term in self._number})
            if known:
                out[number] = np.asarray(columns[:, known].sum(1)).ravel()
        return out
