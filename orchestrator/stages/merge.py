"""Merge: the legs' probabilities over the union of their candidates become one order."""

import numpy as np
from numpy.typing import NDArray

from orchestrator.models import Fusion

RRF_K = 60
RRF_WEIGHTS = (0.5, 0.5)
"""Keyword, semantic."""

Probabilities = NDArray[np.float64]
"""Shape [candidates]."""


def merge(
    fusion: Fusion, keyword: Probabilities, semantic: Probabilities, learnt: Probabilities
) -> tuple[Probabilities, NDArray[np.int64]]:
    """Each candidate's probability, and the order, best first. Both legs must have scored every candidate.

    learnt: the map fitted on both legs' features. weighted: 0.6 * max + 0.4 * min of the legs' probabilities, so that
    agreement never loses to a single vote. rrf: reciprocal ranks; it orders only, the probability is the learnt one.
    """
    if fusion is Fusion.WEIGHTED:
        probability = 0.6 * np.maximum(keyword, semantic) + 0.4 * np.minimum(keyword, semantic)
        return probability, np.argsort(-probability, kind="stable")
    if fusion is Fusion.RRF:
        ranks = RRF_WEIGHTS[0] / (RRF_K + _ranks(keyword)) + RRF_WEIGHTS[1] / (RRF_K + _ranks(semantic))
        return learnt, np.argsort(-ranks, kind="stable")
    return learnt, np.argsort(-learnt, kind="stable")


def _ranks(values: Probabilities) -> Probabilities:
    """1 for the best."""
    ranks = np.empty(len(values))
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks
