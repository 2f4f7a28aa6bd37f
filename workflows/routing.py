"""The workflow `toolroute.route`: for clients, in any language, that only want a Decision."""

from temporalio import workflow
from temporalio.common import RawValue

from orchestrator.records import durable_names as names
from orchestrator.temporal.payload import NOTHING
from orchestrator.temporal.workflow import DEFAULT


@workflow.defn(name=names.ROUTE)
class RouteWorkflow:
    """RouteRequest -> Decision, both handed through unread: reading them here would double the cost of the workflow."""

    @workflow.run
    async def run(self, request: RawValue = NOTHING) -> RawValue:
        decision: RawValue = await workflow.execute_activity(names.ROUTE, request, result_type=RawValue, **DEFAULT)
        return decision
