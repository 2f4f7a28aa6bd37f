"""Rerank by a language model: it scores the best candidates for the task; the order changes, never who is in it."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.tokens import cut
from orchestrator.pipeline.state import State

TASK_TOKENS, TOOL_TOKENS, SCORE_TOKENS, PROMPT_TOKENS = 1_000, 300, 30, 1_300
"""At most of the task, of a tool (its parameters included), of a score, and of the prompt around them."""
UNSCORED = 50.0
"""The score of a candidate that the model leaves out."""
PROMPT = (
    "You judge tools for a task. Give each of the numbered tools a score from 0, no use, to 100, exactly what the task "
    "takes."
)


class ScoreShape(BaseModel):
    """A tool's number and its score."""

    number: int
    score: float


class ScoresShape(BaseModel):
    """A model's answer to PROMPT."""

    scores: list[ScoreShape]


def llm_rerank(*, top: int = 10) -> Callable[[State], Awaitable[State]]:
    """Return a refiner that has the named model, if any, score the first `top` candidates in one question.

    Where the model fails the order stays, and a warning says why. A tool that it leaves out scores 50. The confidence
    is then the mean of routing's and the model's for the first tool.
    """

    async def llm_rerank(state: State) -> State:
        pool, model = state.order[:top], state.task.model
        if len(pool) < 2 or state.settled or model is None or not model.is_named():
            return state
        task = cut(state.task.understood.asked, TASK_TOKENS)[0]
        tools = [{"number": number, **_shown(state, own)} for number, own in enumerate(pool, 1)]
        most = PROMPT_TOKENS + TASK_TOKENS + 2 * (TOOL_TOKENS + SCORE_TOKENS) * len(pool)
        got = await model.fill(
            PROMPT,
            {"task": task, "tools": tools},
            ScoresShape,
            max_tokens=most,
            answer=100 + SCORE_TOKENS * len(pool),
        )
        state = replace(state, usage=state.usage + got.usage)
        scored = got.answer.scores if got.answer else []
        known = {own.number: own.score for own in scored if 0 < own.number <= len(pool) and math.isfinite(own.score)}
        if not known:
            why = got.reason or "it scored none of the tools"
            return replace(state, warnings=(*state.warnings, f"not reranked by a model: {why}"))
        if left_out := len(pool) - len(known):
            said = f"the model left out {left_out} of {len(pool)} tools: they count as {UNSCORED:g} of 100"
            state = replace(state, warnings=(*state.warnings, said))
        judged = {
            place: min(100.0, max(0.0, known.get(number, UNSCORED))) / 100 for number, place in enumerate(pool, 1)
        }
        state = state.with_evidence("model", judged).reordered(sorted(pool, key=lambda place: -judged[place]))
        return replace(state, confidence=(state.confidence + judged[state.order[0]]) / 2)

    return llm_rerank


def _shown(state: State, position: int) -> dict[str, Any]:
    """Return what the model reads of a tool; as JSON, so that none of it can end where it stands."""
    tool = state.task.index.catalogue.tools[position]
    takes = cut(", ".join(parameters(tool)["properties"]), TOOL_TOKENS // 3)[0]
    return {"tool": cut(tool.key, 60)[0], "description": cut(tool.description, TOOL_TOKENS // 2)[0], "takes": takes}
