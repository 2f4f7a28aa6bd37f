"""Coverage sets: the fewest of the best tools that hold all that are needed, with a wanted probability.

Split conformal prediction. A tool conforms by its score as a share of the best tool's, divided by its rank by score; a
query by the last tool that it needs, and not at all where one is not among the best 50. The threshold of a coverage is
what that share of the queries reaches, every set of queries counting the same: `python -m research.coverage`, shipped
in `orchestrator/data/coverage.json`.
"""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Literal

Legs = Literal["keyword", "both"]
"""Which legs gave the scores; each has thresholds of its own."""
LEVELS = tuple(number / 100 for number in range(50, 100))
"""The coverages that have a threshold; a wanted one takes the next above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageSet:
    """The best `count` tools, and the coverage that they reach: the wanted one, or the most there is."""

    count: int
    coverage: float

    def warning(self, wanted: float) -> str | None:
        """Return a warning where the wanted coverage is not reached."""
        if self.coverage >= wanted:
            return None
        reached = f"reach {self.coverage:g}" if self.coverage else f"do not reach {LEVELS[0]:g}"
        return f"coverage {wanted:g} is not reached: the {self.count} best tools {reached}"


def smallest(
    scores: Sequence[float],
    wanted: float,
    legs: Legs,
    *,
    most: int,
    everything: bool = False,
    thresholds: Mapping[Legs, Sequence[float]] | None = None,
) -> CoverageSet:
    """Return the smallest set of these candidates, in their final order, that reaches the wanted coverage.

    At most `most` tools; `everything`: the candidates are all tools there are, so together they miss none.
    thresholds: the conformity down to which tools belong to the set, for each of LEVELS; falling, and 0 where no 50
    tools reach the level.
    """
    levels = (thresholds or shipped())[legs]
    place = bisect_left(LEVELS, wanted)
    threshold = levels[place] if place < len(LEVELS) else 0.0
    conforming = conformities(scores)
    needed = sum(conformity >= threshold for conformity in conforming)
    count = min(most, needed)
    if everything and count == len(scores):
        return CoverageSet(count=count, coverage=1.0)
    if threshold and count == needed:
        return CoverageSet(count=count, coverage=wanted)
    left_out = conforming[count] if count < len(scores) else 0.0
    reached = [level for level, least in zip(LEVELS, levels, strict=True) if least > left_out]
    return CoverageSet(count=count, coverage=max(reached, default=0.0))


def conformities(scores: Sequence[float]) -> list[float]:
    """Return each candidate's score as a share of the best's, divided by its rank by score; they fall.

    In an order that is not by score, one conforms as well as any behind it: all that would belong by score, belong.
    """
    best = max(max(scores, default=0.0), 1e-12)
    own = [0.0] * len(scores)
    for rank, place in enumerate(sorted(range(len(scores)), key=scores.__getitem__, reverse=True), start=1):
        own[place] = scores[place] / best / rank
    return list(accumulate(reversed(own), max))[::-1]


@cache
def shipped() -> Mapping[Legs, Sequence[float]]:
    """Return the thresholds that come with the package."""
    legs: Mapping[Legs, Sequence[float]] = json.loads(
        (files("orchestrator") / "data" / "coverage.json").read_text(encoding="utf-8")
    )
    return legs
