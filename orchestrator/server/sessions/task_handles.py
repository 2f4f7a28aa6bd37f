"""Long calls as tasks (`io.modelcontextprotocol/tasks`): a client that takes tasks gets a handle, and polls it.

    tools/call    a result within ten seconds, or {"resultType": "task", "taskId": "...", "status": "working"}
    tasks/get     the state, a server's question, or the result, also in another session of the same client
    tasks/update  the answer to a question
    tasks/cancel  the call ends, and its server is told

A task of a server and a long call of any other server look the same to the client.
"""

import asyncio
import logging
import secrets
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mcp import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, InputResponses

from orchestrator.mcp.tasks import EXTENSION, TaskParams
from orchestrator.server.sessions.asker import ClientAsker, Context, is_modern
from orchestrator.server.sessions.outcome_recorder import Conversation

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Handle:
    """A call that goes on after its client got a handle."""

    asker: ClientAsker
    task: asyncio.Task[Any]
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    def state(self) -> dict[str, Any]:
        """Return the state as `tasks/get` answers it."""
        return {
            "taskId": self.id,
            "createdAt": self.created.isoformat(),
            "lastUpdatedAt": datetime.now(UTC).isoformat(),
            "ttlMs": int(_TTL_S * 1000),
            "pollIntervalMs": _POLL_MS,
            **(self._end() if self.task.done() else self._progress()),
        }

    def _progress(self) -> dict[str, Any]:
        questions = {
            name: request.model_dump(by_alias=True, mode="json", exclude_none=True)
            for name, (request, answer) in self.asker.questions.items()
            if not answer.done()
        }
        if questions:
            return {"status": "input_required", "inputRequests": questions}
        words = self.asker.status_message
        return {"status": "working", **({"statusMessage": words} if words else {})}

    def _end(self) -> dict[str, Any]:
        if self.task.cancelled():
            return {"status": "cancelled"}
        error = self.task.exception()
        if error is not None:
            return {"status": "failed", "error": _as_error(error)}
        result: CallToolResult = self.task.result()
        return {
            "status": "completed",
            "result": result.model_dump(by_alias=True, mode="json", exclude_none=True),
        }


class TaskHandles:
    """The handles of all clients. Over the limit, the tenant with the most handles loses its oldest."""

    def __init__(self) -> None:
        self._handles: dict[str, _Handle] = {}

    def keep(self, asker: ClientAsker, task: asyncio.Task[Any]) -> dict[str, Any]:
        """Return the handle of a call as the answer to its request."""
        asker.is_handed_over = True
        handle = _Handle(asker=asker, task=task)
        self._handles[handle.id] = handle
        asyncio.get_running_loop().call_later(_TTL_S, self._forget, handle.id)
        if len(self._handles) > _MAX_HANDLES:
            self._forget(self._oldest_of_busiest_tenant())
        return {"resultType": "task", **handle.state()}

    def state(self, who: Conversation, task_id: str) -> dict[str, Any]:
        """Return the state of a client's task, with its result or the open questions."""
        return self._of(who, task_id).state()

    def update(self, who: Conversation, params: UpdateTaskParams) -> dict[str, Any]:
        """Pass the answers to a task's questions on."""
        questions = self._of(who, params.task_id).asker.questions
        for name, response in params.input_responses.items():
            if name in questions and not questions[name][1].done():
                questions[name][1].set_result(response)
        return {}

    def cancel(self, who: Conversation, task_id: str) -> dict[str, Any]:
        """Cancel a task. Its server's call is cancelled, too."""
        self._of(who, task_id).task.cancel()
        return {}

    async def close(self) -> None:
        tasks = [handle.task for handle in self._handles.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _of(self, who: Conversation, task_id: str) -> _Handle:
        """Return a client's handle. Another session of the client has it, too."""
        handle = self._handles.get(task_id)
        if handle is None or _owner(handle.asker.who) != _owner(who):
            raise MCPError(
                INVALID_PARAMS,
                f"unknown task {task_id}: a task is kept for {_TTL_S / 60:g} minutes, and until toolroute ends",
            )
        return handle

    def _oldest_of_busiest_tenant(self) -> str:
        tenants = {task_id: handle.asker.tenant for task_id, handle in self._handles.items()}
        [(busiest, _)] = Counter(tenants.values()).most_common(1)
        return next(task_id for task_id, tenant in tenants.items() if tenant == busiest)

    def _forget(self, task_id: str) -> None:
        handle = self._handles.pop(task_id, None)
        if handle is not None:
            handle.task.cancel()


def takes_tasks(context: Context) -> bool:
    """Return True if the client of a request declares the extension."""
    capabilities = context.session.client_capabilities
    extensions = capabilities.extensions if capabilities else None
    return is_modern(context) and EXTENSION in (extensions or {})


def _owner(who: Any) -> tuple[str, str]:
    return who.tenant, who.actor


def _as_error(error: BaseException) -> dict[str, Any]:
    if isinstance(error, MCPError):
        return error.error.model_dump(by_alias=True, mode="json", exclude_none=True)
    # The text of an error that nobody expected may hold anything, also a secret.
    logger.error("a call as a task failed", exc_info=error)
    message = f"{type(error).__name__}: the log of toolroute has the error"
    return {"code": INTERNAL_ERROR, "message": message}
