"""The second stage: a reader or a language model reads the task with the best candidates, and orders them again.

`read` asks a small reader on this machine, if `Options.reader` names one, and `decide` asks a
language model (docs/how-to/second-stage.md).
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.tokens import cut
from orchestrator.common.lines import one_line
from orchestrator.common.threads import Threads
from orchestrator.errors import InvalidConfig
from orchestrator.index.calibration import expit, log_odds
from orchestrator.pipeline.model_calls import Reply, RouteModel
from orchestrator.pipeline.refiners.reader import Floats, reader_at
from orchestrator.pipeline.state import State
from orchestrator.records.tool import Tool

LEAST, MOST = 0.2, 0.8
"""The confidences between which the tools are read."""
FIRST = 6
"""The number of tools that are read. With ten, recall@5 is lower and hit@1 the same."""
IN_SERVER, AMONG_SERVERS = 1.0, 0.5
"""The weights of the reader's scores against the log-odds: how a tool's score differs from the mean of its
server's tools, and how this mean differs from the others. It reads sister tools better than tools of
different servers (docs/decisions/ranking.md)."""
LEAD, ODDS, BIAS = 0.35, 0.34, -0.66
"""The log-odds of the new first tool to be right: the factors of its lead and of its log-odds, and the bias."""
UNREAD = "the reader did not order the first tools: "

How = Literal["off", "model"]
TOP = 20
"""The number of candidates that the language model reads."""
TASK_TOKENS, TOOL_TOKENS, PROMPT_TOKENS, ANSWER_TOKENS = 1_000, 300, 1_300, 200
"""The maximum number of tokens of the task, of a tool with its parameters, of the prompt around them, and
of the answer."""
UNDECIDED = "the order was not changed by the second stage: "
PROMPT = """You choose tools for a task. You see the task and numbered tools. Write to needed the numbers of the tools \
that the task needs, the most important first. One tool is often enough. Leave out tools that are only related. If \
none of the tools can do what the task asks for, needed is empty. Write to confidence, from 0 to 1, how likely it is \
that the first number, or the empty list, is right."""

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
    scores_of = partial(_scores, task.options.reader, task.request.query, tools)
    seconds = task.options.route_timeout_s
    try:
        async with asyncio.timeout(seconds):
            scores = await _THREADS.run(scores_of)
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
    odds = log_odds(before) + _preference(state, first, scores)
    state = state.rescored(_by_tool(first, expit(odds)))
    state = replace(state, confidence=_confidence(odds))
    state = state.with_evidence("reader", _by_tool(first, _shares(scores)))
    leader = state.order[0]
    if leader == first[0]:
        return state
    return state.noted({leader: "moved to the first place by the reader"})


def _confidence(odds: NDArray[np.float64]) -> float:
    """Return the probability that the best tool is right, from the log-odds of at least two tools."""
    second, best = np.sort(odds)[-2:]
    return float(expit(LEAD * (best - second) + ODDS * best + BIAS))


def _shares(scores: Floats) -> Floats:
    """Return the softmax of the scores."""
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum(), scores.dtype)


def _preference(state: State, first: tuple[int, ...], scores: Floats) -> NDArray[np.float64]:
    """Return the reader's addition to the log-odds of each tool."""
    tools = [state.task.index.tools[position] for position in first]
    # Tools without a server have no sister tools.
    servers = np.array([tool.server or tool.key for tool in tools])
    of_server = np.array([scores[servers == server].mean() for server in servers])
    in_server = scores - of_server
    among_servers = of_server - scores.mean()
    return np.asarray(IN_SERVER * in_server + AMONG_SERVERS * among_servers, np.float64)


def _by_tool(first: tuple[int, ...], values: NDArray[np.floating]) -> dict[int, float]:
    return dict(zip(first, values.tolist(), strict=True))


