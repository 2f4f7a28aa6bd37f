"""Ranked lists: legs that score tools by one plain measure, for the fusions of published designs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.bm25 import Corpus, Counts, Postings
from orchestrator.pipeline.legs.entities import entities
from orchestrator.pipeline.legs.keyword import searched
from orchestrator.pipeline.state import State, Task, best_first
from orchestrator.records.tool import Tool

Fields = Callable[[Tool], Sequence[Sequence[str]]]
"""Returns the terms of each searched field of a tool."""
POOL = 50
"""The number of tools in a list."""
SEEDS = 5
"""The number of tools of each list whose links are followed."""


def by_words(
    fields: Fields, *, weights: Sequence[float] = (1.0,), k1: float, b: float, pool: int = POOL, times: int = 0
) -> Callable[[State], State]:
    """Return a leg that scores tools by BM25 into the list `bm25`.

    Args:
        fields: The searched fields of a tool.
        weights: The weight of a term in each field.
        k1: BM25's saturation of term counts.
        b: BM25's normalisation by length.
        pool: The length of the list.
        times: The length of the list as a multiple of the request's limit, instead of `pool`. 0: use `pool`.
    """

    def build(task: Task) -> Postings:
        documents = [fields(tool) for tool in task.index.catalogue.tools]
        return Postings(Counts.of(Corpus.of(documents, weights)), k1=k1, b=b)

    def bm25(state: State) -> State:
        task = state.task
        postings = task.index.derived((fields, tuple(weights), k1, b), lambda: build(task))
        scores = postings.weighted_scores(dict.fromkeys(task.understood.terms, 1.0))
        return _listed(state, "bm25", scores, times * task.most or pool)

    return bm25


def by_vectors(*, pool: int = POOL, times: int = 0) -> Callable[[State], Awaitable[State]]:
    """Return a leg that scores tools by cosine into the list `vectors`.

    Without vectors it adds nothing. The semantic leg has reported the reason.
    """

    async def vectors(state: State) -> State:
        task = state.task
        own = state.vectors if state.vectors is not None else (await task.embed(task.understood.texts))[0]
        if own is None or (side := task.index.vectors) is None:
            return state
        return _listed(state, "vectors", side.score(own[:1])[0], times * task.most or pool)

    return vectors


def by_entities(state: State) -> State:
    """Return the state with the analysis of the task and two lists.

    `named` has the tools that the task names, the tools of named servers, and the tools linked to these. `graph` has
    the tools linked to named tools and to the best of the lists so far, by their probability to be used together.
    """
    index = state.task.index
    about = entities(state.task.understood.asked, index)
    keys = {own for entity in about.entities for own in entity.means}
    seeds = {place: 1.0 for key in keys if (place := index.catalogue.positions.get(key)) is not None}
    for server in keys & index.catalogue.places.keys():
        seeds |= dict.fromkeys(range(*index.catalogue.places[server].indices(len(index.catalogue))), 1.0)
    linked = {step.position for place in seeds for step in index.graph.reach(place)}
    open_to = searched(state)
    named = {place: 1.0 for place in sorted(seeds.keys() | linked) if open_to is None or open_to[place]}
    for own in state.lists.values():
        for place in list(best_first(own))[:SEEDS]:
            seeds.setdefault(place, own[place] / max(own.values()))
    graph: dict[int, float] = {}
    for place, share in seeds.items():
        for step in index.graph.reach(place):
            if open_to is None or open_to[step.position]:
                graph[step.position] = max(graph.get(step.position, 0.0), share * step.chance)
    state = replace(state, about=about)
    for name, scores in (("named", named), ("graph", graph)):
        state = state.listed(name, scores) if scores else state
    return state


def _listed(state: State, name: str, scores: NDArray[np.float32], pool: int) -> State:
    """Return the state with the best of these scores among the searched tools. A score of 0 is not a result."""
    open_to = searched(state)
    found = scores > 0 if open_to is None else (scores > 0) & open_to
    places = np.flatnonzero(found)
    best = places[np.argsort(-scores[places], kind="stable")[:pool]]
    return state.listed(name, dict(zip(best.tolist(), scores[best].tolist(), strict=True)))
