"""Measures of rankings and confidences. All are pure functions. A ranking is a list of keys, best first."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import ArrayLike

BINS = 10
"""The number of bins that most publications use, so that the figures can be compared."""
DRAWS = 1_000
"""The number of bootstrap draws. With this number, the ends of the interval differ by less than .005 between seeds at
100 queries."""


def recall(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the share of the relevant keys among the first k.

    Args:
        ranked: The keys, best first.
        relevant: The relevant keys.
        k: The number of keys to consider.
    """
    return sum(key in relevant for key in ranked[:k]) / len(relevant)


def hit(ranked: Sequence[str], relevant: Collection[str]) -> float:
    """Return 1 if the first key is relevant, otherwise 0."""
    return float(bool(ranked) and ranked[0] in relevant)


def ndcg(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the gain of the first k keys (1 / log2(1 + rank) for each relevant key) as a share of the best
    order's gain.

    Args:
        ranked: The keys, best first.
        relevant: The relevant keys.
        k: The number of keys to consider.
    """
    gain = sum(_discount(rank) for rank, key in enumerate(ranked[:k], start=1) if key in relevant)
    best = sum(map(_discount, range(1, min(k, len(relevant)) + 1)))
    return gain / best


def _discount(rank: int) -> float:
    return float(1 / np.log2(rank + 1))


def reciprocal_rank(ranked: Sequence[str], relevant: Collection[str]) -> float:
    """Return 1 / rank of the first relevant key, or 0."""
    return next((1 / rank for rank, key in enumerate(ranked, start=1) if key in relevant), 0.0)


def ceiling(relevant: Collection[str], known: Collection[str], k: int) -> float:
    """Return the best possible recall at k with the known keys.

    Args:
        relevant: The relevant keys.
        known: The known keys.
        k: The number of keys to consider.
    """
    return min(k, sum(key in known for key in relevant)) / len(relevant)


def calibration_error(confidences: ArrayLike, right: ArrayLike) -> float:
    """Return the expected calibration error: |mean confidence - share right| of equal bins, weighted by counts."""
    stated = np.asarray(confidences, np.float64)
    truth = np.asarray(right, np.float64)
    if not len(stated):
        return 0.0
    bins = np.minimum(stated * BINS, BINS - 1).astype(np.int64)
    by_bin = np.bincount(bins, weights=stated - truth)
    errors = np.abs(by_bin)
    return float(errors.sum() / len(stated))


def calibration_interval(confidences: ArrayLike, right: ArrayLike) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the calibration error, drawn with a fixed seed. It includes the
    error itself.

    A calibration error is biased upwards for few answers, and more so for a bootstrap draw. The interval is therefore
    mirrored at the error (basic bootstrap).
    """
    stated = np.asarray(confidences, np.float64)
    truth = np.asarray(right, np.float64)
    if not len(stated):
        return 0.0, 0.0
    error = calibration_error(stated, truth)
    generator = np.random.default_rng(0)
    errors = list[float]()
    for _ in range(DRAWS):
        rows = generator.integers(0, len(stated), len(stated))
        errors.append(calibration_error(stated[rows], truth[rows]))
    low, high = np.percentile(errors, [2.5, 97.5])
    lower_end = max(0.0, min(error, 2 * error - high))
    upper_end = max(error, 2 * error - low)
    return float(lower_end), float(upper_end)


def confidence(confidences: ArrayLike, right: ArrayLike, *, gate: float) -> dict[str, float | None]:
    """Return the calibration error and two shares: of confidences that reach the gate, and of these, the right ones.

    The last share is None if no confidence reaches the gate.

    Args:
        confidences: The confidences.
        right: True for each right answer.
        gate: The gate.
    """
    above = np.asarray(confidences, np.float64) >= gate
    truth = np.asarray(right, np.float64)
    return {
        "ece": round(calibration_error(confidences, right), 4),
        "resolved": round(float(above.mean()), 4),
        "precision": round(float(truth[above].mean()), 4) if above.any() else None,
    }


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """Return p50, p95 and p99, interpolated, or None for each without values."""
    names = {"p50": 50, "p95": 95, "p99": 99}
    if not values:
        return dict.fromkeys(names)
    return {name: round(float(np.percentile(values, share)), 4) for name, share in names.items()}


def mean(values: Sequence[float]) -> float:
    """Return the mean, or 0 without values."""
    return float(np.mean(values)) if values else 0.0
