"""The merge by name: agreement wins, and ranks are no confidence."""

import numpy as np

from orchestrator.models import Fusion
from orchestrator.stages.merge import merge


def test_agreement_of_both_legs_never_loses_to_a_single_vote() -> None:
    keyword, semantic = np.array([0.6, 0.6, 0.0]), np.array([0.6, 0.0, 0.5])
    probability, order = merge(Fusion.WEIGHTED, keyword, semantic, keyword)
    np.testing.assert_allclose(probability, [0.6, 0.36, 0.3])
    assert order.tolist() == [0, 1, 2]


def test_ranks_order_and_never_pose_as_confidence() -> None:
    learnt = np.array([0.2, 0.9, 0.1])
    probability, order = merge(Fusion.RRF, np.array([0.9, 0.1, 0.5]), np.array([0.8, 0.2, 0.1]), learnt)
    assert probability is learnt
    assert order[0] == 0
