"""Split-conformal thresholds: the confidence from which recommended tools keep a promised share of right ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

LEVELS = (0.8, 0.9, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """A promise for further tasks like the measured ones.

    A share of `level` or more of the tools that are recommended with a confidence of `threshold` or more is right. The
    promise is true on average over many such measurements. A single measurement may fall below it.

    Attributes:
        level: The promised share of right tools.
        threshold: The lowest confidence for which the promise is true. None: the tasks are too few or too often wrong.
        queries: The number of measured tasks.
        recommended: The number of tasks that reach the threshold.
        right: The number of these tasks that had the right tool first.
    """

    level: float
    threshold: float | None
    queries: int
    recommended: int = 0
    right: int = 0


def guarantees(
    claims: Sequence[tuple[float, bool]], levels: Sequence[float] = LEVELS
) -> list[Guarantee]:
    """Return the lowest threshold for each level.

    One further wrong claim is counted at every threshold. This bounds the mean share of wrong tools for further tasks,
    for any distribution of the confidences (selection by conformal p-values, Jin and Candès, 2023). A measurement
    without a threshold recommends nothing and so has no wrong tool.

    Args:
        claims: Confidences, each with whether the tool was right.
        levels: The promised shares.
    """
    return [_guarantee(sorted(claims, reverse=True), level) for level in levels]


def _guarantee(ordered: Sequence[tuple[float, bool]], level: float) -> Guarantee:
    count = len(ordered)
    guarantee = Guarantee(level=level, threshold=None, queries=count)
    right = 0
    for recommended, (confidence, is_right) in enumerate(ordered, start=1):
        right += is_right
        # Equal confidences are recommended together.
        if recommended < count and ordered[recommended][0] == confidence:
            continue
        wrong = (1 + recommended - right) / (1 + count)
        share_wrong = wrong * count / recommended
        if confidence > 0 and share_wrong <= 1 - level + 1e-9:
            guarantee = replace(
                guarantee, threshold=confidence, recommended=recommended, right=right
            )
    return guarantee
