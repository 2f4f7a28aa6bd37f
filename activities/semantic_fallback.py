"""The activity `toolroute.semantic_fallback`: the semantic leg, for what keywords alone do not settle."""

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.stage import Stage
from orchestrator.records import durable_names as names
from orchestrator.records.findings import Findings
from orchestrator.temporal.payload import NOTHING


class SemanticFallback(Stage):
    @activity.defn(name=names.SEMANTIC_FALLBACK)
    async def run(self, request: RawValue, before: RawValue = NOTHING) -> Findings:
        """Return the Findings with both legs' candidates; the keyword leg's, with a warning, where embedding fails."""
        return await self.find(request, before, lambda pipeline: pipeline.dear)
