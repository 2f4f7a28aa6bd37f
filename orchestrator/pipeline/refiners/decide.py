"""The second stage: a language model reads the task with the best candidates, and orders them."""

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.tokens import cut
from orchestrator.common.lines import one_line
from orchestrator.pipeline.model_calls import RouteModel, Said
from orchestrator.pipeline.state import State

How = Literal["off", "model"]
TOP = 20
"""The number of candidates that the second stage reads."""
TASK_TOKENS, TOOL_TOKENS, PROMPT_TOKENS, ANSWER_TOKENS = 1_000, 300, 1_300, 200
"""The maximum number of tokens of the task, of a tool with its parameters, of the prompt around them, and of the
answer."""
UNDECIDED = "the order was not changed by the second stage: "
PROMPT = """You choose tools for a task. You see the task and numbered tools. Write to needed the numbers of the tools \
that the task needs, the most important first. One tool is often enough. Leave out tools that are only related. If \
none of the tools can do what the task asks for, needed is empty. Write to confidence, from 0 to 1, how likely it is \
that the first number, or the empty list, is right."""


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
        wanted = how or state.task.options.decide
        if not pool or state.settled or wanted == "off" or model is None:
            return state
        return _by_model(state, pool, model) if model.is_named() else state

    return decide


async def _by_model(state: State, pool: Sequence[int], model: RouteModel) -> State:
    """Put the tools that the model needs first."""
    said = await _ask(state, pool, model)
    state = replace(state, usage=state.usage + said.usage)
    choice = said.answer
    if choice is None or not math.isfinite(choice.confidence):
        return _undecided(state, said.reason or "the model gave no confidence")
    needed = _positions(choice.needed, pool)
    if choice.needed and not needed:
        return _undecided(state, "the model named none of the tools that it was shown")
    confidence = min(1.0, max(0.0, choice.confidence))
    if not needed:
        state = replace(state, confidence=state.confidence * (1 - confidence))
        return state.warned("the model answered that no tool matches, so the confidence is lower")
    state = _reordered(state, (*needed, *pool)).noted(
        dict.fromkeys(needed, "needed according to the model")
    )
    return replace(state, confidence=(state.confidence + confidence) / 2)


async def _ask(state: State, pool: Sequence[int], model: RouteModel) -> Said[Any]:
    """Return the model's choice among the candidates."""
    from orchestrator.pipeline.model_shapes import ChoiceShape

    tools = []
    for number, position in enumerate(pool, 1):
        tools.append({"number": number, **_for_model(state, position)})
    return await model.fill(
        PROMPT,
        {"task": _task(state), "tools": tools},
        ChoiceShape,
        max_tokens=PROMPT_TOKENS + TASK_TOKENS + 2 * TOOL_TOKENS * len(pool) + ANSWER_TOKENS,
        answer=ANSWER_TOKENS,
        tenant=state.task.request.tenant or "",
    )


def _reordered(state: State, order: Sequence[int]) -> State:
    """Return the state in this order, behind the first tool in it of each server that the task names."""
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


def _task(state: State) -> str:
    return cut(state.task.understood.asked, TASK_TOKENS)[0]


def _for_model(state: State, position: int) -> dict[str, Any]:
    """Return the parts of a tool that are read, as JSON, so that no text in it can pass for an instruction."""
    tool = state.task.index.tools[position]
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