def decide(
    *, top: int = TOP, how: How | None = None
) -> Callable[[State], State | Awaitable[State]]:
    """Return a refiner that has a language model read the first `top` candidates.

    The model puts the tools that the task needs first. If it answers that no tool matches, the confidence falls by the
    model's own confidence in that answer. A server that the task names keeps the first place, with its best tool in the
    new order. If the model fails or is late, the order does not change, and a warning gives the reason.

    Args:
        top: The number of candidates to read.
        how: `model` or `off`. Default: `Options.decide`. `model` does nothing if no model is named.
    """

    def decide(state: State) -> State | Awaitable[State]:
        pool = state.order[:top]
        model = state.task.model
        is_off = (how or state.task.options.decide) == "off"
        if is_off or not pool or state.settled or model is None or not model.is_named():
            return state
        return _by_model(state, pool, model)

    return decide


async def _by_model(state: State, pool: Sequence[int], model: RouteModel) -> State:
    """Put the tools that the model needs first."""
    reply = await _ask(state, pool, model)
    state = replace(state, usage=state.usage + reply.usage)
    choice = reply.answer
    if choice is None or not math.isfinite(choice.confidence):
        return _undecided(state, reply.reason or "the model gave no confidence")
    needed = _positions(choice.needed, pool)
    if choice.needed and not needed:
        return _undecided(state, "the model named none of the tools that it was shown")
    confidence = min(1.0, max(0.0, choice.confidence))
    if not needed:
        state = replace(state, confidence=state.confidence * (1 - confidence))
        return state.warned("the model answered that no tool matches, so the confidence is lower")
    state = _with_named_servers_first(state, (*needed, *pool))
    state = state.noted(dict.fromkeys(needed, "needed according to the model"))
    return replace(state, confidence=(state.confidence + confidence) / 2)


async def _ask(state: State, pool: Sequence[int], model: RouteModel) -> Reply[Any]:
    """Return the model's choice among the candidates."""
    from orchestrator.pipeline.model_shapes import ChoiceShape

    task, _ = cut(state.task.understood.asked, TASK_TOKENS)
    tools = []
    for number, position in enumerate(pool, 1):
        tools.append({"number": number, **_for_model(state.task.index.tools[position])})
    return await model.fill(
        PROMPT,
        {"task": task, "tools": tools},
        ChoiceShape,
        max_tokens=PROMPT_TOKENS + TASK_TOKENS + 2 * TOOL_TOKENS * len(pool) + ANSWER_TOKENS,
        answer=ANSWER_TOKENS,
        tenant=state.task.request.tenant or "",
    )


def _with_named_servers_first(state: State, order: Sequence[int]) -> State:
    """Return the state in this order, with the first tool of each server that the task names in front."""
    tools = state.task.index.tools
    leading: dict[str, int] = {}
    for position in order:
        if position in state.lifted:
            leading.setdefault(tools[position].server, position)
    return state.reordered((*leading.values(), *order))


def _undecided(state: State, why: str) -> State:
    return state.warned(f"{UNDECIDED}{why}")


def _positions(numbers: Iterable[int], pool: Sequence[int]) -> tuple[int, ...]:
    """Return the candidates with these numbers, each once."""
    return tuple(dict.fromkeys(pool[number - 1] for number in numbers if 0 < number <= len(pool)))


def _for_model(tool: Tool) -> dict[str, Any]:
    """Return the parts of a tool that are read, as JSON, so that no text in it can pass for an instruction."""
    schema = parameters(tool)
    required = frozenset(schema.get("required", ()))
    takes = [
        _parameter(name, shape, name in required) for name, shape in schema["properties"].items()
    ]
    return {
        "tool": cut(tool.key, 60)[0],
        "description": cut(tool.description, TOOL_TOKENS // 2)[0],
        "takes": cut("; ".join(takes), TOOL_TOKENS // 2)[0],
    }


def _parameter(name: str, shape: Any, required: bool) -> str:
    """Return a parameter's name with the start of its description."""
    text = shape.get("description", "") if isinstance(shape, dict) else ""
    mark = " (required)" if required else ""
    if not isinstance(text, str) or not text:
        return f"{name}{mark}"
    return f"{name}{mark}: {one_line(text, 80)}"
