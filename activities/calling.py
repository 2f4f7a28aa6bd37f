"""Calling tools: the only activities with side effects; never local ones, which run again after a crash."""

from dataclasses import replace

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.working import Activities, time_limit, working
from orchestrator.catalogue.export import check_arguments
from orchestrator.errors import OutcomeUnknown, Unavailable
from orchestrator.records import durable_names as names
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.temporal.payload import read_input

UNSENT = "nothing was sent by attempt"
"""Heartbeat of an attempt that failed before it sent anything, with its number."""


class CallingActivities(Activities):
    """Over the worker's executors."""

    @activity.defn(name=names.CALL_TOOL)
    async def call_tool(self, call: RawValue) -> ToolResult:
        """Return the tool's answer, held to its tokens; a tool's own error is an answer too.

        A call that may not be repeated is sent at most once, whatever the retry policy of whoever schedules it.
        """
        async with working():
            asked = read_input(call, ToolCall)
        async with working(replayable=asked.replayable):
            if not asked.replayable:
                _refuse_second(asked)
            try:
                return await self.resources.execute(replace(asked, deadline_s=asked.deadline_s or time_limit()))
            except Unavailable:
                activity.heartbeat(UNSENT, activity.info().attempt)
                raise

    @activity.defn(name=names.CHECK_CALL)
    async def check_call(self, call: RawValue) -> None:
        """Fail where the arguments of a ToolCall do not fit the schema: for tools that start as child workflows."""
        async with working():
            asked = read_input(call, ToolCall)
            check_arguments(asked.tool, asked.arguments)


def _refuse_second(call: ToolCall) -> None:
    """Raise OutcomeUnknown for a further attempt, unless the attempt before it reported that it sent nothing."""
    info = activity.info()
    if info.attempt > 1 and list(info.heartbeat_details) != [UNSENT, info.attempt - 1]:
        raise OutcomeUnknown(f"{call.tool.key}: an earlier attempt was lost; it is not sent again")
