"""Requests of protocol 2026-07-28 that continue while their client answers a server's question.

The answer to such a request is an `InputRequiredResult` with the questions and a `request_state`. The client sends the
request again with that state and the answers, and the waiting request goes on.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from mcp import MCPError
from mcp.types import INVALID_PARAMS, InputRequiredResult, InputResponse

from orchestrator.mcp.server_requests import ANSWER_S, ASKER
from orchestrator.server.sessions import task_handles
from orchestrator.server.sessions.asker import ClientAsker, is_modern

R = TypeVar("R")
HandOver = Callable[[ClientAsker, asyncio.Task[Any]], dict[str, Any]]
"""Keeps a call that goes on, and returns its handle."""
_MAX_WAITING = 1_000
"""Calls of all tenants that wait for an answer. Above, the oldest of the busiest tenant ends, so that no tenant
can push out the others."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that waits for its client's answer, and the task that answers it."""

    asker: ClientAsker
    task: asyncio.Task[Any]


class Questions:
    """The waiting requests by their state, oldest first.

    Over the limit, the tenant with the most waiting requests loses its oldest.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}

    async def answered(
        self,
        asker: ClientAsker,
        params: Any,
        answer: Callable[[], Awaitable[R]],
        hand_over: HandOver | None = None,
    ) -> R | InputRequiredResult | dict[str, Any]:
        """Return the answer to a request, a question for its client, or a handle.

        Args:
            asker: The client of the request.
            params: The request's parameters. They may contain answers to questions.
            answer: Makes the answer.
            hand_over: Returns the handle of a request that takes long. None: the client waits.
        """
        if not is_modern(asker.context):
            return await _with_asker(asker, answer)
        if params.request_state is None:
            waiting = _Waiting(asker, asyncio.create_task(_with_asker(asker, answer)))
        else:
            waiting = self._resume(params.request_state, asker, params.input_responses or {})
        asked = asyncio.create_task(waiting.asker.asked.wait())
        try:
            await asyncio.wait(
                {waiting.task, asked},
                return_when=asyncio.FIRST_COMPLETED,
                timeout=hand_over and task_handles.HANDLE_AFTER_S,
            )
        except asyncio.CancelledError:
            waiting.task.cancel()
            await asyncio.wait({waiting.task})
            raise
        finally:
            asked.cancel()
        if waiting.task.done():
            result: R = await waiting.task
            return result
        if hand_over is not None and not waiting.asker.asked.is_set():
            return hand_over(waiting.asker, waiting.task)
        return self._park(waiting)

    def _park(self, waiting: _Waiting) -> InputRequiredResult:
        state = secrets.token_urlsafe(16)
        self._waiting[state] = waiting
        # A request that ends meanwhile keeps its answer: not every question is one that it waits for.
        asyncio.get_running_loop().call_later(ANSWER_S, self._forget, state)
        if len(self._waiting) > _MAX_WAITING:
            self._forget(self._oldest_of_busiest_tenant())
        waiting.asker.asked.clear()
        questions = waiting.asker.questions.items()
        return InputRequiredResult(
            input_requests={
                name: request for name, (request, answer) in questions if not answer.done()
            },
            request_state=state,
        )

    def _oldest_of_busiest_tenant(self) -> str:
        tenants = {state: waiting.asker.tenant for state, waiting in self._waiting.items()}
        [(busiest, _)] = Counter(tenants.values()).most_common(1)
        return next(state for state, tenant in tenants.items() if tenant == busiest)

    def _forget(self, state: str) -> None:
        waiting = self._waiting.pop(state, None)
        if waiting is not None:
            waiting.task.cancel()

    def _resume(
        self, state: str, asker: ClientAsker, answers: dict[str, InputResponse]
    ) -> _Waiting:
        """Pass the answers to the waiting request and let it continue. Requests of other clients are not found."""
        waiting = self._waiting.get(state)
        if waiting is None or waiting.asker.who != asker.who:
            raise MCPError(
                INVALID_PARAMS,
                f"no request waits for this answer (a request waits {ANSWER_S:g} seconds): call the tool again",
            )
        del self._waiting[state]
        waiting.asker.context = asker.context
        for question_id, (_, answer) in waiting.asker.questions.items():
            if question_id in answers and not answer.done():
                answer.set_result(answers[question_id])
        if any(not answer.done() for _, answer in waiting.asker.questions.values()):
            waiting.asker.asked.set()
        return waiting


async def _with_asker(asker: ClientAsker, answer: Callable[[], Awaitable[R]]) -> R:
    """Make an answer while servers may ask this client."""
    before = ASKER.set(asker)
    try:
        return await answer()
    finally:
        asker.is_open = False
        ASKER.reset(before)
