"""Fusion: the legs' probabilities over the union of their candidates become one probability per tool."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.calibration import supported, vote
from orchestrator.pipeline.scoring import Candidates
from orchestrator.pipeline.select import kept_of
from orchestrator.pipeline.state import State, best_first
from orchestrator.records.request import Fusion

PART = 0.5
"""The minimum probability of a tool that serves one clause of a task with probability 1."""
LITTLE = 0.5
"""The share of its odds below which a tool that its server lowers gets a note."""
ALWAYS_ONLY = 1.0

RRF_K = 60


def fuse(state: State, default: Fusion = Fusion.LEARNT) -> State:
    """Return the candidates ranked by the request's fusion, or by this one.

    Scores of further legs (`State.lists`) are probabilities: a tool gets the highest one from any leg, and so does the
    confidence of the first tool.
    """
    state = calibrated(state, default)
    for leg, chances in state.lists.items():
        if wrong := next((chance for chance in chances.values() if not 0 <= chance <= 1), None):
            remedy = "the leg is ignored; return probabilities from 0 to 1, or use a fusion of your own"
            state = replace(state, warnings=(*state.warnings, f"leg {leg!r} returned the score {wrong!r}: {remedy}"))
            continue
        led = next(iter(state.scores), None)
        higher = {place: chance for place, chance in chances.items() if chance > state.scores.get(place, -1.0)}
        state = state.rescored(higher).with_evidence(leg, chances)
        state = state.noted({place: f"{leg}: probability {chance:.2f}" for place, chance in chances.items()})
        first = next(iter(state.scores), None)
        if first is not None and first in chances:  # The leg speaks for the first tool, which may be another one now.
            before = state.confidence if first == led else 0.0
            state = replace(state, confidence=max(before, chances[first]))
    return state


def calibrated(state: State, default: Fusion = Fusion.LEARNT) -> State:
    """Return the candidates of the keyword and semantic legs, ranked by their probabilities."""
    candidates = state.candidates
    if candidates is None:
        return _always_only(state)
    fusion, whole = state.task.request.fusion or default, candidates.whole
    chances = whole.keyword if whole.semantic is None else whole.chances
    if fusion is Fusion.WEIGHTED and whole.semantic is not None:
        chances = vote(whole.keyword, whole.semantic)
    order = np.argsort(-chances, kind="stable")
    kept = kept_of(state.task.index.catalogue.tools, whole.chosen.tolist())
    worth = without_prior = chances * kept
    if fusion is not Fusion.RRF:
        worth = _raised(_behind_best(chances, whole.support) * kept, candidates.of_clauses(whole.chosen) * kept)
        without_prior = _raised(without_prior, candidates.of_clauses(whole.chosen, with_server_prior=False) * kept)
    places = whole.chosen[order].tolist()
    lowered = whole.chosen[worth * (1 - without_prior) < LITTLE * without_prior * (1 - worth)].tolist()
    scores = dict(zip(places, worth[order].tolist(), strict=True))
    state = replace(
        state,
        scores=best_first(scores),
        evidence=dict(zip(places, _evidence(candidates, order), strict=True)),
        confidence=candidates.confidence(),
    ).noted(dict.fromkeys(lowered, "lowered, because other servers have more of the requested tools"))
    if fusion is Fusion.RRF and whole.semantic is not None:
        legs = {"keyword": whole.keyword, "semantic": whole.semantic}
        lists = {leg: dict(zip(whole.chosen.tolist(), own.tolist(), strict=True)) for leg, own in legs.items()}
        state = state.reordered(rrf(keyword=0.5, semantic=0.5)(lists))
        # Refiners order by probability, so the best by rank takes the highest, and so on.
        highest = sorted(state.scores.values(), reverse=True)
        state = replace(state, scores=dict(zip(state.scores, highest, strict=True)))
    return state


def _always_only(state: State) -> State:
    scores = best_first({position: own.score for position, own in state.always.items()})
    evidence = {position: {"always": ALWAYS_ONLY} for position in scores}
    return replace(state, scores=scores, evidence=evidence, confidence=1.0 if scores else 0.0)


def _behind_best(chances: NDArray[np.float64], support: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities with their servers' support. The best is unchanged, because the confidence refers to
    it.
    """
    lower = supported(chances, support)
    if len(chances):
        first = int(np.argmax(chances))
        lower[first] = chances[first]
    return lower


def _raised(scores: NDArray[np.float64], chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores, at least PART of a tool's best probability for a clause, but below the best score."""
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


Scores = Mapping[int, float]
"""Scores by position, on any scale. 0 means not found."""
Merge = Callable[[Mapping[str, Scores]], Scores]
"""Makes one ranking, best first, from several lists."""


def rrf(*, k: int = RRF_K, **weights: float) -> Merge:
    """Return the sum of weight / (k + rank) over the lists (Cormack et al., 2009), with a default weight of 1."""

    def merge(lists: Mapping[str, Scores]) -> Scores:
        merged: dict[int, float] = {}
        for name, scores in lists.items():
            found = best_first({place: score for place, score in scores.items() if score > 0})
            for rank, place in enumerate(found, 1):
                merged[place] = merged.get(place, 0.0) + weights.get(name, 1.0) / (k + rank)
        return best_first(merged)

    return merge


def ranked_by(merge: Merge) -> Callable[[State], State]:
    """Return a fusion that orders by merged lists. Each tool keeps its calibrated probability.

    A request's `route_hint` may select one of the lists.
    """

    def fuse(state: State) -> State:
        wanted = state.task.request.route_hint.ordered_by
        own = state.lists.get(wanted)
        scores = best_first(own) if own else merge(state.lists)
        state = calibrated(state)
        for name, found in state.lists.items():
            best = max(found.values(), default=0.0) or 1.0
            state = state.with_evidence(name, {place: score / best for place, score in found.items()})
        if own and wanted == "graph":  # A tool is as likely as the tool that leads to it is right, and needs it.
            chances = {place: state.confidence * chance for place, chance in own.items()}
            state = state.rescored({at: new for at, new in chances.items() if new > state.scores.get(at, 0.0)})
        return state.reordered(scores) if scores else state

    return fuse
