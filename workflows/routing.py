"""The workflow `toolroute.route`: for clients, in any language, that only want a Decision."""

from temporalio import workflow

from orchestrator import names
from orchestrator.decision import Decision
from orchestrator.models import RouteRequest
from orchestrator.workflow import ToolRouter


@workflow.defn(name=names.ROUTE)
class RouteWorkflow:
    """RouteRequest -> Decision."""

    @workflow.run
    async def run(self, request: RouteRequest) -> Decision:
        return await ToolRouter().route(request)
