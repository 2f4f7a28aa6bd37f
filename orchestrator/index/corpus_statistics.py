"""Statistics of many tools: all that a search among a few of them must know of the others."""

import base64
import json
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from orchestrator.index.bm25 import K1, B, GlobalStatistics, code_of
from orchestrator.index.documents import Document
from orchestrator.index.reading import FIELD_WEIGHTS

_SUMS = ("size", "tokens", "length", "holders", "words")
MEAN_LENGTH = 30.0
"""The fixed length by which stored BM25 weights are scaled, so that they do not change when tools are added or
removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStatistics:
    """Sums over tools. New tools can be added and removed tools subtracted.

    Attributes:
        size: The number of tools.
        tokens: The tokens of their definitions.
        length: The weighted lengths of their documents.
        holders: The number of documents with each term.
        words: The number of documents whose description has each lower-case word.
    """

    size: int = 0
    tokens: int = 0
    length: float = 0.0
    holders: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, documents: Sequence[Document], tokens: int) -> Self:
        return cls(
            size=len(documents),
            tokens=tokens,
            length=sum(map(length, documents)),
            holders=Counter(term for own in documents for term in frozenset().union(*own.terms)),
            words=Counter(word for own in documents for word in own.words),
        )

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in _SUMS})

    def __sub__(self, other: Self) -> Self:
        return type(self)(**{name: getattr(self, name) - getattr(other, name) for name in _SUMS})

    @property
    def global_statistics(self) -> GlobalStatistics:
        return GlobalStatistics(size=self.size, length=self.length / max(self.size, 1), holders=self.holders)

    def text(self) -> str:
        """Return the statistics as a text of ASCII letters."""
        sums = {name: getattr(self, name) for name in _SUMS}
        return base64.b85encode(zlib.compress(json.dumps(sums).encode(), 1)).decode()

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the statistics of a text. Raises ValueError and the like for any other text."""
        try:
            found = json.loads(zlib.decompress(base64.b85decode(text)))
        except zlib.error as error:
            raise ValueError(str(error)) from None
        return cls(**{**found, "holders": Counter(found["holders"]), "words": Counter(found["words"])})


def length(document: Document) -> float:
    """Return the weighted number of a document's terms."""
    return sum(weight * len(own) for weight, own in zip(FIELD_WEIGHTS.values(), document.terms, strict=True))


def bm25_weights(document: Document) -> dict[int, float]:
    """Return the share of each term in a document's BM25 score, without its rarity, by a number of the term."""
    counts: Counter[str] = Counter()
    for weight, own in zip(FIELD_WEIGHTS.values(), document.terms, strict=True):
        for term in own:
            counts[term] += weight  # type: ignore[assignment]
    norm = K1 * (1 - B + B * length(document) / MEAN_LENGTH)
    return {code_of(term): own * (K1 + 1) / (own + norm) for term, own in counts.items()}
