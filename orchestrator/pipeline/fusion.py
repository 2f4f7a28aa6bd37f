"""Fusion: the legs' probabilities over the union of their candidates become one probability per tool."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from orchestrator.common.arrays import Integers
from orchestrator.index.calibration import Probabilities, supported, vote
from orchestrator.pipeline.scoring import Candidates, Chances, ClauseScores
from orchestrator.pipeline.selection.matches import kept_of
from orchestrator.pipeline.state import State, best_first
from orchestrator.records.request import Fusion, RouteHint

PART = 0.5
"""The minimum probability of a tool that serves one clause of a task with probability 1."""
LITTLE = 0.5
"""The share of its odds below which a tool that its server lowers gets a note."""
LOWERED = "lowered, because other servers have more of the requested tools"

RRF_K = 60
"""The constant of the publication (Cormack et al., 2009)."""

Scores = Mapping[int, float]
"""Scores by position, on any scale. 0 means not found."""
Merge = Callable[[Mapping[str, Scores]], Scores]
"""Makes one ranking, best first, from several lists."""


def fuse(state: State, default: Fusion = Fusion.LEARNT) -> State:
    """Return the candidates ranked by the request's fusion, or by this one.

    Scores of further legs (`State.lists`) are probabilities: a tool gets the highest one from any leg, and so does the
    confidence of the first tool.
    """
    state = calibrated(state, default)
    for leg, chances in state.lists.items():
        wrong = [chance for chance in chances.values() if not 0 <= chance <= 1]
        if wrong:
            remedy = (
                "the leg is ignored; return probabilities from 0 to 1, or use a fusion of your own"
            )
            state = state.warned(f"leg {leg!r} returned the score {wrong[0]!r}: {remedy}")
        else:
            state = _with_leg(state, leg, chances)
    return state


def _with_leg(state: State, leg: str, chances: Scores) -> State:
    """Return the state with the probabilities of a further leg, where they are higher."""
    first_before = state.first
    higher = {
        position: chance
        for position, chance in chances.items()
        if chance > state.scores.get(position, -1.0)
    }
    reasons = {position: f"{leg}: probability {chance:.2f}" for position, chance in chances.items()}
    state = state.rescored(higher).with_evidence(leg, chances).noted(reasons)
    first = state.first
    if first is None or first not in chances:
        return state
    # The confidence of another first tool comes from this leg alone.
    confidence = state.confidence if first == first_before else 0.0
    return replace(state, confidence=max(confidence, chances[first]))


def calibrated(state: State, default: Fusion = Fusion.LEARNT) -> State:
    """Return the candidates of the keyword and semantic legs, ranked by their probabilities."""
    candidates = state.candidates
    if candidates is None:
        return _always_only(state)
    fusion = Fusion(state.task.request.fusion or default)
    of_task = candidates.of_task
    positions = of_task.positions.tolist()
    chances = _chances(of_task, fusion)
    shares = kept_of(state.task.index.tools, positions)
    by_search = chances * shares
    final = by_search
    lowered: list[int] = []
    if fusion is not Fusion.RRF:
        final = _behind_best(chances, of_task.support) * shares
        if len(candidates.clauses) > 1:
            for_clauses = candidates.of_clauses(of_task.positions, with_server_prior=False) * shares
            by_search = _raised(by_search, for_clauses)
            final = _raised(final, candidates.of_clauses(of_task.positions) * shares)
        is_lowered = final * (1 - by_search) < LITTLE * by_search * (1 - final)
        lowered = of_task.positions[is_lowered].tolist()
    # Equal final probabilities keep the order of the legs' own.
    order = np.argsort(-chances, kind="stable")
    ranked = of_task.positions[order].tolist()
    state = replace(
        state,
        scores=best_first(dict(zip(ranked, final[order].tolist(), strict=True))),
        evidence=dict(zip(ranked, _evidence(candidates, order), strict=True)),
        confidence=candidates.confidence(),
    ).noted(dict.fromkeys(lowered, LOWERED))
    return _by_ranks(state, of_task) if fusion is Fusion.RRF else state


def _chances(of_task: ClauseScores, fusion: Fusion) -> Probabilities:
    """Return the probabilities of the candidates by this fusion."""
    if of_task.semantic is None:
        return of_task.keyword
    if fusion is Fusion.WEIGHTED:
        return vote(of_task.keyword, of_task.semantic)
    return of_task.chances


def _by_ranks(state: State, of_task: ClauseScores) -> State:
    """Return the state in the order of the legs' ranks.

    Refiners order by probability, so the best tool by rank takes the highest probability, and so on.
    """
    if of_task.semantic is None:
        return state
    positions = of_task.positions.tolist()
    lists = {
        "keyword": dict(zip(positions, of_task.keyword.tolist(), strict=True)),
        "semantic": dict(zip(positions, of_task.semantic.tolist(), strict=True)),
    }
    state = state.reordered(rrf(keyword=0.5, semantic=0.5)(lists))
    descending = sorted(state.scores.values(), reverse=True)
    return replace(state, scores=dict(zip(state.scores, descending, strict=True)))


def _always_only(state: State) -> State:
    scores = best_first({position: match.score for position, match in state.always.items()})
    evidence = {position: {"always": 1.0} for position in scores}
    return replace(state, scores=scores, evidence=evidence, confidence=1.0 if scores else 0.0)


def _behind_best(chances: Probabilities, support: Probabilities) -> Probabilities:
    """Return the probabilities with their servers' support.

    The best is unchanged, because the confidence refers to it.
    """
    lower = supported(chances, support)
    if len(chances):
        best = int(np.argmax(chances))
        lower[best] = chances[best]
    return lower


def _raised(scores: Probabilities, chances: Chances) -> Probabilities:
    """Return the scores, at least PART of a tool's best probability for a clause, but below the best score."""
    if not len(scores):
        return scores
    below_best = np.nextafter(scores.max(), 0)
    for_clause = PART * chances.max(axis=0)
    return np.asarray(np.maximum(scores, np.minimum(for_clause, below_best)), np.float64)


