"""Texts grouped by meaning, so that a batch can be drawn from few groups: its negatives are then hard ones."""

import numpy as np


class Groups:
    """Rows of unit vectors [N, D], each in the group of the nearest of `count` randomly chosen rows."""

    def __init__(self, vectors: np.ndarray, rng: np.random.Generator, count: int) -> None:
        centres = vectors[rng.choice(len(vectors), min(count, len(vectors)), replace=False)]
        nearest = np.concatenate(
            [(vectors[start : start + 4096] @ centres.T).argmax(1) for start in range(0, len(vectors), 4096)]
        )
        self._members = np.split(np.argsort(nearest, kind="stable"), np.cumsum(np.bincount(nearest))[:-1])
        self._members = [members for members in self._members if len(members)]
        self._sizes = np.array([len(members) for members in self._members])

    def draw(self, rng: np.random.Generator, size: int, groups: int) -> np.ndarray:
        """`size` different rows, or fewer, from `groups` groups; a large group is drawn more often."""
        groups = min(groups, len(self._members))
        chosen = rng.choice(len(self._members), groups, replace=False, p=self._sizes / self._sizes.sum())
        pool = np.concatenate([self._members[number] for number in chosen])
        return rng.permutation(pool)[:size]
