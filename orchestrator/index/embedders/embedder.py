"""An embedder turns texts into unit vectors, which are compared by their cosine."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import EmbedderUnavailable

Vectors = NDArray[np.float32]
"""A float32 array of shape [texts, dimension]. Each row has length 1, or is zero if the text has no known word."""


class Embedder(Protocol):
    """Turns texts into vectors, which are compared by their cosine. Your own class needs these attributes and `embed`.

    Attributes:
        id: A name that changes when the vectors change.
        dimension: The length of a vector.
        remote: Whether `embed` calls an endpoint. It then runs in a thread, with a deadline.

    Examples:
        >>> import numpy as np
        >>> from orchestrator import Embedder, Router
        >>> class LetterCounts:
        ...     id, dimension, remote = "letters", 26, False
        ...     def embed(self, texts):
        ...         letters = [chr(ord("a") + place) for place in range(self.dimension)]
        ...         return np.array([[text.lower().count(letter) for letter in letters] for text in texts], np.float32)
        >>> embedder: Embedder = LetterCounts()
        >>> with Router("examples/tools.jsonl", embedder=embedder) as router:
        ...     router.route_sync("refund a charge").recommended
        ('stripe:refund_charge',)
    """

    id: str
    dimension: int
    remote: bool

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector for each text, shape [texts, dimension].

        Raises:
            EmbedderUnavailable: The embedder cannot answer now.
        """
        ...


def unit(vectors: Vectors) -> Vectors:
    """Scale rows to length 1. Zero rows are unchanged."""
    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)


def checked(vectors: Vectors, expected: int, who: str) -> Vectors:
    """Return the vectors unchanged if they are usable.

    Args:
        vectors: The vectors [texts, dimension].
        expected: The number of texts.
        who: The subject of the error's message, such as `the encoder`.

    Raises:
        EmbedderUnavailable: The array does not have one row for each text, or a number is not finite.
    """
    if vectors.ndim != 2 or len(vectors) != expected:
        shape = f"the shape {vectors.shape} for {expected} texts"
        raise EmbedderUnavailable(f"{who} returned {shape}: it must return one row per text")
    if not np.isfinite(vectors).all():
        raise EmbedderUnavailable(f"{who} returned numbers that are not finite")
    return vectors
