"""Parts: a task of several parts gets tools for each of them, and not ten for the one that says most."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PART = 0.5
"""What a part that nothing ahead serves adds to the score of a tool that surely serves it. Chosen on the development
sets and on tasks joined from several of their queries (docs/decisions.md)."""

Chances = NDArray[np.float64]
"""Each tool's chance to be right for each part alone; [parts, tools]."""


def chances_of(parts: Sequence[tuple[NDArray[np.int64], Chances]], tools: int) -> Chances:
    """Each tool's chance for each part, which has found the tools at these places (-1: none of them); 0 for others."""
    chances = np.zeros((len(parts), tools))
    for row, (places, own) in zip(chances, parts, strict=True):
        row[places[places >= 0]] = own[places >= 0]
    return chances


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
