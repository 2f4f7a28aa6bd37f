"""Calls of Python functions. A function that is not async occupies a thread."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from orchestrator.common.threads import Threads
from orchestrator.errors import ToolFailed
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.temporal.worker.executor import Executor
from orchestrator.temporal.worker.turns import Turns
from orchestrator.temporal.workflow.payload import as_result


class FunctionExecutor(Executor):
    """Calls a function. Its errors are raised unchanged. A function that is not async occupies a thread."""

    def __init__(
        self, function: Callable[..., Any], whole_call: bool, threads: Threads, turns: Turns
    ) -> None:
        self._function = function
        self._whole_call = whole_call
        self._threads = threads
        self._turns = turns

    async def execute(self, call: ToolCall) -> ToolResult:
        try:
            return await self._called(call)
        except SystemExit as error:  # Otherwise it would end the worker's task without an answer.
            raise ToolFailed(
                f"{call.tool.key}: the function called sys.exit({error.code!r})"
            ) from error

    async def _called(self, call: ToolCall) -> ToolResult:
        run = self._bound(call)
        called = getattr(type(self._function), "__call__", None)  # noqa: B004  (of an object called like a function)
        if inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(called):
            return as_result(await run())
        return await self._in_thread(call, run)

    def _bound(self, call: ToolCall) -> Callable[[], Any]:
        """Return the function with its input: the whole call, or the arguments by name."""
        return (
            partial(self._function, call)
            if self._whole_call
            else partial(self._function, **call.arguments)
        )

    async def _in_thread(self, call: ToolCall, run: Callable[[], Any]) -> ToolResult:
        """Return the function's answer. The thread reads it too, because a generator computes while it is read.

        A function that returns a coroutine, such as a wrapper of an async function, is async as well.
        """

        def answer() -> ToolResult | Awaitable[Any]:
            returned = run()
            return returned if inspect.isawaitable(returned) else as_result(returned)

        # A thread cannot be stopped. It keeps its turn past the call's deadline, until it ends.
        give_back = self._turns.take(call.tenant)
        work = self._threads.begin(answer)
        work.add_done_callback(lambda _: give_back())
        returned = await asyncio.wrap_future(work)
        return returned if isinstance(returned, ToolResult) else as_result(await returned)
