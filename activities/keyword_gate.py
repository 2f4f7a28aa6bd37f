"""The activity `toolroute.keyword_gate`: the keyword leg, and whether it is sure enough to answer alone."""

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.stage import Stage
from orchestrator.records import durable_names as names
from orchestrator.records.findings import Findings
from orchestrator.temporal.payload import NOTHING


class KeywordGate(Stage):
    @activity.defn(name=names.KEYWORD_GATE)
    async def run(self, request: RawValue, before: RawValue = NOTHING) -> Findings:
        """Return the Findings with the keyword leg's candidates; `gate_open` where they are enough."""
        return await self.find(request, before, lambda pipeline: pipeline.cheap[2:])
