"""The census of many tools: what a search among a few of them must know of all, kept up as tools come and go."""

import base64
import json
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.bm25 import K1, B, GlobalStatistics, code_of
from orchestrator.index.documents import Document
from orchestrator.index.reading import FIELD_WEIGHTS

_COUNTS = ("holders", "words", "actions", "servers")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStatistics:
    """Sums over tools: their definitions' tokens, the weighted lengths of their documents, how many documents hold each
    term, each lower-case word of descriptions and each action, and how many tools each server has.

    `ids` [tools] are halves of their points' ids, in order; `total` [dimension] is the sum of their vectors, `squares`
    [dimension, dimension] that of the vectors' outer products. `reference`: the mean length by which the documents'
    weights were written; it stays, as they do. `fingerprint`: of a catalogue of these tools.
    """

    tokens: int = 0
    length: float = 0.0
    reference: float = 1.0
    fingerprint: str = ""
    holders: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    servers: Counter[str] = field(default_factory=Counter)
    ids: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    total: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def none(cls, dimension: int) -> Self:
        """Return the census of no tools."""
        return cls(total=np.zeros(dimension), squares=np.zeros((dimension, dimension)))

    @classmethod
    def of(cls, ids: Sequence[str], documents: Sequence[Document], vectors: NDArray[np.float32], tokens: int) -> Self:
        """Count tools by their points' ids, documents and vectors [tools, dimension]."""
        exact = vectors.astype(np.float64)
        return cls(
            tokens=tokens,
            length=sum(map(length, documents)),
            holders=Counter(term for own in documents for term in frozenset().union(*own.terms)),
            words=Counter(word for own in documents for word in own.words),
            actions=Counter(own.action for own in documents),
            servers=Counter(own.tool.server for own in documents),
            ids=np.sort(halves(ids)),
            total=exact.sum(axis=0),
            squares=exact.T @ exact,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __add__(self, other: Self) -> Self:
        counts: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return self._with(other, 1, np.union1d(self.ids, other.ids), counts)

    def __sub__(self, other: Self) -> Self:
        counts: dict[str, Any] = {name: getattr(self, name) - getattr(other, name) for name in _COUNTS}
        return self._with(other, -1, np.setdiff1d(self.ids, other.ids), counts)

    def _with(self, other: Self, sign: int, ids: NDArray[np.uint64], counts: dict[str, Any]) -> Self:
        return replace(
            self,
            tokens=self.tokens + sign * other.tokens,
            length=self.length + sign * other.length,
            total=self.total + sign * other.total,
            squares=self.squares + sign * other.squares,
            ids=ids,
            **counts,
        )

    def has(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Return which of these points were counted."""
        asked = halves(ids)
        return np.asarray(self.ids[self.ids.searchsorted(asked).clip(max=len(self) - 1)] == asked)

    @property
    def global_statistics(self) -> GlobalStatistics:
        return GlobalStatistics(size=len(self), length=self.length / max(len(self), 1), holders=self.holders)

    def spread(self, queries: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean and standard deviation of all tools' cosines with each query [queries, dimension]."""
        asked, size = queries.astype(np.float64), max(len(self), 1)
        mean = asked @ self.total / size
        square = np.einsum("qi,ij,qj->q", asked, self.squares, asked) / size
        return mean, np.sqrt(np.maximum(square - mean * mean, 1e-12))

    def text(self) -> str:
        """Return the census as a text of ASCII letters."""
        upper = self.squares[np.triu_indices(len(self.squares))]
        head = {
            "tokens": self.tokens,
            "length": self.length,
            "reference": self.reference,
            "fingerprint": self.fingerprint,
            "ids": _packed(self.ids.astype("<u8")),
            "total": _packed(self.total.astype("<f4")),
            "squares": _packed(upper.astype("<f4")),
            **{name: getattr(self, name) for name in _COUNTS},
        }
        return base64.b85encode(zlib.compress(json.dumps(head).encode(), 1)).decode()

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the census of a text. Raises ValueError and the like for what is none."""
        try:
            head = json.loads(zlib.decompress(base64.b85decode(text)))
        except zlib.error as error:
            raise ValueError(str(error)) from None
        total = np.frombuffer(base64.b64decode(head["total"]), "<f4").astype(np.float64)
        squares = np.zeros((len(total), len(total)))
        squares[np.triu_indices(len(total))] = np.frombuffer(base64.b64decode(head["squares"]), "<f4")
        return cls(
            tokens=head["tokens"],
            length=head["length"],
            reference=head["reference"],
            fingerprint=head["fingerprint"],
            ids=np.frombuffer(base64.b64decode(head["ids"]), "<u8"),
            total=total,
            squares=squares + np.triu(squares, 1).T,
            **{name: Counter(head[name]) for name in _COUNTS},
        )


def length(document: Document) -> float:
    """Return the weighted number of a document's terms."""
    return sum(weight * len(own) for weight, own in zip(FIELD_WEIGHTS.values(), document.terms, strict=True))


def weights(document: Document, reference: float) -> dict[int, float]:
    """Return what each term of a document adds to its BM25 score, but for its rarity; by a number of the term."""
    counts: Counter[str] = Counter()
    for weight, own in zip(FIELD_WEIGHTS.values(), document.terms, strict=True):
        for term in own:
            counts[term] += weight  # type: ignore[assignment]
    norm = K1 * (1 - B + B * length(document) / reference)
    return {code_of(term): own * (K1 + 1) / (own + norm) for term, own in counts.items()}


def halves(ids: Sequence[str]) -> NDArray[np.uint64]:
    """Return the first 64 bits of UUIDs."""
    return np.array([int(own[:18].replace("-", ""), 16) for own in ids], np.uint64)


def _packed(values: NDArray[np.generic]) -> str:
    return base64.b64encode(values.tobytes()).decode()
