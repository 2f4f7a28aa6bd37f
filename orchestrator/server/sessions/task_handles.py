"""Long calls as tasks (`io.modelcontextprotocol/tasks`): a client that takes tasks gets a handle, and polls it.

    tools/call    a result within ten seconds, or {"resultType": "task", "taskId": "...", "status": "working"}
    tasks/get     the state, a server's question, or the result, also in another session of the same client
    tasks/update  the answer to a question
    tasks/cancel  the call ends, and its server gets a notice

A task of a server and a long call of any other server look the same to the client.
"""

import logging
from datetime import UTC, datetime
from typing import Any

from mcp import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, InputResponses
from pydantic import BaseModel

from orchestrator.mcp.tasks import EXTENSION, TaskParams
from orchestrator.server.sessions.asker import Context, extensions_of, is_modern
from orchestrator.server.sessions.outcome_recorder import Conversation
from orchestrator.server.sessions.pending_calls import PendingCall, PendingCalls

HANDLE_AFTER_S = 10.0
"""Seconds after which a call is answered by a handle. Most calls are shorter, and polling would only delay them."""
_TTL_S = 3_600.0
"""Seconds for which a handle is kept."""
_POLL_MS = 2_000
"""Milliseconds between two polls."""
_MAX_HANDLES = 1_000
"""The number of handles. Above it, the busiest tenant loses its oldest."""
logger = logging.getLogger(__name__)


class UpdateTaskParams(TaskParams):
    """The parameters of `tasks/update`, whose answers are read."""

    input_responses: InputResponses


class TaskHandles:
    """The calls of all clients that got a handle."""

    def __init__(self) -> None:
        self._calls = PendingCalls()

    def keep(self, call: PendingCall) -> dict[str, Any]:
        """Return the handle of a call as the answer to its request."""
        call.asker.is_handed_over = True
        self._calls.add(call, limit=_MAX_HANDLES, seconds=_TTL_S)
        return {"resultType": "task", **_state(call)}

    def state(self, who: Conversation, task_id: str) -> dict[str, Any]:
        """Return the state of a client's task, with its result or the open questions."""
        return _state(self._of(who, task_id))

    def update(self, who: Conversation, params: UpdateTaskParams) -> dict[str, Any]:
        """Pass the answers to a task's questions on."""
        self._of(who, params.task_id).asker.take_answers(params.input_responses)
        return {}

    def cancel(self, who: Conversation, task_id: str) -> dict[str, Any]:
        """Cancel a task. Its server's call is cancelled, too."""
        self._of(who, task_id).task.cancel()
        return {}

    async def close(self) -> None:
        await self._calls.close()

    def _of(self, who: Conversation, task_id: str) -> PendingCall:
        """Return a client's call. Another session of the client has it, too."""
        call = self._calls.get(task_id)
        if call is None or call.asker.who.client != who.client:
            raise MCPError(
                INVALID_PARAMS,
                f"unknown task {task_id}: a task is kept for {_TTL_S / 60:g} minutes, and until toolroute ends",
            )
        return call


def takes_tasks(context: Context) -> bool:
    """Return True if the client of a request declares the extension."""
    return is_modern(context) and EXTENSION in extensions_of(context)


def _state(call: PendingCall) -> dict[str, Any]:
    """Return the state of a call as `tasks/get` answers it."""
    return {
        "taskId": call.id,
        "createdAt": call.created.isoformat(),
        "lastUpdatedAt": datetime.now(UTC).isoformat(),
        "ttlMs": int(_TTL_S * 1000),
        "pollIntervalMs": _POLL_MS,
        **(_end(call) if call.task.done() else _progress(call)),
    }


def _progress(call: PendingCall) -> dict[str, Any]:
    questions = call.asker.open_questions
    if questions:
        requests = {question_id: _as_json(request) for question_id, request in questions.items()}
        return {"status": "input_required", "inputRequests": requests}
    words = call.asker.status_message
    return {"status": "working", **({"statusMessage": words} if words else {})}


def _end(call: PendingCall) -> dict[str, Any]:
    if call.task.cancelled():
        return {"status": "cancelled"}
    error = call.task.exception()
    if error is not None:
        return {"status": "failed", "error": _as_error(error)}
    return {"status": "completed", "result": _as_json(call.task.result())}


def _as_error(error: BaseException) -> dict[str, Any]:
    if isinstance(error, MCPError):
        return _as_json(error.error)
    # The text of an error that nobody expected may hold anything, also a secret.
    logger.error("a call as a task failed", exc_info=error)
    message = f"{type(error).__name__}: the log of toolroute has the error"
    return {"code": INTERNAL_ERROR, "message": message}


def _as_json(record: BaseModel) -> dict[str, Any]:
    return record.model_dump(by_alias=True, mode="json", exclude_none=True)
