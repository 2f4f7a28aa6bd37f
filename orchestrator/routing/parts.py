"""Parts: a task of several parts gets tools for each of them, and not ten for the one that says most."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PART = 0.5
"""What a tool that surely serves a part of a task scores at least; and what it is given besides in its turn, where
nothing ahead serves that part. Chosen on development sets and on tasks joined of their queries (docs/decisions.md)."""

NEARER, STEEPER, LEAST = 0.5, 6.0, 0.2
"""From where a part is doubted that lies no farther than so much from what needs no tool than from its best tool, how
fast, and what is left of its odds at least. Chosen on tasks of our own and the development sets (docs/decisions.md)."""

Chances = NDArray[np.float64]
"""Each tool's chance to be right for each part alone; [parts, tools]."""


def asking(acts: NDArray[np.bool_], idle: NDArray[np.float32], nearest: NDArray[np.float32]) -> NDArray[np.float64]:
    """What to multiply the odds of each part's tools with: 1 where it acts or is far nearer to a tool than to what
    needs none, else less ("she is strong, but she hates needles"). All [parts]; idle and nearest are its cosines with
    what needs no tool and with its best tool."""
    doubt = np.maximum(0.0, idle - nearest + NEARER)
    return np.asarray(np.where(acts, 1.0, np.maximum(LEAST, np.exp(-STEEPER * doubt))), np.float64)


def raised_by_parts(scores: NDArray[np.float64], chances: Chances) -> NDArray[np.float64]:
    """The scores [tools], at least PART of each one's chance for the part that it serves best, but below the best
    score, as the confidence is about the best; as they are where there are no two parts."""
    if len(chances) < 2 or not len(scores):
        return scores
    below_best = np.nextafter(scores.max(), 0)
    return np.asarray(np.maximum(scores, np.minimum(PART * chances.max(axis=0), below_best)), np.float64)


def in_turn(scores: Sequence[float], chances: Chances, *, ahead: int, most: int) -> list[int]:
    """The places of `scores`, which are best first, in their new order: the first `ahead` stay, then up to `most` in
    turn the tool with the most score and the most for what is not served yet; the others follow as they were."""
    left = np.array(scores)
    left[:ahead] = -np.inf
    order, unserved = list(range(ahead)), np.prod(1 - chances[:, :ahead], axis=1)
    for _ in range(min(most, len(scores)) - ahead):
        place = int(np.argmax(left + PART * (unserved @ chances)))
        order.append(place)
        unserved *= 1 - chances[:, place]
        left[place] = -np.inf
    return [*order, *np.flatnonzero(np.isfinite(left)).tolist()]
