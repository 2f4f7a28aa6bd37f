"""The activity `toolroute.detect_explicit_server`: the servers that a task names, and the tools left out."""

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.stage import Stage
from orchestrator.records import durable_names as names
from orchestrator.records.findings import Findings
from orchestrator.temporal.payload import NOTHING


class DetectExplicitServer(Stage):
    @activity.defn(name=names.DETECT_EXPLICIT_SERVER)
    async def run(self, request: RawValue, before: RawValue = NOTHING) -> Findings:
        """Return the Findings with the servers that a RouteRequest names, and the tools that are allowed."""
        return await self.find(request, before, lambda pipeline: pipeline.cheap[1:2])