def _evidence(candidates: Candidates, order: Integers) -> list[dict[str, float]]:
    """Return each leg's probability, where the leg has found the tool."""
    of_task = candidates.of_task
    evidence: list[dict[str, float]] = [{} for _ in order]
    overlap = of_task.overlap[order].tolist()
    keyword = of_task.keyword[order].tolist()
    for of_tool, has_word, chance in zip(evidence, overlap, keyword, strict=True):
        if has_word:
            of_tool["keyword"] = chance
    if of_task.semantic is not None:
        for of_tool, chance in zip(evidence, of_task.semantic[order].tolist(), strict=True):
            of_tool["semantic"] = chance
    return evidence


def rrf(*, k: int = RRF_K, **weights: float) -> Merge:
    """Return the sum of weight / (k + rank) over the lists (Cormack et al., 2009), with a default weight of 1."""

    def merge(lists: Mapping[str, Scores]) -> Scores:
        merged: dict[int, float] = {}
        for name, scores in lists.items():
            weight = weights.get(name, 1.0)
            for rank, position in enumerate(best_first(scores), 1):
                if scores[position] > 0:
                    merged[position] = merged.get(position, 0.0) + weight / (k + rank)
        return best_first(merged)

    return merge


def ranked_by(merge: Merge) -> Callable[[State], State]:
    """Return a fusion that orders by merged lists. Each tool keeps its calibrated probability.

    A request's `route_hint` may select one of the lists.
    """

    def fuse(state: State) -> State:
        hint = RouteHint(state.task.request.route_hint).ordered_by
        hinted = state.lists.get(hint)
        order = best_first(hinted) if hinted else merge(state.lists)
        state = calibrated(state)
        for name, scores in state.lists.items():
            best = max(scores.values(), default=0.0) or 1.0
            shares = {position: score / best for position, score in scores.items()}
            state = state.with_evidence(name, shares)
        if hinted and hint == "graph":
            state = _by_links(state, hinted)
        if not order:
            return state
        if fusion := state.task.request.fusion:
            state = state.warned(
                f"fusion={fusion!s}: this pipeline merges its own lists by its own formula, so fusion changes only the "
                "probabilities"
            )
        return state.reordered(order)

    return fuse


def _by_links(state: State, links: Scores) -> State:
    """Return the state with tools as likely as the tool that leads to them is right, and needs them."""
    higher: dict[int, float] = {}
    for position, chance in links.items():
        linked = state.confidence * chance
        if linked > state.scores.get(position, 0.0):
            higher[position] = linked
    return state.rescored(higher)
