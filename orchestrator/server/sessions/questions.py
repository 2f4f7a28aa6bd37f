"""Requests of protocol 2026-07-28 that continue while their client answers a server's question.

The answer to such a request is an `InputRequiredResult` with the questions and a `request_state`. The client sends the
request again with that state and the answers, and the waiting request continues.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mcp import MCPError
from mcp.types import INVALID_PARAMS, InputRequiredResult, InputResponse

from orchestrator.mcp.server_requests import ANSWER_S, ASKER
from orchestrator.server.sessions import task_handles
from orchestrator.server.sessions.asker import ClientAsker, Context
from orchestrator.server.sessions.clients import Clients
from orchestrator.server.sessions.outcome_recorder import Conversation
from orchestrator.server.sessions.pending_calls import PendingCall, PendingCalls

R = TypeVar("R")
HandOver = Callable[[PendingCall], dict[str, Any]]
"""Keeps a call that goes on, and returns its handle."""
_MAX_WAITING = 1_000
"""Calls of all tenants that wait for an answer."""


class Questions:
    """The requests that wait for their clients' answers."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._waiting = PendingCalls()

    async def answered(
        self,
        context: Context,
        who: Conversation,
        params: Any,
        answer: Callable[[], Awaitable[R]],
        hand_over: HandOver | None = None,
    ) -> R | InputRequiredResult | dict[str, Any]:
        """Return the answer to a request, a question for its client, or a handle. Servers may ask the client meanwhile.

        Args:
            context: The request's context.
            who: The client's conversation.
            params: The request's parameters. They may contain answers to questions.
            answer: Makes the answer.
            hand_over: Returns the handle of a request that takes long. None: the client waits.
        """
        asker = ClientAsker(context, who, self._clients.log_level(context))
        if not asker.is_modern:
            return await _with_asker(asker, answer)
        if params.request_state is None:
            task = asyncio.create_task(_with_asker(asker, answer))
            call = PendingCall(asker=asker, task=task)
        else:
            call = self._resume(params.request_state, asker, params.input_responses or {})
        await _wait(call, hand_over and task_handles.HANDLE_AFTER_S)
        if call.task.done():
            result: R = await call.task
            return result
        if hand_over is not None and not call.asker.asked.is_set():
            return hand_over(call)
        return self._park(call)

    def _park(self, call: PendingCall) -> InputRequiredResult:
        # A request that ends meanwhile keeps its answer: not every question is one that it waits for.
        self._waiting.add(call, limit=_MAX_WAITING, seconds=ANSWER_S)
        call.asker.asked.clear()
        return InputRequiredResult(input_requests=call.asker.open_questions, request_state=call.id)

    def _resume(
        self, state: str, asker: ClientAsker, answers: dict[str, InputResponse]
    ) -> PendingCall:
        """Pass the answers to the waiting request and let it continue. Requests of other clients are not found."""
        call = self._waiting.get(state)
        if call is None or call.asker.who != asker.who:
            raise MCPError(
                INVALID_PARAMS,
                f"no request waits for this answer (a request waits {ANSWER_S:g} seconds): call the tool again",
            )
        self._waiting.remove(state)
        call.asker.context = asker.context
        call.asker.take_answers(answers)
        if call.asker.open_questions:
            call.asker.asked.set()
        # Another id: the former state must not be answered twice.
        return PendingCall(asker=call.asker, task=call.task)


async def _wait(call: PendingCall, timeout_s: float | None) -> None:
    """Wait until a call has ended, or asks its client. If its request is cancelled, so is the call."""
    question = asyncio.create_task(call.asker.asked.wait())
    try:
        await asyncio.wait(
            {call.task, question}, return_when=asyncio.FIRST_COMPLETED, timeout=timeout_s
        )
    except asyncio.CancelledError:
        call.task.cancel()
        await asyncio.wait({call.task})
        raise
    finally:
        question.cancel()


async def _with_asker(asker: ClientAsker, answer: Callable[[], Awaitable[R]]) -> R:
    """Make an answer while servers may ask this client."""
    before = ASKER.set(asker)
    try:
        return await answer()
    finally:
        asker.is_open = False
        ASKER.reset(before)
