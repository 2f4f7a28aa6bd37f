"""What documents say: their words by number, in the order in which they stand, field by field."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

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
