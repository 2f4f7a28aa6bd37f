"""Ranked lists: legs that score tools by one plain measure, for the fusions of published designs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.bm25 import Corpus, Counts, Postings
from orchestrator.index.index import Index
from orchestrator.pipeline.legs.entities import entities
from orchestrator.pipeline.legs.keyword import searched
from orchestrator.pipeline.state import State, best_first
from orchestrator.records.tool import Tool

Fields = Callable[[Tool], Sequence[Sequence[str]]]
"""Returns the terms of each searched field of a tool."""
POOL = 50
"""The number of tools in a list."""
SEEDS = 5
"""The number of tools of each list whose links are followed."""


def by_words(
    fields: Fields,
    *,
    weights: Sequence[float] = (1.0,),
    k1: float,
    b: float,
    pool: int = POOL,
    times: int = 0,
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

    def build(index: Index) -> Postings:
        corpus = Corpus.of([fields(tool) for tool in index.tools], weights)
        return Postings(Counts.of(corpus), k1=k1, b=b)

    def bm25(state: State) -> State:
        index = state.task.index
        postings = index.derived((fields, tuple(weights), k1, b), lambda: build(index))
        scores = postings.weighted_scores(dict.fromkeys(state.task.understood.terms, 1.0))
        return _listed(state, "bm25", scores, times * state.task.request.limit or pool)

    return bm25


def by_vectors(*, pool: int = POOL, times: int = 0) -> Callable[[State], Awaitable[State]]:
    """Return a leg that scores tools by cosine into the list `vectors`.

    Without vectors it adds nothing. The semantic leg has reported the reason.
    """

    async def vectors(state: State) -> State:
        task = state.task
        of_task = state.vectors
        if of_task is None:
            of_task, _ = await task.embed(task.understood.texts)
        semantic_index = task.index.vectors
        if of_task is None or semantic_index is None:
            return state
        cosines = semantic_index.score(of_task[:1])[0]
        return _listed(state, "vectors", cosines, times * task.request.limit or pool)

    return vectors


def by_entities(state: State) -> State:
    """Return the state with the analysis of the task and two lists.

    `named` has the tools that the task names, the tools of named servers, and the tools linked to these. `graph` has
    the tools linked to named tools and to the best of the earlier lists, by their probability to be used together.
    """
    index = state.task.index
    about = entities(state.task.understood.asked, index)
    state = replace(state, about=about)
    keys: set[str] = set()
    for entity in about.entities:
        keys.update(entity.means)
    seeds = dict.fromkeys(_positions_of(index, keys), 1.0)
    linked = set(seeds)
    for position in seeds:
        linked.update(hop.position for hop in index.graph.reach(position))
    scores_of_named = dict.fromkeys(_open_to(state, sorted(linked)), 1.0)
    for scores in state.lists.values():
        for position in list(best_first(scores))[:SEEDS]:
            seeds.setdefault(position, scores[position] / max(scores.values()))
    graph = _linked(state, seeds)
    if scores_of_named:
        state = state.listed("named", scores_of_named)
    return state.listed("graph", graph) if graph else state


def _positions_of(index: Index, keys: set[str]) -> list[int]:
    """Return the tools of these keys, and the tools of the servers among them."""
    positions = [index.catalogue.positions[key] for key in keys if key in index.catalogue.positions]
    for server in keys & index.catalogue.places.keys():
        span = index.catalogue.places[server]
        positions += range(span.start, span.stop)
    return positions


def _open_to(state: State, positions: Sequence[int]) -> list[int]:
    """Return those of the tools that are searched."""
    mask = searched(state)
    if mask is None:
        return list(positions)
    return [position for position in positions if mask[position]]


def _linked(state: State, seeds: Mapping[int, float]) -> dict[int, float]:
    """Return the searched tools that these lead to, with the probability of the best way there."""
    chances: dict[int, float] = {}
    for position, share in seeds.items():
        for hop in state.task.index.graph.reach(position):
            chances[hop.position] = max(chances.get(hop.position, 0.0), share * hop.chance)
    return {position: chances[position] for position in _open_to(state, list(chances))}


def _listed(state: State, name: str, scores: NDArray[np.float32], pool: int) -> State:
    """Return the state with the best of these scores among the searched tools. A score of 0 is not a result."""
    mask = searched(state)
    results = scores if mask is None else np.where(mask, scores, 0)
    best = np.argsort(-results, kind="stable")[:pool]
    best = best[results[best] > 0]
    return state.listed(name, dict(zip(best.tolist(), scores[best].tolist(), strict=True)))
