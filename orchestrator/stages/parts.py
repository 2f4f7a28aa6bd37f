"""Parts: a task of several parts gets tools for each of them, and not ten for the one that says most."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PART = 0.5
"""What a part that nothing ahead serves adds to the score of a tool that surely serves it. Chosen on the development
sets and on tasks joined from several of their queries (docs/decisions.md)."""

NEARER, STEEPER = 0.5, 6.0
"""From where a part is doubted that lies no farther than so much from what needs no tool than from its best tool, and
how fast. Chosen on tasks of our own and the development sets (docs/decisions.md)."""

Chances = NDArray[np.float64]
"""Each tool's chance to be right for each part alone; [parts, tools]."""


def asking(acts: NDArray[np.bool_], idle: NDArray[np.float32], nearest: NDArray[np.float32]) -> NDArray[np.float64]:
    """What to multiply the odds of each part's tools with: 1 where it begins with an action or is far nearer to a tool
    than to what needs none, else less ("my printer is broken, too"). All [parts]; idle and nearest are its cosines
    with what needs no tool and with its best tool."""
    doubt = np.maximum(0.0, idle - nearest + NEARER)
    return np.where(acts, 1.0, np.exp(-STEEPER * doubt))


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
