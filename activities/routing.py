"""Routing: one activity for all stages, since each further activity costs about 10 ms and routing a few."""

from temporalio import activity
from temporalio.common import RawValue

from orchestrator import names
from orchestrator.activities.beating import heartbeats
from orchestrator.activities.failing import as_temporal_errors
from orchestrator.decision import Decision
from orchestrator.payloads import read_request
from orchestrator.resources import Resources
from orchestrator.route_requests import RouteRequest


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
