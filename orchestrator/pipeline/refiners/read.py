"""A refiner that you may add: where routing is not sure, a reader reads the request with each of the first tools.

from dataclasses import replace
from orchestrator import Router, preset
from orchestrator.index.reader import Reader
from orchestrator.pipeline.refiners.read import reading

default = preset("default")
read = reading(Reader("models/reader"))
pipeline = replace(default, name="with a reader", refiners=(read, *default.refiners))
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.reader import Reader
from orchestrator.pipeline.state import State

LEAST, MOST = 0.2, 0.8
"""The confidences between which the tools are read."""
READ = 6
"""The number of first tools that are read. With ten, recall@5 is lower and hit@1 the same."""
WEIGHT = 0.5
"""The weight of the reader's scores against the log-odds. Fitted to written requests."""
LEAD, ODDS, BIAS = 0.5, 0.2, -0.45
"""The log-odds of the new first tool to be right: the factors of its lead and of its log-odds, and the bias."""


def reading(reader: Reader, limit_s: float = 1.0) -> Callable[[State], Awaitable[State]]:
    """Return the refiner. If the reader takes longer than the limit, the state only gets a warning."""

    async def read(state: State) -> State:
        first = state.order[:READ]
        if len(first) < 2 or not LEAST <= state.confidence <= MOST:
            return state
        tools = [state.task.index.tools[position] for position in first]
        try:
            async with asyncio.timeout(limit_s):
                scores = await asyncio.to_thread(reader.scores, state.task.request.query, tools)
        except TimeoutError:
            return state.warned(
                f"the reader did not finish within {limit_s:g} seconds, so the order is without it"
            )
        return _with_scores(state, first, scores)

    return read


def _with_scores(state: State, first: tuple[int, ...], scores: NDArray[np.float32]) -> State:
    """Return the state with the scores added to the log-odds of the first tools."""
    chances = np.clip([state.scores[position] for position in first], 1e-4, 1 - 1e-4)
    odds = np.log(chances / (1 - chances)) + WEIGHT * (scores - scores.mean())
    second, best = np.sort(odds)[-2:]
    confidence = _chance(LEAD * (best - second) + ODDS * best + BIAS)
    read = dict(zip(first, _chance(odds).tolist(), strict=True))
    return replace(state.rescored(read), confidence=float(confidence))


def _chance(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-odds))
