"""Routing: one activity for all stages, since each further activity costs about 10 ms and routing a few."""

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.beating import heartbeats
from orchestrator.activities.failing import as_temporal_errors
from orchestrator.records import durable_names as names
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest
from orchestrator.temporal.payload import read_request
from orchestrator.temporal.resources import Resources


class RoutingActivities:
    """Over the worker's router."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    @activity.defn(name=names.ROUTE)
    async def route(self, request: RawValue) -> Decision:
        """The Decision for a RouteRequest; fails without retry for bad input or an unknown tenant."""
        with as_temporal_errors():
            asked = read_request(request, RouteRequest)
            async with heartbeats():
                router = await self.resources.router()
                return await router.route(asked)
