"""The keyword leg, which finds tools by BM25, and the gate, which decides whether its confidence is high enough."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from orchestrator.common.arrays import Integers, Mask
from orchestrator.index.index import Index
from orchestrator.pipeline.scoring import Search
from orchestrator.pipeline.state import State
from orchestrator.records.request import RouteHint

LEAST_WIDTH = 30
"""The minimum number of a leg's candidates. Three times the limit is used if that is more."""


def keyword(state: State) -> State:
    """Return the state with the keyword leg's candidates, and the probability that its best tool is right."""
    if state.settled:
        return state
    search = search_of(state)
    by_words = search.by_keyword()
    candidates = by_words
    semantic_index = state.task.index.vectors
    if state.vectors is not None and semantic_index is not None:
        candidates = search.by_meaning(
            semantic_index,
            state.vectors,
            state.task.no_tool(),
            state.task.contrast(),
            state.second,
        )
    return replace(state, candidates=candidates, gate_confidence=by_words.gate_confidence)


def search_of(state: State) -> Search:
    """Return the search for a task among the tools that are allowed and not flagged. Nothing is computed yet."""
    task = state.task
    return Search(
        index=task.index,
        understood=task.understood,
        calibration=task.calibration,
        width=max(LEAST_WIDTH, 3 * task.request.limit),
        allowed=searched(state),
        named=_tools_of(task.index, state.explicit.wanted),
        unfamiliar_to=task.unfamiliar_to,
    )


def searched(state: State) -> Mask | None:
    """Return True for each searched tool [tools], or None for all. Searched tools are allowed and not flagged.

    The texts of a flagged tool must not affect another tool.
    """
    unflagged = state.task.index.unflagged
    if state.allowed is None:
        return unflagged
    return state.allowed if unflagged is None else state.allowed & unflagged


def _tools_of(index: Index, servers: Sequence[str]) -> Integers | None:
    """Return the positions of these servers' tools, or None without servers."""
    spans = [index.catalogue.places.get(server) for server in servers]
    positions = [np.arange(span.start, span.stop) for span in spans if span is not None]
    return np.concatenate(positions) if positions else None


def gate(state: State) -> bool:
    """Return True if the keyword leg answers alone: its confidence reaches the gate, and its best tool is plausible.

    If the best tool does not belong to the server that the task names, the gate stays closed, because that server may
    have a tool with other words. Without a keyword leg the gate stays closed, too.
    """
    if state.settled:
        return True
    if state.candidates is None:
        return False
    hint = state.task.request.route_hint
    if hint is not RouteHint.AUTO:
        return hint is RouteHint.KEYWORD
    if not state.task.index.tools:
        return True
    if state.gate_confidence < state.task.options.gate:
        return False
    named_tools = state.candidates.search.named
    of_task = state.candidates.of_task
    if named_tools is None or not len(of_task.positions):
        return True
    return bool(of_task.positions[np.argmax(of_task.keyword)] in named_tools)


def never(state: State) -> bool:
    """Keep the gate closed, but for a request that asks for the keyword leg alone."""
    return state.task.request.route_hint is RouteHint.KEYWORD
