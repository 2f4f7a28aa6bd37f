"""Coverage sets: how many of the best tools hold all that are needed, with a wanted probability.

Split conformal prediction. A tool's conformity is its score as a share of the best tool's; a query's is that of the
least likely tool that it needs, 0 where that is not among the best 50. The threshold of a coverage is the share that
so many queries reach, every set of queries counting the same: `python -m training.coverage`, shipped in
`orchestrator/data/coverage.json`.
"""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any, Literal

from orchestrator.errors import InvalidConfig

Legs = Literal["keyword", "both"]
"""Which legs gave the scores; each has thresholds of its own."""
LEVELS = tuple(number / 100 for number in range(50, 100))
"""The coverages that have a threshold; a wanted one takes the next above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageSet:
    """The best `count` tools, and the coverage that they reach: the wanted one, or the most that can be had."""

    count: int
    coverage: float

    def warning(self, wanted: float) -> str | None:
        """What to tell where the wanted coverage is not reached."""
        if self.coverage >= wanted:
            return None
        reached = f"reach {self.coverage:g}" if self.coverage else f"do not reach {LEVELS[0]:g}"
        return f"coverage {wanted:g} cannot be had here: the {self.count} best tools {reached}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """For each of LEVELS, by legs, the share of the best score from which on a tool belongs to the set.

    The shares fall; 0 stands where no 50 tools reach the level. `source` says what they were measured on.
    """

    shares: Mapping[str, tuple[float, ...]]
    source: str = ""

    def smallest(
        self, scores: Sequence[float], wanted: float, legs: Legs, *, most: int, everything: bool
    ) -> CoverageSet:
        """The smallest set of these candidates, in their final order, that reaches the wanted coverage.

        At most `most` tools; `everything`: the candidates are all tools there are, so together they miss none.
        """
        place = bisect_left(LEVELS, wanted)
        share = self.shares[legs][place] if place < len(LEVELS) else 0.0
        best = max(scores, default=0.0)
        likely = [rank for rank, score in enumerate(scores, start=1) if score >= share * best]
        count = min(most, likely[-1] if share and likely else len(scores))
        if everything and count == len(scores):
            return CoverageSet(count=count, coverage=1.0)
        left_out = max(scores[count:], default=0.0)
        if share and left_out < share * best:
            return CoverageSet(count=count, coverage=wanted)
        return CoverageSet(count=count, coverage=self._reached(left_out / best if best else 1.0, legs))

    def _reached(self, left_out: float, legs: Legs) -> float:
        """The highest level whose share is above that of the likeliest tool left out."""
        return max(
            (level for level, share in zip(LEVELS, self.shares[legs], strict=True) if share > left_out), default=0.0
        )


@cache
def shipped() -> Coverage:
    """The thresholds that come with the package."""
    text = (files("orchestrator") / "data" / "coverage.json").read_text(encoding="utf-8")
    return from_json(json.loads(text))


def from_json(record: dict[str, Any]) -> Coverage:
    """Thresholds from their JSON form; InvalidConfig names what is wrong."""
    remedy = "make them again with `python -m training.coverage`, or `toolroute eval FOLDER --fit --write FILE`"
    shares: dict[str, tuple[float, ...]] = {}
    for legs in ("keyword", "both"):
        given = record.get(legs)
        if not isinstance(given, list) or len(given) != len(LEVELS):
            raise InvalidConfig(f"coverage thresholds {legs!r}: give {len(LEVELS)} numbers; {remedy}")
        if not all(isinstance(share, int | float) and 0 <= share <= 1 for share in given) or given != sorted(
            given, reverse=True
        ):
            raise InvalidConfig(f"coverage thresholds {legs!r}: give shares of 0 to 1 that fall; {remedy}")
        shares[legs] = tuple(float(share) for share in given)
    return Coverage(shares=shares, source=str(record.get("about", {}).get("source", "")))


def thresholds(conformities: Mapping[str, Sequence[float]]) -> tuple[float, ...]:
    """The shares for LEVELS from the conformity of each set's queries.

    Every set counts the same, and of each set one query more than there are is held to reach nothing: the one to come.
    """
    weighted = [(value, 1 / (len(conformities) * (len(own) + 1))) for own in conformities.values() for value in own]
    weighted.sort(reverse=True)
    reached = list(accumulate(weight for _, weight in weighted))
    places = [bisect_left(reached, level - 1e-9) for level in LEVELS]
    return tuple(weighted[place][0] if place < len(weighted) else 0.0 for place in places)


def conformity(scores: Sequence[float], needed: Sequence[bool], gold: int) -> float:
    """The share of the best score that the least likely needed tool has; 0 where not all `gold` are among these.

    Of tools in an order that is not by score, one counts as likely as the likeliest at or behind its place.
    """
    if gold == 0 or sum(needed) < gold:
        return 0.0
    last = max(rank for rank, is_needed in enumerate(needed) if is_needed)
    return max(scores[last:]) / max(max(scores), 1e-12)
