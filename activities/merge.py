"""The activity `toolroute.merge`: fusion, refiners and selection, over what the legs found."""

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.stage import Stage
from orchestrator.activities.working import working
from orchestrator.records import durable_names as names
from orchestrator.records.decision import Decision
from orchestrator.records.findings import Findings
from orchestrator.records.request import RouteRequest
from orchestrator.temporal.payload import NOTHING, read_input


class Merge(Stage):
    @activity.defn(name=names.MERGE)
    async def run(self, request: RawValue, before: RawValue = NOTHING, keyword_alone: str = "") -> Decision:
        """Return the Decision for a RouteRequest; `keyword_alone` says why the semantic stage did not answer."""
        from orchestrator.runtime.staged import merge

        async with working(request, RouteRequest) as asked:
            found = read_input(before, Findings)
            made = await merge(await self.resources.router(), asked, found, keyword_alone)
            return await self.resources.limited(made)
