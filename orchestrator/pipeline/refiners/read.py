"""The refiner `read`: where routing is not sure, a reader reads the task with each of the first tools.

It runs only if `Options.reader` names a reader (docs/how-to/second-stage.md).
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from orchestrator.common.threads import Threads
from orchestrator.errors import InvalidConfig
from orchestrator.index.calibration import log_odds
from orchestrator.index.reader import Floats, reader_at
from orchestrator.pipeline.state import State
from orchestrator.records.tool import Tool

LEAST, MOST = 0.2, 0.8
"""The confidences between which the tools are read."""
FIRST = 6
"""The number of tools that are read. With ten, recall@5 is lower and hit@1 the same."""
IN_SERVER, AMONG_SERVERS = 1.0, 0.5
"""The weights of the reader's scores against the log-odds: how a tool's score differs from the mean of its server's
tools, and how this mean differs from the others. It reads sister tools better than tools of different servers
(docs/decisions/ranking.md)."""
LEAD, ODDS, BIAS = 0.35, 0.34, -0.66
"""The log-odds of the new first tool to be right: the factors of its lead and of its log-odds, and the bias."""
UNREAD = "the reader did not order the first tools: "

_THREADS = Threads(1, "toolroute reader")


def read(state: State) -> State | Awaitable[State]:
    """Return the state with the first tools ordered again, if the confidence is doubtful and a reader is named.

    The reader knows English only. If it fails or is late, the order does not change, and a warning gives the reason.
    """
    task = state.task
    is_doubtful = LEAST <= state.confidence <= MOST and len(state.scores) > 1
    if not task.options.reader or not is_doubtful or task.understood.other_language:
        return state
    return _read(state, state.order[:FIRST])


async def _read(state: State, first: tuple[int, ...]) -> State:
    task = state.task
    tools = [task.index.tools[position] for position in first]
    work = partial(_scores, task.options.reader, task.request.query, tools)
    seconds = task.options.route_timeout_s
    try:
        async with asyncio.timeout(seconds):
            scores = await _THREADS.run(work)
    except TimeoutError:
        return state.warned(f"{UNREAD}it took longer than {seconds:g} seconds (route_timeout_s)")
    except KeyError as error:
        return state.warned(f"{UNREAD}its file has no weights {error}")
    except (InvalidConfig, ValueError) as error:
        return state.warned(f"{UNREAD}{error}")
    return _with_scores(state, first, scores)


def _scores(folder: str, query: str, tools: list[Tool]) -> Floats:
    return reader_at(folder).scores(query, tools)


def _with_scores(state: State, first: tuple[int, ...], scores: Floats) -> State:
    """Return the state with the scores added to the log-odds of the first tools."""
    before = np.array([state.scores[position] for position in first])
    tools = [state.task.index.tools[position] for position in first]
    # Tools without a server have no sister tools.
    servers = np.array([tool.server or tool.key for tool in tools])
    of_server = np.array([scores[servers == server].mean() for server in servers])
    preferred = IN_SERVER * (scores - of_server) + AMONG_SERVERS * (of_server - scores.mean())
    odds = log_odds(before) + preferred
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    second, best = np.sort(odds)[-2:]
    confidence = _chance(LEAD * (best - second) + ODDS * best + BIAS)
    read = state.rescored(_by_tool(first, _chance(odds)))
    read = replace(read, confidence=float(confidence))
    read = read.with_evidence("reader", _by_tool(first, shares))
    leader = read.order[0]
    if leader == first[0]:
        return read
    return read.noted({leader: "moved to the first place by the reader"})


def _by_tool(first: tuple[int, ...], values: NDArray[np.floating]) -> dict[int, float]:
    return dict(zip(first, values.tolist(), strict=True))


def _chance(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-odds)))
