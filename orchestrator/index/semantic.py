"""The semantic leg's index: cosines of a query with every tool, by one exact matrix product."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.catalogue import places_of_servers
from orchestrator.common.arrays import Integers, Mask
from orchestrator.errors import EmbedderUnavailable
from orchestrator.records.tool import Tool

Cosines = NDArray[np.float32]
"""-1 to 1, [parts, tools] in the catalogue's order."""
ONE_THREAD = 2**18
"""The number of multiplications up to which OpenBLAS computes a matrix product in the calling thread. On busy cores its
threads wait for each other: 12 ms instead of 2 ms for 13,000 tools on two busy cores. For a single column OpenBLAS
would use threads much earlier."""
COLUMNS = 4
"""The columns of a product are a multiple of this number, because OpenBLAS computes four as fast as two or three."""
BEST_OF_SERVER = 3
"""The number of a server's nearest tools whose mean cosine is the server's cosine."""
_NTH = np.arange(1, BEST_OF_SERVER + 1)[:, None]


class SemanticIndex:
    """The vectors of one catalogue, [tools, dimension], rows of length 1. Tools must be ordered by server."""

    def __init__(
        self,
        tools: Sequence[Tool],
        vectors: NDArray[np.float32],
        places: Mapping[str, slice] | None = None,
    ) -> None:
        places = places or places_of_servers(tools)
        self.vectors = np.ascontiguousarray(vectors, np.float32)
        self._ends = np.array([place.stop for place in places.values()], np.int64)
        self._sizes = np.diff(self._ends, prepend=0)
        self.server_of = np.arange(len(places)).repeat(self._sizes)

    def check(self, queries: NDArray[np.float32]) -> None:
        """Raise EmbedderUnavailable for vectors of another size: an endpoint's model may change under its name."""
        if queries.shape[1] != self.vectors.shape[1]:
            raise EmbedderUnavailable(
                f"the embedder returned {queries.shape[1]} dimensions, but the tools' vectors have "
                f"{self.vectors.shape[1]}: use the earlier model, or import the tools again"
            )

    def score(self, queries: NDArray[np.float32], among: Mask | None = None) -> Cosines:
        """Return the cosine of every tool with each part of a query, given as [parts, dimension].

        Args:
            queries: The embeddings of the parts.
            among: True for each searched tool [tools]. The others get -1.
        """
        parts, dimension = queries.shape
        columns = math.ceil(parts / COLUMNS) * COLUMNS
        columns_of_parts = np.zeros((dimension, columns), np.float32)
        columns_of_parts[:, :parts] = queries.T
        cosines = self._product(columns_of_parts)
        by_part = np.ascontiguousarray(cosines.T[:parts])
        if among is None:
            return by_part
        return np.where(among, by_part, np.float32(-1))

    def _product(self, queries: NDArray[np.float32]) -> Cosines:
        """Return the product of all vectors with queries in columns [tools, columns], in blocks of ONE_THREAD."""
        dimension, columns = queries.shape
        cosines = np.empty((len(self.vectors), columns), np.float32)
        rows = max(1, ONE_THREAD // queries.size)
        in_blocks = len(cosines) // rows * rows
        # One call for all whole blocks: with 1,300 tools a loop takes 10 to 20 % longer.
        blocks = self.vectors[:in_blocks].reshape(-1, rows, dimension)
        np.matmul(blocks, queries, out=cosines[:in_blocks].reshape(-1, rows, columns))
        np.matmul(self.vectors[in_blocks:], queries, out=cosines[in_blocks:])
        return cosines

    def server_scores(
        self,
        cosines: NDArray[np.float64],
        servers: Integers,
        among: Mask | None = None,
    ) -> NDArray[np.float64]:
        """Return the mean of the best cosines within each of these servers [parts, servers].

        Args:
            cosines: Cosines, shape [parts, tools].
            servers: The servers.
            among: True for each searched tool [tools]. The others have a cosine of -1.
        """
        sizes = self._sizes[servers]
        ends = sizes.cumsum()
        first_tools = (self._ends[servers] - ends).repeat(sizes)
        tools = np.arange(ends[-1]) + first_tools
        searched = sizes
        if among is not None:
            searched = np.add.reduceat(among[tools], ends - sizes, dtype=np.int64)
        searched = np.maximum(searched, 1)
        # To sort within every server at once: cosines lie within 1 of zero, so servers 4 apart do not mix.
        apart = 4.0 * np.arange(len(servers))
        ascending = np.sort(cosines[:, tools] + apart.repeat(sizes))
        best = ascending[:, ends - np.minimum(_NTH, searched)]
        shares = (searched >= _NTH) / np.minimum(BEST_OF_SERVER, searched)
        return np.asarray((best * shares).sum(axis=1) - apart)
