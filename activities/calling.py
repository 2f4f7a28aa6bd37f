"""Calling tools: the only activities with side effects; never local ones, which run again after a crash."""

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.beating import heartbeats
from orchestrator.activities.failing import as_temporal_errors
from orchestrator.catalogue.export import check_arguments
from orchestrator.errors import OutcomeUnknown
from orchestrator.records import durable_names as names
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.temporal.payload import read_input
from orchestrator.temporal.resources import Resources


class CallingActivities:
    """Over the worker's executors."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    @activity.defn(name=names.CALL_TOOL)
    async def call_tool(self, call: RawValue) -> ToolResult:
        """ToolCall to the tool's answer, held to its tokens; a tool's own error is an answer too.

        What may not be called again is sent at most once, whatever the retry policy of whoever schedules it.
        """
        with as_temporal_errors():
            asked = read_input(call, ToolCall)
        async with heartbeats():
            with as_temporal_errors(replayable=asked.replayable):
                if activity.info().attempt > 1 and not asked.replayable:
                    raise OutcomeUnknown(f"{asked.tool.key}: an earlier attempt was lost; it is not sent again")
                return await self.resources.execute(asked)

    @activity.defn(name=names.CHECK_CALL)
    async def check_call(self, call: RawValue) -> None:
        """Fails where the arguments of a ToolCall do not fit the schema: for tools that start as child workflows."""
        with as_temporal_errors():
            asked = read_input(call, ToolCall)
            check_arguments(asked.tool, asked.arguments)
