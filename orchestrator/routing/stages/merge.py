"""Merge: the legs' probabilities over the union of their candidates become one order."""

import numpy as np
from numpy.typing import NDArray

from orchestrator.records.request import Fusion

RRF_K = 60
RRF_WEIGHTS = (0.5, 0.5)
"""Keyword, semantic."""

Probabilities = NDArray[np.float64]
"""Shape [candidates]."""


def vote(keyword: Probabilities, semantic: Probabilities) -> Probabilities:
    """0.6 * max + 0.4 * min of the legs' probabilities, so that agreement never loses to a single vote."""
    return 0.6 * np.maximum(keyword, semantic) + 0.4 * np.minimum(keyword, semantic)


def blend(keyword: Probabilities, semantic: Probabilities, fitted: Probabilities) -> Probabilities:
    """The vote and the map fitted on both legs' features, in equal parts as log-odds.

    The map alone leans on the leg that its queries favoured; the vote alone knows nothing of the features.
    """
    odds = (_log_odds(vote(keyword, semantic)) + _log_odds(fitted)) / 2
    return 1 / (1 + np.exp(-odds))


def supported(chances: Probabilities, factors: Probabilities | float) -> Probabilities:
    """Return the chances with their odds multiplied."""
    return chances * factors / (1 - chances + chances * factors)


def merge(
    fusion: Fusion, keyword: Probabilities, semantic: Probabilities, learnt: Probabilities
) -> tuple[Probabilities, NDArray[np.int64]]:
    """Each candidate's probability, and the order, best first. Both legs must have scored every candidate.

    learnt: `blend`. weighted: `vote`. rrf: reciprocal ranks; it orders only, the probability is the learnt one.
    """
    if fusion is Fusion.WEIGHTED:
        probability = vote(keyword, semantic)
        return probability, np.argsort(-probability, kind="stable")
    if fusion is Fusion.RRF:
        ranks = RRF_WEIGHTS[0] / (RRF_K + _ranks(keyword)) + RRF_WEIGHTS[1] / (RRF_K + _ranks(semantic))
        return learnt, np.argsort(-ranks, kind="stable")
    return learnt, np.argsort(-learnt, kind="stable")


def _log_odds(probability: Probabilities) -> Probabilities:
    clipped = np.minimum(np.maximum(probability, 1e-5), 1 - 1e-5)
    return np.asarray(np.log(clipped / (1 - clipped)), np.float64)


def _ranks(values: Probabilities) -> Probabilities:
    """1 for the best. Equal ones have one rank: so all that a leg has not found, whatever their places."""
    return 1 + len(values) - np.searchsorted(np.sort(values), values, side="right").astype(np.float64)
