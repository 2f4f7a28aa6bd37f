"""The measures, held to cases that are worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from orchestrator.evaluate import metrics

RANKED = ["a", "x", "b", "y", "c"]
SIX = ["a", "b", "c", "d", "e", "f"]


def test_each_measure_of_an_order_is_what_it_is_by_hand() -> None:
    assert [metrics.recall(RANKED, {"a", "b", "c", "d"}, k) for k in (1, 3, 5, 10)] == [0.25, 0.5, 0.75, 0.75]
    assert [metrics.hit(*given) for given in ((RANKED, {"b"}), (RANKED, {"a", "b"}), ([], {"b"}))] == [0, 1, 0]
    # Gains at ranks 1, 3 and 5: 1 + 1/2 + 1/log2(6); the best order of four: 1 + 1/log2(3) + 1/2 + 1/log2(5).
    gain, best = 1 + 1 / 2 + 1 / np.log2(6), 1 + 1 / np.log2(3) + 1 / 2 + 1 / np.log2(5)
    assert metrics.ndcg(RANKED, {"a", "b", "c", "d"}, 5) == pytest.approx(gain / best)
    assert metrics.ndcg(["a", "b"], {"a", "b", "c"}, 2) == pytest.approx(1)
    assert [metrics.reciprocal_rank(RANKED, own) for own in ({"b", "c"}, {"z"})] == [pytest.approx(1 / 3), 0]
    assert [metrics.ceiling(SIX, SIX, k) for k in (5, 10)] == [pytest.approx(5 / 6), 1]
    assert metrics.ceiling(["a", "gone"], ["a", "b"], 5) == 0.5


def test_each_measure_of_confidences_and_times_is_what_it_is_by_hand() -> None:
    # Bin 0.9..1: two answers, stated 0.95 in the mean, half right: gap 0.45. Bin 0.1..0.2: one, stated 0.1, wrong.
    assert metrics.calibration_error([0.9, 1.0, 0.1], [1, 0, 0]) == pytest.approx((2 * 0.45 + 0.1) / 3)
    assert metrics.calibration_error([], []) == 0
    found = metrics.confidence([0.7, 0.9, 0.69, 0.2], [1, 0, 1, 0], gate=0.7)
    assert (found["resolved"], found["precision"]) == (0.5, 0.5)
    assert metrics.confidence([0.1], [1], gate=0.7) == {"ece": 0.9, "resolved": 0.0, "precision": None}
    assert metrics.percentiles([1.0, 2.0, 3.0]) == {"p50": 2.0, "p95": 2.9, "p99": 2.98}
    assert metrics.percentiles([]) == {"p50": None, "p95": None, "p99": None}


def test_the_interval_of_a_calibration_error_narrows_and_holds_the_truth() -> None:
    draw, widths = np.random.default_rng(3), []
    for count in (100, 4_000):
        stated = draw.uniform(0.3, 1, count)
        right = draw.random(count) < stated - 0.15
        low, high = metrics.calibration_interval(stated, right)
        assert low <= metrics.calibration_error(stated, right) <= high
        widths.append(high - low)
    assert low <= 0.15 <= high
    assert widths[1] < widths[0] / 3
    assert metrics.calibration_interval([], []) == (0, 0)


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_measures_stay_within_bounds_and_under_the_ceiling(ranked: list[str], relevant: set[str]) -> None:
    for k in (1, 3, 5):
        assert 0 <= metrics.recall(ranked, relevant, k) <= metrics.ceiling(relevant, ranked, k) <= 1
        assert 0 <= metrics.ndcg(ranked, relevant, k) <= 1 + 1e-9
    assert 0 <= metrics.reciprocal_rank(ranked, relevant) <= 1
