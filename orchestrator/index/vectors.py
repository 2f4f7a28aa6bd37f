"""The semantic leg: cosines between a query and every tool of one catalogue, by an exact matrix product."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.catalogue import places_of_servers
from orchestrator.errors import EmbedderUnavailable
from orchestrator.records.tool import Tool

Cosines = NDArray[np.float32]
"""-1 to 1, [parts, tools] in the catalogue's order."""

ONE_THREAD = 2**18
"""Multiplications of a matrix product that OpenBLAS does in the calling thread. Where others are busy, its threads wait
for one another: 12 ms instead of 2 for 13,000 tools on two busy cores. One column alone it would split much earlier."""

BEST_OF_SERVER = 3
"""A server is as near as the mean of its three nearest tools."""
_NTH = np.arange(1, BEST_OF_SERVER + 1)[:, None]


class SemanticIndex:
    """The vectors of one catalogue, [tools, dimension], rows of length 1. Tools must be ordered by server."""

    def __init__(
        self, tools: Sequence[Tool], vectors: NDArray[np.float32], places: Mapping[str, slice] | None = None
    ) -> None:
        places = places or places_of_servers(tools)
        self.vectors = np.ascontiguousarray(vectors, np.float32)
        self._ends = np.array([place.stop for place in places.values()], np.int64)
        sizes = np.diff(self._ends, prepend=0)
        self.server_of = np.arange(len(places)).repeat(sizes)
        # To sort within every server at once: cosines lie within 1 of zero, so servers 4 apart do not mix.
        self._apart = 4.0 * self.server_of
        self._best, self._shares = self._nearest_of(sizes)

    def check(self, queries: NDArray[np.float32]) -> None:
        """Raise EmbedderUnavailable for vectors of another size: an endpoint's model may change under its name."""
        if queries.shape[1] != self.vectors.shape[1]:
            raise EmbedderUnavailable(
                f"the embedder answered {queries.shape[1]} dimensions, and the tools' vectors have "
                f"{self.vectors.shape[1]}: name another model, or import the tools again"
            )

    def score(self, queries: NDArray[np.float32], among: NDArray[np.bool_] | None = None) -> Cosines:
        """Return the cosine of every tool with each part of a query, given as [parts, dimension].

        among: the tools that count [tools]; the others get -1.
        """
        asked = np.zeros((queries.shape[1], max(len(queries), 2)), np.float32)
        asked[:, : len(queries)] = queries.T
        cosines = np.empty((len(self.vectors), asked.shape[1]), np.float32)
        rows = max(1, ONE_THREAD // asked.size)
        for start in range(0, len(cosines), rows):
            np.matmul(self.vectors[start : start + rows], asked, out=cosines[start : start + rows])
        found = np.ascontiguousarray(cosines.T[: len(queries)])
        return found if among is None else np.where(among, found, np.float32(-1))

    def server_scores(
        self, cosines: NDArray[np.float64], among: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return for each server the mean of the best cosines [parts, tools] within it; [parts, servers].

        among: the tools that count [tools].
        """
        places, shares = self._best, self._shares
        if among is not None:
            places, shares = self._nearest_of(np.bincount(self.server_of[among], minlength=len(self._ends)))
        best = np.sort(cosines + self._apart)[:, places]
        return np.asarray((best * shares).sum(axis=1) - self._apart[self._ends - 1])

    def _nearest_of(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return where each server's nearest tools stand, sorted by cosine, and their shares in its score [3, servers].

        sizes: how many tools of each server count [servers].
        """
        sizes = np.maximum(sizes, 1)
        taken = np.minimum(_NTH, sizes)
        return self._ends - taken, (sizes >= _NTH) / taken[-1]


def leaning(vectors: NDArray[np.float32], weights: Sequence[float]) -> NDArray[np.float32]:
    """Return the query's row with the last rows, those of earlier texts, added by weight."""
    if not weights:
        return vectors
    whole = vectors[0] + np.asarray(weights, np.float32) @ vectors[-len(weights) :]
    whole /= max(float(np.linalg.norm(whole)), 1e-9)
    return np.vstack([whole, vectors[1 : -len(weights)]])
