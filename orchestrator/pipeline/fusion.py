"""Fusion: the legs' probabilities over the union of their candidates become one ranking."""

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.calibration import Probabilities, supported, vote
from orchestrator.pipeline.scoring import Candidates
from orchestrator.pipeline.select import kept_of
from orchestrator.pipeline.state import Found, Ranking, Task, best_first
from orchestrator.records.request import Fusion

PART = 0.5
"""The least score of a tool that surely serves a part of a task."""
LITTLE = 0.5
"""A tool whose odds its server lowers to less than this share gets a note."""
ALWAYS_ONLY = 1.0

RRF_K = 60
RRF_WEIGHTS = (0.5, 0.5)
"""Keyword, semantic."""


def fuse(task: Task, found: Found, default: Fusion = Fusion.LEARNT) -> Ranking:
    """Return the candidates ranked by the request's fusion, else by this one."""
    if found.candidates is None or found.search is None:
        return _always_only(task, found)
    fusion, candidates = task.request.fusion or default, found.candidates
    whole = candidates.whole
    if whole.semantic is None:
        chances, order = whole.keyword, np.argsort(-whole.keyword, kind="stable")
    else:
        chances, order = merge(fusion, whole.keyword, whole.semantic, whole.chances)
    kept = kept_of(task.index.catalogue.tools, whole.chosen.tolist())
    by_server = worth = unheard = chances * kept
    if fusion is not Fusion.RRF:
        by_server = _behind_best(chances, whole.support) * kept
        worth = _raised(by_server, candidates.of_parts(whole.chosen) * kept)
        unheard = _raised(unheard, candidates.of_parts(whole.chosen, with_server_prior=False) * kept)
    places = whole.chosen[order].tolist()
    scores = dict(zip(places, worth[order].tolist(), strict=True))
    scores |= _votes(found, scores)
    evidence = dict(zip(places, _evidence(candidates, order), strict=True))
    for leg, votes in found.votes.items():
        for position, chance in votes.items():
            evidence[position] = {**evidence.get(position, {}), leg: chance}
    lowered = whole.chosen[worth * (1 - unheard) < LITTLE * unheard * (1 - worth)].tolist()
    by_rank = fusion is Fusion.RRF and whole.semantic is not None
    return Ranking(
        order=tuple(scores) if by_rank else best_first(scores),
        scores=scores,
        evidence=evidence,
        confidence=found.search.confidence(candidates),
        own=scores,
        whole=dict(zip(whole.chosen.tolist(), by_server.tolist(), strict=True)),
        by_rank=by_rank,
        notes=dict.fromkeys(lowered, ("its server has less of what is asked",)),
    )


def _always_only(task: Task, found: Found) -> Ranking:
    scores = {position: asked.score for position, asked in found.always.items()}
    order = best_first(scores)
    return Ranking(
        order=order,
        scores=scores,
        evidence={position: {"always": ALWAYS_ONLY} for position in scores},
        confidence=1.0 if scores else 0.0,
        own=scores,
        best_of_parts=tuple(task.index.catalogue.tools[position].key for position in order),
    )


def _votes(found: Found, scores: dict[int, float]) -> dict[int, float]:
    """Return what further legs make of the scores: the chance that any of them is right."""
    voted: dict[int, float] = {}
    for votes in found.votes.values():
        for position, chance in votes.items():
            before = voted.get(position, scores.get(position, 0.0))
            voted[position] = max(before, chance)
    return voted


def _behind_best(chances: NDArray[np.float64], support: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the chances with their servers' support; the best keeps its own, as the confidence is about it."""
    lower = supported(chances, support)
    if len(chances):
        first = int(np.argmax(chances))
        lower[first] = chances[first]
    return lower


def _raised(scores: NDArray[np.float64], chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores, at least PART of each one's chance for the part it serves best, but below the best score."""
    if len(chances) < 2 or not len(scores):
        return scores
    below_best = np.nextafter(scores.max(), 0)
    return np.asarray(np.maximum(scores, np.minimum(PART * chances.max(axis=0), below_best)), np.float64)


def _evidence(candidates: Candidates, order: NDArray[np.int64]) -> list[dict[str, float]]:
    """Return each leg's probability, where the leg has found the tool."""
    whole = candidates.whole
    overlap, keyword = whole.overlap[order].tolist(), whole.keyword[order].tolist()
    if whole.semantic is None:
        return [{"keyword": word} if held else {} for held, word in zip(overlap, keyword, strict=True)]
    both = zip(overlap, keyword, whole.semantic[order].tolist(), strict=True)
    return [{"keyword": word, "semantic": near} if held else {"semantic": near} for held, word, near in both]


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


def _ranks(values: Probabilities) -> Probabilities:
    """1 for the best. Equal ones have one rank: so all that a leg has not found, whatever their places."""
    return 1 + len(values) - np.searchsorted(np.sort(values), values, side="right").astype(np.float64)
