"""The semantic leg: cosines by one exact matrix product over the tenant's vectors."""

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from orchestrator.common.arrays import Mask
from orchestrator.index.embedders.embedder import Vectors
from orchestrator.pipeline.legs.keyword import search_of
from orchestrator.pipeline.state import State

KEYWORD_ALONE = "semantic search did not run, so only keyword search was used: "
"""The start of a warning. The reason follows it."""
LANGUAGE_ALONE = "the task is in another language, and the encoder for it did not run: "
_NO_LEG = "semantic search did not run, and the pipeline has no keyword search: "
MOST_FLAGGED = 100
"""The maximum number of flagged tools that are compared with a task."""
NO_KNOWN_WORD = "the embedder knows no word of the task"
"""The only reason that is not a failure."""


def semantic(state: State) -> State | Awaitable[State]:
    """Return the candidates of semantic search, scored by both legs if the keyword leg ran.

    If embedding fails, the state is unchanged except for a warning.
    """
    task = state.task
    if not task.index.tools or state.settled:
        return state
    if task.understood.other_language:
        return _after_waiting(state)
    embedded = task.embed_at_once(task.understood.texts)
    return _after_waiting(state) if embedded is None else _with_vectors(state, *embedded)


async def _after_waiting(state: State) -> State:
    """Return the state after the search, once an endpoint or the encoder for other languages has answered."""
    task = state.task
    vectors, reason = await task.embed(task.understood.texts)
    if vectors is not None:
        state = await _with_second_encoder(state)
    return await task.compute(partial(_with_vectors, state, vectors, reason))


def _with_vectors(state: State, vectors: Vectors | None, reason: str) -> State:
    """Return the state after the search with the vectors of the task, or without them for this reason."""
    task = state.task
    if vectors is not None and not vectors[0].any() and state.second is None:
        vectors = None
        reason = NO_KNOWN_WORD
    semantic_index = task.index.vectors
    if vectors is None or semantic_index is None:
        warning = KEYWORD_ALONE if state.candidates else _NO_LEG
        return state.warned(f"{warning}{reason}")
    of_task = leaning(vectors, task.understood.earlier_weights)
    search = state.candidates.search if state.candidates else search_of(state)
    candidates = search.by_meaning(
        semantic_index,
        of_task,
        task.no_tool(),
        task.contrast(),
        state.second,
        words=state.candidates is not None,
    )
    near_flagged = _near_flagged(task.index.flagged, semantic_index.vectors, of_task[0])
    state = replace(state, candidates=candidates, vectors=of_task, near_flagged=near_flagged)
    return state.warned(task.index.note) if task.index.note else state


async def _with_second_encoder(state: State) -> State:
    """Return the state with the cosines of the encoder for other languages, if the task is in one."""
    task = state.task
    if not task.understood.other_language:
        return state
    vectors, reason = await task.encode(task.understood.texts)
    if vectors is None:
        return state.warned(f"{LANGUAGE_ALONE}{reason}") if reason else state
    of_task = leaning(vectors, task.understood.earlier_weights)
    return replace(state, second=task.index.second_cosines(of_task))


def why_failed(warnings: Sequence[str]) -> str:
    """Return the reason why the semantic leg failed, from a Decision's warnings, or ""."""
    for warning in warnings:
        if warning.startswith((KEYWORD_ALONE, _NO_LEG)):
            _, _, reason = warning.partition(": ")
            if reason != NO_KNOWN_WORD:
                return reason
    return ""


def _near_flagged(
    flagged: Mask | None, vectors: NDArray[np.float32], of_task: NDArray[np.float32]
) -> dict[int, float]:
    """Return the cosines of the flagged tools that are nearest to the task."""
    if flagged is None:
        return {}
    positions = flagged.nonzero()[0]
    cosines = vectors[positions] @ of_task
    nearest = np.argsort(-cosines, kind="stable")[:MOST_FLAGGED]
    return dict(zip(positions[nearest].tolist(), cosines[nearest].tolist(), strict=True))


def leaning(vectors: NDArray[np.float32], weights: Sequence[float]) -> NDArray[np.float32]:
    """Return the query's row with the last rows, of the earlier texts that it leans on, added by weight."""
    if not weights:
        return vectors
    earlier = vectors[-len(weights) :]
    together = vectors[0] + np.asarray(weights, np.float32) @ earlier
    together /= max(float(np.linalg.norm(together)), 1e-9)
    return np.vstack([together, vectors[1 : -len(weights)]])
