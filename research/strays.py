"""Queries that no tool answers: requests that need no tool, and words that do not exist."""

import random

from research.sources import idle

IDLE = idle("unseen")
"""Not those that the embedder was taught: it is surer of them than of what a user says."""
_SYLLABLES = (
    "zor",
    "blip",
    "qua",
    "vrr",
    "plo",
    "nk",
    "xil",
    "mur",
    "tav",
    "eef",
    "gro",
    "shu",
    "pim",
    "dal",
    "wex",
)


def stray(draw: random.Random) -> str:
    """Return a request that needs no tool, or two to five words of random syllables."""
    if draw.random() < 0.5:
        return draw.choice(IDLE)
    return " ".join(
        "".join(draw.choices(_SYLLABLES, k=draw.randint(1, 3))) for _ in range(draw.randint(2, 5))
    )
