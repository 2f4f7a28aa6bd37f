"""Makes `data/embedder/contrast.npy`: `python -m research.contrast --data ../shared`.

A request names what to do and with which thing, and the sister tools of a server share the thing. The embedding model
was trained against tools of all servers, so its cosine hardly tells `create_label` from `delete_label`. The contrast is
a matrix M, for which `request @ M @ tool` are the log-odds of a tool among its sisters. It is fitted to the written
requests, each against the tools of the same server, by gradient descent from a multiple of the identity. One pass over
the requests is enough: further passes fit the written requests and help no other set.
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orchestrator import Embedder, Options, Tool
from orchestrator.index.embedders.by_name import embedder_for
from orchestrator.index.embedders.embedding import embed_tools
from orchestrator.index.intent import name_words
from orchestrator.pipeline.scoring import UNCONTRASTED
from research import sources

ALIKE, OTHERS = 6, 3
"""The numbers of sisters in a comparison: those that share most words of the name, and others of the server."""
BATCH, PASSES, STEP, DECAY = 1024, 1, 0.02, 1e-6
MOMENTS = 0.9, 0.99
HELD_OUT = 0.05
"""The share of requests that only measure the result."""

Matrix = NDArray[np.float32]
Comparison = tuple[str, list[Tool]]
"""A request, with its tool first and sisters of this tool behind it."""


def labelled(data: Path) -> Iterator[tuple[str, sources.Tool]]:
    """Yield each written request, and each part of a long task, that has one tool."""
    stories = (part for story in sources.stories(data) for part in story)
    for text, tools in (*sources.requests(data), *stories):
        if len(tools) == 1:
            yield text, tools[0]


def comparisons(data: Path, draw: random.Random) -> list[Comparison]:
    """Return the requests in a random order. A tool without sisters gives none."""
    servers: defaultdict[str, dict[str, Tool]] = defaultdict(dict)
    for tool in sources.catalogues(data):
        record = _record(tool)
        servers[record.server].setdefault(record.name, record)
    compared = []
    for text, tool in labelled(data):
        sisters = [sister for sister in servers[tool.server].values() if sister.name != tool.name]
        if sisters:
            right = _record(tool)
            compared.append((text, [right, *_drawn(right, sisters, draw)]))
    draw.shuffle(compared)
    return compared


def _record(tool: sources.Tool) -> Tool:
    return Tool(
        server=tool.server,
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
    )


def _drawn(tool: Tool, sisters: Sequence[Tool], draw: random.Random) -> list[Tool]:
    words = set(name_words(tool))
    order = sorted(
        sisters, key=lambda sister: (-len(words & set(name_words(sister))), draw.random())
    )
    further = order[ALIKE:]
    return [*order[:ALIKE], *draw.sample(further, min(OTHERS, len(further)))]


class Comparisons:
    """Embedded comparisons: `requests` [comparisons, dimension], and `tools` [comparisons, 1 + ALIKE + OTHERS]."""

    def __init__(self, compared: Sequence[Comparison], embedder: Embedder) -> None:
        tools = {(tool.key, tool.description): tool for _, several in compared for tool in several}
        row_of = {key: row for row, key in enumerate(tools)}
        self.vectors = embed_tools(embedder, list(tools.values()))
        self.requests = embedder.embed([text for text, _ in compared])
        self.tools = np.full((len(compared), 1 + ALIKE + OTHERS), -1)
        for row, (_, several) in zip(self.tools, compared, strict=True):
            row[: len(several)] = [row_of[tool.key, tool.description] for tool in several]

    def chances(self, matrix: Matrix, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the probability of each tool of these comparisons [rows, tools]."""
        odds = np.einsum("bd,bcd->bc", self.requests[rows] @ matrix, self.vectors[self.tools[rows]])
        odds[self.tools[rows] < 0] = -np.inf
        odds -= odds.max(axis=1, keepdims=True)
        exponential = np.exp(odds)
        return np.asarray(exponential / exponential.sum(axis=1, keepdims=True), np.float32)

    def slope(self, matrix: Matrix, rows: NDArray[np.int64]) -> Matrix:
        """Return the gradient of the mean loss of these comparisons."""
        error = self.chances(matrix, rows)
        error[:, 0] -= 1
        towards = np.einsum("bc,bcd->bd", error, self.vectors[self.tools[rows]])
        return np.asarray(self.requests[rows].T @ towards / len(rows) + DECAY * matrix, np.float32)


def fitted(compared: Comparisons, count: int) -> Matrix:
    """Return the matrix fitted to the first comparisons, by Adam."""
    matrix = np.eye(compared.requests.shape[1], dtype=np.float32) * UNCONTRASTED
    mean, square = np.zeros_like(matrix), np.zeros_like(matrix)
    steps = 0
    for number in range(PASSES):
        order = np.random.default_rng(number).permutation(count)
        for start in range(0, count, BATCH):
            steps += 1
            slope = compared.slope(matrix, order[start : start + BATCH])
            mean = MOMENTS[0] * mean + (1 - MOMENTS[0]) * slope
            square = MOMENTS[1] * square + (1 - MOMENTS[1]) * slope**2
            unbiased = square / (1 - MOMENTS[1] ** steps)
            matrix -= STEP * mean / (1 - MOMENTS[0] ** steps) / (np.sqrt(unbiased) + 1e-8)
    return matrix


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="the folder that holds bench/ and train/"
    )
    parser.add_argument("--out", type=Path, default=Path("orchestrator/data/embedder/contrast.npy"))
    arguments = parser.parse_args()
    compared = Comparisons(comparisons(arguments.data, random.Random(0)), embedder_for(Options()))
    total = len(compared.requests)
    count = int(total * (1 - HELD_OUT))
    matrix = fitted(compared, count)
    held_out = np.arange(count, total)
    first = [
        float((compared.chances(own, held_out).argmax(axis=1) == 0).mean())
        for own in (np.eye(len(matrix), dtype=np.float32), matrix)
    ]
    print(
        f"{total} requests; right of those held out: {first[0]:.3f} by the cosine, {first[1]:.3f} by the contrast"
    )
    np.save(arguments.out, matrix.astype(np.float16))


if __name__ == "__main__":
    main()
