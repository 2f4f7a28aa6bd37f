"""Vectors that a scripted embedding model gives: texts with terms in common are near one another."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.text import terms

DIMENSION = 32


def embedding(text: str, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """The text's vector, not of length 1; the same in every process."""
    vector = np.full(dimension, 1e-3, np.float32)
    for term in terms(text):
        vector[int(hashlib.sha256(term.encode()).hexdigest(), 16) % dimension] += 1
    return vector * 3
