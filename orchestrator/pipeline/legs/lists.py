"""Ranked lists: legs that score tools by one plain measure, and published formulas that merge their lists.

A preset orders by these what the calibrated legs are sure of, so that its scores stay probabilities.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.bm25 import Corpus, Counts, Postings
from orchestrator.index.text import terms
from orchestrator.pipeline.fusion import fuse
from orchestrator.pipeline.state import Found, Ranking, Task, best_first
from orchestrator.records.tool import Tool

Scores = Mapping[int, float]
"""A leg's own scores by position, of any scale; best first."""
Lists = Mapping[str, Scores]
Merge = Callable[[Lists], Scores]
Fields = Callable[[Tool], Sequence[Sequence[str]]]
"""Returns the terms of each field that a tool is searched by."""
POOL = 50
SEEDS = 5
"""The number of tools of each list that lead on to what is related."""


SYNONYM = 0.5
"""The weight of a synonym next to the word itself."""


def by_words(
    fields: Fields,
    *,
    weights: Sequence[float] = (1.0,),
    k1: float,
    b: float,
    pool: int = POOL,
    times: int = 0,
    called: str = "bm25",
) -> Any:
    """Return a leg that scores by BM25 over these fields, a term of each counting so much, into the list `called`.

    Of the `pool` best, or `times` as many as the request wants. Synonyms that the task's analysis gives count half.
    """

    def build(task: Task) -> Postings:
        documents = [fields(tool) for tool in task.index.catalogue.tools]
        return Postings(Counts.of(Corpus.of(documents, weights)), k1=k1, b=b)

    def bm25(task: Task, found: Found) -> Found:
        if _is_answered(found):
            return found
        postings = task.index.derived((fields, tuple(weights), k1, b), lambda: build(task))
        others = found.about.expanded.values() if found.about else ()
        asked = dict.fromkeys(terms(" ".join(text for own in others for text in own)), SYNONYM)
        asked |= dict.fromkeys(task.understood.terms, 1.0)
        columns = postings.columns(asked)
        return _listed(found, called, columns.scores(columns.asked([asked]))[0], times * task.most or pool)

    return bm25


def _is_answered(found: Found) -> bool:
    """Return whether tools answer the task already, as it asks about them."""
    return found.about is not None and bool(found.about.tools)


def by_vectors(*, pool: int = POOL, times: int = 0) -> Any:
    """Return a leg that scores by cosine; without vectors it adds nothing, as the semantic leg has said why."""

    async def vectors(task: Task, found: Found) -> Found:
        if _is_answered(found):
            return found
        own = found.vectors if found.vectors is not None else (await task.embed(task.understood.texts))[0]
        if own is None or (side := task.index.vectors) is None:
            return found
        return _listed(found, "vectors", side.score(own[:1])[0], times * task.most or pool)

    return vectors


def by_graph(task: Task, found: Found) -> Found:
    """Add the tools that the best of each list so far leads to, by their chance to be asked for with it."""
    scores: dict[int, float] = {}
    for own in found.lists.values():
        for position in best_first(own)[:SEEDS]:  # A history sorts what it holds by name.
            share = own[position] / max(own.values())
            for step in task.index.graph.reach(position):
                if found.allows(step.position):
                    scores[step.position] = max(scores.get(step.position, 0.0), share * step.chance)
    return replace(found, lists={**found.lists, "graph": scores}) if scores else found


def by_name(task: Task, found: Found) -> Found:
    """Add those tools of the lists that the task names, or whose server it names."""
    said = {own for entity in (found.about.entities if found.about else ()) for own in entity.means}
    said |= set(found.explicit.wanted)
    every, tools = dict.fromkeys(p for own in found.lists.values() for p in own), task.index.catalogue.tools
    named = {place: 1.0 for place in every if not said.isdisjoint((tools[place].key, tools[place].server))}
    return replace(found, lists={**found.lists, "named": named}) if named else found


def _listed(found: Found, name: str, scores: NDArray[np.float32], pool: int) -> Found:
    """Return the findings with the best of these, of the tools that are allowed; what scores nothing is no find."""
    open_to = scores > 0 if found.allowed is None else (scores > 0) & found.allowed
    places = np.flatnonzero(open_to)
    best = places[np.argsort(-scores[places], kind="stable")[:pool]]
    own = dict(zip(best.tolist(), scores[best].tolist(), strict=True))
    return replace(found, lists={**found.lists, name: own})


def rrf(*, k: int = 60, **weights: float) -> Merge:
    """Return the sum of weight / (k + rank) over the lists (Cormack et al., 2009); weight 1 where none is given."""

    def merge(lists: Lists) -> Scores:
        merged: dict[int, float] = {}
        for name, scores in lists.items():
            for rank, position in enumerate(best_first(scores), 1):
                merged[position] = merged.get(position, 0.0) + weights.get(name, 1.0) / (k + rank)
        return merged

    return merge


def weighted(**weights: float) -> Merge:
    """Return the weighted sum of the lists, each scaled to its own best."""

    def merge(lists: Lists) -> Scores:
        merged: dict[int, float] = {}
        for name, weight in weights.items():
            own = lists.get(name, {})
            best = max(own.values(), default=0.0)
            for position, score in own.items():
                merged[position] = merged.get(position, 0.0) + weight * score / best
        return merged

    return merge


def merged_by(merge: Merge) -> Any:
    """Return a fusion that orders by merged lists; scores and confidence stay the calibrated ones."""

    def merged(task: Task, found: Found) -> Ranking:
        ranking, wanted = fuse(task, found), task.request.route_hint.ordered_by
        scores = found.lists.get(wanted) or merge(found.lists)
        if not scores:
            return ranking
        every = {**dict.fromkeys(scores, 0.0), **ranking.scores}
        if wanted == "graph" and found.lists.get(wanted):  # As likely as what leads to it is right, and it is needed.
            every |= {place: max(every[place], ranking.confidence * chance) for place, chance in scores.items()}
        evidence = {place: {**ranking.evidence.get(place, {}), **_shares(place, found.lists)} for place in every}
        return replace(ranking, scores=every, own=every, evidence=evidence).reordered(best_first(scores))

    return merged


def _shares(position: int, lists: Lists) -> dict[str, float]:
    """Return what each list gives a tool, as a share of its best."""
    return {name: own[position] / max(own.values()) for name, own in lists.items() if position in own}
