"""Tasks of servers (`io.modelcontextprotocol/tasks`): a call that is answered by a handle, and polled until it ends.

    tools/call   {"resultType": "task", "taskId": "7f3", "status": "working", "pollIntervalMs": 1000}
    tasks/get    {"taskId": "7f3", "status": "input_required", "inputRequests": {"q": {"method": "elicitation/create"}}}
    tasks/update {"taskId": "7f3", "inputResponses": {"q": {"action": "accept"}}}
    tasks/get    {"taskId": "7f3", "status": "completed", "result": {"content": [...]}}

For toolroute's callers this is one long call. Each answer of the server counts as progress of the call.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, Literal

import anyio
from mcp import MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.types import (
    INTERNAL_ERROR,
    CallToolResult,
    CancelTaskRequest,
    CancelTaskRequestParams,
    ErrorData,
    GetTaskRequest,
    GetTaskRequestParams,
    InputRequest,
    InputResponse,
    Request,
    RequestParams,
    Result,
    TaskStatus,
)
from pydantic import ConfigDict, TypeAdapter

EXTENSION = "io.modelcontextprotocol/tasks"
_POLL_S = 1.0
_MIN_POLL_S = 0.05
_MAX_POLL_S = 15.0
"""Seconds between two polls: without a wish of the server, at least, and at most."""
_CANCEL_S = 2.0
"""Seconds in which the server may take note. The caller is waiting, and nothing depends on the answer."""

Ask = Callable[[InputRequest], Awaitable[InputResponse | ErrorData]]
"""Answers a server's question."""
Alive = Callable[[float, float | None, str | None], Awaitable[None]]
"""Receives the progress of a call: a number, the total, and words."""

ALIVE: ContextVar[Alive | None] = ContextVar("toolroute_alive", default=None)
"""The receiver of the progress of the call that this task makes."""
_INPUT_REQUEST: TypeAdapter[Any] = TypeAdapter(InputRequest)


class TaskState(Result):
    """The answer to `tasks/get`. Its fields that toolroute does not read pass through."""

    model_config = ConfigDict(extra="allow")
    task_id: str
    status: TaskStatus
    status_message: str | None = None
    poll_interval_ms: int | None = None
    input_requests: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class CreatedTask(Result):
    """The answer to a call that continues as a task."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"]
    task_id: str
    poll_interval_ms: int | None = None


class TaskParams(RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any]


class UpdateTask(Request[UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: UpdateParams


class Tasks(ClientExtension):
    """Waits for the tasks of a server.

    Args:
        ask: Answers the server's questions.
    """

    identifier = EXTENSION

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._result)]

    async def _result(self, created: CreatedTask, context: ClaimContext) -> CallToolResult:
        session = context.session
        poll_ms = created.poll_interval_ms
        try:
            for polls in itertools.count(1):
                await asyncio.sleep(_poll_s(poll_ms))
                state = await task_state(session, created.task_id)
                if state.status in ("completed", "cancelled", "failed"):
                    return _ended(state)
                alive = ALIVE.get()
                if alive is not None:
                    await alive(polls, None, state.status_message)
                if state.input_requests:
                    await self._answer(session, state)
                poll_ms = state.poll_interval_ms
        except asyncio.CancelledError:
            await _cancel(session, created.task_id)
            raise
        raise AssertionError("unreachable")

    async def _answer(self, session: ClientSession, state: TaskState) -> None:
        answers: dict[str, Any] = {}
        for name, request in (state.input_requests or {}).items():
            answer = await self._ask(_INPUT_REQUEST.validate_python(request, by_name=False))
            if isinstance(answer, ErrorData):
                await _cancel(session, state.task_id)
                raise MCPError(answer.code, answer.message)
            answers[name] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        params = UpdateParams(task_id=state.task_id, input_responses=answers)
        await _send(session, UpdateTask(params=params), Result)


async def task_state(session: ClientSession, task_id: str) -> TaskState:
    """Return the present state of a server's task."""
    request = GetTaskRequest(params=GetTaskRequestParams(task_id=task_id))
    state: TaskState = await _send(session, request, TaskState)
    return state


async def _send(session: ClientSession, request: Any, result: Any) -> Any:
    return await session.send_request(request, result)


async def _cancel(session: ClientSession, task_id: str) -> None:
    """Ask the server to cancel a task. Whether it does is its own choice."""
    with anyio.move_on_after(_CANCEL_S, shield=True):
        try:
            request = CancelTaskRequest(params=CancelTaskRequestParams(task_id=task_id))
            await _send(session, request, Result)
        except MCPError:
            return


def _poll_s(wish_ms: int | None) -> float:
    if wish_ms is None:
        return _POLL_S
    return min(max(wish_ms / 1000, _MIN_POLL_S), _MAX_POLL_S)


def _ended(state: TaskState) -> CallToolResult:
    """Return the result of a task that has ended. Raises MCPError if it was cancelled or failed."""
    if state.status == "completed":
        return CallToolResult.model_validate(state.result, by_name=False)
    error = state.error or {}
    reason = error.get("message") or state.status_message or "the server gave no reason"
    raise MCPError(int(error.get("code", INTERNAL_ERROR)), f"its task was {state.status}: {reason}")
