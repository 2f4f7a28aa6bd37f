"""The measures, held to cases that are worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.evaluate import metrics

RANKED = ["a", "x", "b", "y", "c"]


def test_recall_counts_the_relevant_among_the_first() -> None:
    assert [metrics.recall(RANKED, {"a", "b", "c", "d"}, k) for k in (1, 3, 5, 10)] == [0.25, 0.5, 0.75, 0.75]


def test_a_hit_is_a_relevant_key_in_the_first_place() -> None:
    assert metrics.hit(RANKED, {"b"}) == 0
    assert metrics.hit(RANKED, {"a", "b"}) == 1
    assert metrics.hit([], {"b"}) == 0


def test_ndcg_is_the_discounted_gain_over_the_best_orders() -> None:
    # Gains at ranks 1, 3 and 5: 1 + 1/2 + 1/log2(6); the best order of four: 1 + 1/log2(3) + 1/2 + 1/log2(5).
    gain, best = 1 + 1 / 2 + 1 / np.log2(6), 1 + 1 / np.log2(3) + 1 / 2 + 1 / np.log2(5)
    assert metrics.ndcg(RANKED, {"a", "b", "c", "d"}, 5) == pytest.approx(gain / best)
    assert metrics.ndcg(RANKED, {"x"}, 5) == pytest.approx(1 / np.log2(3))
    assert metrics.ndcg(["a", "b"], {"a", "b", "c"}, 2) == pytest.approx(1)


def test_reciprocal_rank_is_the_first_relevant_keys() -> None:
    assert metrics.reciprocal_rank(RANKED, {"b", "c"}) == pytest.approx(1 / 3)
    assert metrics.reciprocal_rank(RANKED, {"z"}) == 0


def test_the_ceiling_is_bounded_by_the_cut_and_by_what_is_known() -> None:
    six = ["a", "b", "c", "d", "e", "f"]
    assert metrics.ceiling(six, six, 5) == pytest.approx(5 / 6)
    assert metrics.ceiling(six, six, 10) == 1
    assert metrics.ceiling(["a", "gone"], ["a", "b"], 5) == 0.5


def test_calibration_error_weighs_the_gap_of_each_of_ten_equal_bins() -> None:
    # Bin 0.9..1: two answers, stated 0.95 in the mean, half right: gap 0.45. Bin 0.1..0.2: one, stated 0.1, wrong.
    assert metrics.calibration_error([0.9, 1.0, 0.1], [1, 0, 0]) == pytest.approx((2 * 0.45 + 0.1) / 3)
    assert metrics.calibration_error([0.55, 0.45], [0, 1]) == pytest.approx(0.55)
    assert metrics.calibration_error([], []) == 0


def test_resolved_is_the_share_at_the_gate_and_precision_how_many_of_it_are_right() -> None:
    found = metrics.confidence([0.7, 0.9, 0.69, 0.2], [1, 0, 1, 0], gate=0.7)
    assert (found["resolved"], found["precision"]) == (0.5, 0.5)
    assert metrics.confidence([0.1], [1], gate=0.7) == {"ece": 0.9, "resolved": 0.0, "precision": None}


def test_percentiles_are_interpolated_and_empty_where_nothing_was_timed() -> None:
    assert metrics.percentiles([1.0, 2.0, 3.0]) == {"p50": 2.0, "p95": 2.9, "p99": 2.98}
    assert metrics.percentiles([]) == {"p50": None, "p95": None, "p99": None}


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_measures_stay_within_bounds_and_under_the_ceiling(ranked: list[str], relevant: set[str]) -> None:
    for k in (1, 3, 5):
        assert 0 <= metrics.recall(ranked, relevant, k) <= metrics.ceiling(relevant, ranked, k) <= 1
        assert 0 <= metrics.ndcg(ranked, relevant, k) <= 1 + 1e-9
    assert 0 <= metrics.reciprocal_rank(ranked, relevant) <= 1
