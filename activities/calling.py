"""Calling tools: the only activities with side effects; never local ones, which run again after a crash."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from temporalio import activity
from temporalio.common import RawValue

from orchestrator import names
from orchestrator.activities.failing import told
from orchestrator.exports import check_arguments
from orchestrator.payloads import read_input
from orchestrator.plans import ToolCall, ToolResult
from orchestrator.resources import Resources


class CallingActivities:
    """Over the worker's executors."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    @activity.defn(name=names.CALL_TOOL)
    async def call_tool(self, call: RawValue) -> ToolResult:
        """ToolCall to the tool's answer, held to its tokens; a tool's own error is an answer too."""
        with told():
            asked = read_input(call, ToolCall)
        async with _heartbeats():
            with told(replayable=asked.replayable):
                return await self.resources.execute(asked)

    @activity.defn(name=names.CHECK_CALL)
    async def check_call(self, call: RawValue) -> None:
        """Fails where the arguments of a ToolCall do not fit the schema: for tools that start as child workflows."""
        with told():
            asked = read_input(call, ToolCall)
            check_arguments(asked.tool, asked.arguments)


@asynccontextmanager
async def _heartbeats() -> AsyncIterator[None]:
    """Beats while a call is under way, so that a lost worker and a cancellation are noticed."""
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return
    beating = asyncio.create_task(_beat(timeout.total_seconds() / 3))
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _beat(every_s: float) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(every_s)
