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
from typing import Any, Literal

from orchestrator.errors import InvalidConfig

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """By legs, for each of LEVELS, the conformity down to which tools belong to the set.

    The thresholds fall; 0 stands where no 50 tools reach the level. `source` says what they were measured on.
    """

    thresholds: Mapping[Legs, tuple[float, ...]]
    source: str = ""

    def smallest(
        self, scores: Sequence[float], wanted: float, legs: Legs, *, most: int, everything: bool
    ) -> CoverageSet:
        """Return the smallest set of these candidates, in their final order, that reaches the wanted coverage.

        At most `most` tools; `everything`: the candidates are all tools there are, so together they miss none.
        """
        place = bisect_left(LEVELS, wanted)
        threshold = self.thresholds[legs][place] if place < len(LEVELS) else 0.0
        conforming = conformities(scores)
        needed = sum(conformity >= threshold for conformity in conforming)
        count = min(most, needed)
        if everything and count == len(scores):
            return CoverageSet(count=count, coverage=1.0)
        if threshold and count == needed:
            return CoverageSet(count=count, coverage=wanted)
        left_out = conforming[count] if count < len(scores) else 0.0
        reached = [level for level, least in zip(LEVELS, self.thresholds[legs], strict=True) if least > left_out]
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


def conformity(scores: Sequence[float], needed: Sequence[bool], gold: int) -> float:
    """Return a query's conformity, that of the last tool it needs; 0 where not all `gold` are among these."""
    if gold == 0 or sum(needed) < gold:
        return 0.0
    return conformities(scores)[max(place for place, is_needed in enumerate(needed) if is_needed)]


def fit_thresholds(conformities_of: Mapping[str, Sequence[float]]) -> tuple[float, ...]:
    """Return the thresholds for LEVELS from the conformity of each set's queries.

    Every set counts the same, and to each set's queries one is added that reaches nothing: the one to come.
    """
    sets = len(conformities_of)
    weighted = [(value, 1 / (sets * (len(own) + 1))) for own in conformities_of.values() for value in own]
    weighted.sort(reverse=True)
    reached = list(accumulate(weight for _, weight in weighted))
    places = [bisect_left(reached, level - 1e-9) for level in LEVELS]
    return tuple(weighted[place][0] if place < len(weighted) else 0.0 for place in places)


@cache
def shipped() -> Coverage:
    """Return the thresholds that come with the package."""
    text = (files("orchestrator") / "data" / "coverage.json").read_text(encoding="utf-8")
    return from_json(json.loads(text))


def from_json(record: dict[str, Any]) -> Coverage:
    """Return thresholds from their JSON form; InvalidConfig names what is wrong."""
    about, legs = record.get("about"), ("keyword", "both")
    source = str(about.get("source", "")) if isinstance(about, dict) else ""
    return Coverage(thresholds={own: _checked(own, record.get(own)) for own in legs}, source=source)  # type: ignore[misc]


def _checked(legs: str, given: Any) -> tuple[float, ...]:
    numbers = given if isinstance(given, list) else []
    possible = all(isinstance(value, int | float) and 0 <= value <= 1 for value in numbers)
    if len(numbers) != len(LEVELS) or not possible or numbers != sorted(numbers, reverse=True):
        raise InvalidConfig(
            f"coverage thresholds {legs!r}: give {len(LEVELS)} numbers of 0 to 1 that fall; make them again with "
            "`python -m research.coverage`, or `toolroute eval FOLDER --fit --write FILE`"
        )
    return tuple(map(float, numbers))
