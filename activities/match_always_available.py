"""The activity `toolroute.match_always_available`: the always-available capabilities that a task asks for."""

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.stage import Stage
from orchestrator.records import durable_names as names
from orchestrator.records.findings import Findings


class MatchAlwaysAvailable(Stage):
    @activity.defn(name=names.MATCH_ALWAYS_AVAILABLE)
    async def run(self, request: RawValue) -> Findings:
        """Return the always-available capabilities that a RouteRequest asks for."""
        return await self.find(request, None, lambda pipeline: pipeline.cheap[:1])
