"""Shares: what each person's tasks may take of all that is kept or fitted to."""

from collections import Counter
from collections.abc import Sequence
from statistics import median_high

FEW = 10
"""The tasks of one person that always count in full."""


def newest(actors: Sequence[str], most: int, own: int | None = None) -> list[int]:
    """Return the places kept of tasks by these people, oldest first: each person's newest in turn, `most` in all,
    and at most `own` of each."""
    if len(actors) <= most and own is None:
        return [*range(len(actors))]
    seen, turns = Counter[str](), list[tuple[int, int]]()
    for place in range(len(actors) - 1, -1, -1):
        seen[actors[place]] += 1
        turns.append((seen[actors[place]], -place))
    return sorted(-place for turn, place in sorted(turns)[:most] if own is None or turn <= own)


def oldest_of_most(actors: Sequence[str]) -> int:
    """Return the place that goes where there is one too many: the oldest of who has most."""
    counts = Counter(actors)
    most = max(counts.values())
    return next(place for place, actor in enumerate(actors) if counts[actor] == most)


def usual(actors: Sequence[str]) -> int:
    """Return how many tasks of one person count where all are judged together: as many as the median person has."""
    counts = Counter(actors).values()
    return max(FEW, median_high(counts) if counts else 0)
