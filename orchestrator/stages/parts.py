"""Parts: a task of several parts gets tools for each of them, and not ten for the one that says most."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PART = 0.5
"""What a part that nothing ahead serves adds to the score of a tool that surely serves it. Chosen on the development
sets and on tasks joined from several of their queries (docs/decisions.md)."""

Chances = NDArray[np.float64]
"""Each tool's chance to be right for each part alone; [parts, tools]."""


def in_turn(scores: Sequence[float], chances: Chances, *, ahead: int, most: int) -> list[int]:
    """The places of `scores`, which are best first, in their new order: the first `ahead` stay, then up to `most` in
    turn the tool with the most score and the most for what is not served yet; the others follow as they were."""
    own, serves = np.array(scores), chances
    order, open_parts = list(range(ahead)), np.prod(1 - serves[:, :ahead], axis=1)
    own[:ahead] = -np.inf
    for _ in range(min(most, len(scores)) - ahead):
        place = int(np.argmax(own + PART * (open_parts @ serves)))
        order.append(place)
        open_parts = open_parts * (1 - serves[:, place])
        own[place] = -np.inf
    return [*order, *np.flatnonzero(np.isfinite(own)).tolist()]
