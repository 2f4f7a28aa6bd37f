"""The order of the best candidates, after their sentences are read.

candidate     odds so far   sentence   contents
edit_page         1.2         -.5        -.4      its best sentence has half of the request less than the best one
who_edited         .9          0          0       the best one: "Use when the user asks who edited a page"
"""

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.calibration import LogisticMap, Probabilities, log_odds
from orchestrator.index.features import Rows

SENTENCES_READ = 5
"""The number of candidates whose sentences are read. With twelve, tools that a task needs besides the best one, such as
a sign-in, lose their places."""
_READ = ("odds", "sentence", "contents")
ORDER = (
    *_READ,
    *(f"{name} x described" for name in _READ),
    *(f"{name} x asked" for name in _READ),
)
"""The features that order the best candidates: the log-odds so far, and the shares of the request in one sentence of
the tool, with and without stop words. Each is also multiplied by the length of these tools' descriptions and by that of
the request. Sentences tell much only where they are long enough to quote requests (docs/decisions/ranking.md)."""


def best_candidates(chances: Probabilities) -> NDArray[np.int64]:
    """Return the rows of the best candidates, whose sentences are read."""
    return np.asarray((-chances).argsort(kind="stable")[:SENTENCES_READ], np.int64)


def order_features(chances: Probabilities, read: Rows, asked: float) -> Rows:
    """Return the features ORDER of the best candidates.

    Args:
        chances: Their probabilities so far.
        read: `sentence`, `contents` and `described` of each [candidates, 3].
        asked: The length of the request.
    """
    return _order_rows(log_odds(chances, 1e-6), *_compared(read), asked)


def _compared(read: Rows) -> tuple[Rows, float]:
    """Return how far the first columns are behind the best value, and the mean of the last column."""
    values = read[:, :-1]
    return values - values.max(axis=0), float(read[:, -1].mean())


def _order_rows(odds: Probabilities, behind: Rows, described: float, asked: float) -> Rows:
    rows = np.column_stack([odds, behind])
    return np.hstack([rows, rows * described, rows * asked])


def ordered(
    order: LogisticMap,
    chances: Probabilities,
    best: NDArray[np.int64],
    read: Rows,
    asked: float,
) -> Probabilities:
    """Return the probabilities of all candidates after the sentences of the best ones are read.

    The other candidates count like the worst of the best ones, so they stay behind. A probability of 0 remains 0.

    Args:
        order: The map.
        chances: The probabilities so far [candidates].
        best: The rows of the best candidates.
        read: As in `order_features`, of the best candidates.
        asked: As in `order_features`.
    """
    if not len(best):
        return chances
    behind, described = _compared(read)
    of_all = np.tile(behind.min(axis=0), (len(chances), 1))
    of_all[best] = behind
    odds = log_odds(chances, 1e-6)
    unread = order(_order_rows(odds, np.zeros_like(of_all), described, asked))
    after = order(_order_rows(odds, of_all, described, asked))
    # Between short descriptions the factors would be negative, and a tool would gain by what its sentences lack.
    return np.minimum(unread, after) * (chances > 0)
