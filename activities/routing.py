"""Routing: one activity for all stages, since each further activity costs about 10 ms and routing a few."""

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.working import Activities, working
from orchestrator.records import durable_names as names
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest
from orchestrator.temporal.payload import read_input


class RoutingActivities(Activities):
    """Over the worker's router."""

    @activity.defn(name=names.ROUTE)
    async def route(self, request: RawValue) -> Decision:
        """Return the Decision for a RouteRequest; fail without retry for bad input or an unknown tenant."""
        async with working():
            asked = read_input(request, RouteRequest)
            asked.validate()  # A worker serves many tenants: none is not `local` here, as it is in process.
            return await (await self.resources.router()).route(asked)
