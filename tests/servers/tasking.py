"""A server that answers calls with tasks, written as an extension of the `mcp` package.

Run: `python tasking.py FILE`. A call of `build` works for two polls, asks a question, and ends. `wait` works until it
is cancelled, and then writes FILE. A client that does not declare the extension gets an ordinary result.
"""

import sys
from pathlib import Path
from typing import Any

from mcp.server.context import CallNext, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer

from orchestrator.mcp.tasks import EXTENSION, TaskParams, UpdateParams

Context = ServerRequestContext[Any, Any]
FORM = {"type": "object", "properties": {"target": {"type": "string"}}}
QUESTION = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Which target?", "requestedSchema": FORM},
}
CANCELLED = Path(sys.argv[1])
CREATED = "2026-11-29T00:00:00Z"


def cancelled(task_id: str) -> None:
    CANCELLED.write_text(task_id)


class TaskServer(Extension):
    """Makes a task of each call of a client that takes tasks."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self._polls: dict[str, int] = {}
        self._answers: dict[str, str] = {}

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self._get),
            MethodBinding("tasks/cancel", TaskParams, self._cancel),
            MethodBinding("tasks/update", UpdateParams, self._update),
        ]

    async def intercept_tool_call(self, params: Any, ctx: Context, call_next: CallNext) -> Any:
        capabilities = ctx.session.client_capabilities
        if EXTENSION not in ((capabilities and capabilities.extensions) or {}):
            return await call_next(ctx)
        task = f"{params.name}-{len(self._polls)}"
        self._polls[task] = 0
        return {"resultType": "task", **self._state(task, "working")}

    def _state(self, task: str, status: str, **more: Any) -> dict[str, Any]:
        times = {"createdAt": CREATED, "lastUpdatedAt": CREATED, "ttlMs": None, "pollIntervalMs": 50}
        return {"taskId": task, "status": status, **times, **more}

    async def _get(self, _: Context, params: TaskParams) -> dict[str, Any]:
        task = params.task_id
        self._polls[task] += 1
        if task.startswith("wait") or self._polls[task] < 2:
            return self._state(task, "working", statusMessage=f"step {self._polls[task]}")
        if task not in self._answers:
            return self._state(task, "input_required", inputRequests={"target": QUESTION})
        text = {"type": "text", "text": f"built {self._answers[task]}"}
        return self._state(task, "completed", result={"content": [text], "isError": False})

    async def _cancel(self, _: Context, params: TaskParams) -> dict[str, Any]:
        cancelled(params.task_id)
        return {}

    async def _update(self, _: Context, params: UpdateParams) -> dict[str, Any]:
        self._answers[params.task_id] = params.input_responses["target"]["content"]["target"]
        return {}


server = MCPServer("tasking", extensions=[TaskServer()])


@server.tool()
def build() -> str:
    """Build the program for a target."""
    return "built at once"


@server.tool()
def wait() -> str:
    """Wait until somebody cancels."""
    return "not waited"


if __name__ == "__main__":
    server.run("stdio")
