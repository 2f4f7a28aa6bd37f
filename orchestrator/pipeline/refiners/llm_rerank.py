"""Rerank by a language model: it scores the best candidates for the task; the order changes, never who is in it."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.tokens import cut
from orchestrator.pipeline.model_calls import RouteModel, Said
from orchestrator.pipeline.state import State
from orchestrator.records.usage import Usage

TASK_TOKENS, TOOL_TOKENS, SCORE_TOKENS = 1_000, 300, 30
"""At most of the task, of a tool (its parameters included), and of a score."""
EACH_TOKENS = 1_000 + TASK_TOKENS + TOOL_TOKENS
"""Of a question about one tool, its answer included."""
SIDE_BY_SIDE = 5
UNHEARD = 50.0
"""The score of a candidate for which the model failed, once it has answered for another one."""
_SCALE = "from 0, no use, to 100, exactly what the task takes"
LISTED = f"You judge tools for a task. Give each of the numbered tools a score {_SCALE}."
ALONE = f"You judge a tool for a task. Answer with its score {_SCALE}: only the number."


class ScoreShape(BaseModel):
    """Read a tool's number and its score."""

    number: int
    score: float


class ScoresShape(BaseModel):
    """Read a model's answer to LISTED."""

    scores: list[ScoreShape]


def llm_rerank(*, top: int = 10, mode: Literal["list", "each"] = "list") -> Callable[[State], Awaitable[State]]:
    """Return a refiner that has the named model, if any, judge the first `top` candidates, at one time or each alone.

    Where it fails the order stays, and a warning says why. Alone, the first failure does so and later ones score 50, as
    does a tool that an answer about all leaves out.
    The confidence is then the mean of routing's and the model's for the first tool.
    """

    async def llm_rerank(state: State) -> State:
        pool, model = state.order[:top], state.task.model
        if len(pool) < 2 or state.settled or model is None or not model.is_named():
            return state
        judge = _all_at_once if mode == "list" else _each_alone
        scores, usage, reasons = await judge(model, state.task.understood.asked, [_shown(state, own) for own in pool])
        state = replace(state, usage=state.usage + usage, warnings=(*state.warnings, *reasons))
        if not scores:
            return state
        judged = {pool[place]: score / 100 for place, score in scores.items()}
        state = state.with_evidence("model", judged).reordered(sorted(pool, key=lambda place: -judged[place]))
        return replace(state, confidence=(state.confidence + judged[state.order[0]]) / 2)

    return llm_rerank


Judged = tuple[Mapping[int, float], Usage, Sequence[str]]
"""Scores by place, none where the order is to stay; what they took; warnings."""


async def _all_at_once(model: RouteModel, task: str, tools: Sequence[Mapping[str, Any]]) -> Judged:
    data = {"task": cut(task, TASK_TOKENS)[0], "tools": [{"number": n, **tool} for n, tool in enumerate(tools, 1)]}
    most = EACH_TOKENS + 2 * (TOOL_TOKENS + SCORE_TOKENS) * len(tools)
    got = await model.fill(LISTED, data, ScoresShape, max_tokens=most, answer=100 + SCORE_TOKENS * len(tools))
    if got.answer is None:
        return {}, got.usage, (f"not reranked by a model: {got.reason}",)
    known = [own for own in got.answer.scores if 0 < own.number <= len(tools) and math.isfinite(own.score)]
    if not known:
        return {}, got.usage, ("not reranked by a model: it scored none of the tools",)
    scores = {own.number - 1: _clamped(own.score) for own in known}
    return (
        _filled(scores, len(tools)),
        got.usage,
        _unheard(len(tools) - len(scores), len(tools), "the model left them out"),
    )


async def _each_alone(model: RouteModel, task: str, tools: Sequence[Mapping[str, Any]]) -> Judged:
    """Ask for the first tool, then for the others side by side, all within the time of one question."""
    until, room = model.until(), asyncio.Semaphore(SIDE_BY_SIDE)

    async def alone(tool: Mapping[str, Any]) -> Said[float]:
        async with room:
            data = {"task": cut(task, TASK_TOKENS)[0], "tool": tool}
            return _number(await model.write(ALONE, data, max_tokens=EACH_TOKENS, until=until))

    first = await alone(tools[0])
    if first.answer is None:
        return {}, first.usage, (f"not reranked by a model: {first.reason}",)
    said = [first, *await asyncio.gather(*map(alone, tools[1:]))]
    failed = [own.reason for own in said if own.answer is None]
    scores = {place: own.answer for place, own in enumerate(said) if own.answer is not None}
    warnings = _unheard(len(failed), len(said), *failed[:1])
    return _filled(scores, len(said)), sum((own.usage for own in said), Usage()), warnings


def _filled(scores: Mapping[int, float], tools: int) -> dict[int, float]:
    return {**dict.fromkeys(range(tools), UNHEARD), **scores}


def _unheard(failed: int, tools: int, why: str = "") -> Sequence[str]:
    return (f"{failed} of {tools} tools count as {UNHEARD:g} of 100: {why}",) if failed else ()


def _number(said: Said[str]) -> Said[float]:
    """Return the number that an answer is; a reason where it is none."""
    try:
        score = float(said.answer or "nan")
    except ValueError:
        score = math.nan
    if math.isnan(score):
        return Said(usage=said.usage, reason=said.reason or f"{said.answer or '':.40} is no number")
    return Said(answer=_clamped(score), usage=said.usage)


def _clamped(score: float) -> float:
    return min(100.0, max(0.0, score))


def _shown(state: State, position: int) -> dict[str, Any]:
    """Return what the model reads of a tool; as JSON, so that none of it can end where it stands."""
    tool = state.task.index.catalogue.tools[position]
    takes = cut(", ".join(parameters(tool)["properties"]), TOOL_TOKENS // 3)[0]
    return {"tool": cut(tool.key, 60)[0], "description": cut(tool.description, TOOL_TOKENS // 2)[0], "takes": takes}
