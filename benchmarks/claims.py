"""What a confidence is worth: calibration beside the perfect's, risk against coverage, present against absent."""

import numpy as np
from numpy.typing import NDArray

from orchestrator.evaluate.metrics import calibration_error

Numbers = NDArray[np.float64]


def error_of_the_perfect(claimed: Numbers) -> float:
    """The calibration error that a perfectly calibrated model of these claims would show in a sample of this size."""
    random = np.random.default_rng(0)
    return float(np.mean([calibration_error(claimed, random.random(len(claimed)) < claimed) for _ in range(200)]))


def auc(high: Numbers, low: Numbers) -> float:
    """The chance that one of the first is above one of the second; ties count half."""
    ordered = np.sort(low)
    below = np.searchsorted(ordered, high, side="left")
    equal = np.searchsorted(ordered, high, side="right") - below
    return float((below + equal / 2).mean() / len(low))


def precision_at_coverage(claimed: Numbers, right: Numbers) -> Numbers:
    """The share that is right of the 1, 2, ... most confident answers; [queries]."""
    ordered = right[np.argsort(-claimed, kind="stable")]
    return np.asarray(np.cumsum(ordered) / np.arange(1, len(ordered) + 1), np.float64)


def area(claimed: Numbers, right: Numbers) -> float:
    """Area under the curve of precision against coverage, most confident first."""
    return float(precision_at_coverage(claimed, right).mean())
