"""The workflows `toolroute.route` and `toolroute.route_staged`: for clients, in any language, that want a Decision."""

from temporalio import workflow
from temporalio.common import RawValue

from orchestrator.records import durable_names as names
from orchestrator.temporal.call import Config
from orchestrator.temporal.payload import NOTHING
from orchestrator.temporal.staged import route_staged
from orchestrator.temporal.stubs import DEFAULT


@workflow.defn(name=names.ROUTE)
class RouteWorkflow:
    """RouteRequest -> Decision, both handed through unread: reading them here would double the cost of the workflow."""

    @workflow.run
    async def run(self, request: RawValue = NOTHING) -> RawValue:
        decision: RawValue = await workflow.execute_activity(names.ROUTE, request, result_type=RawValue, **DEFAULT)
        return decision


@workflow.defn(name=names.ROUTE_STAGED)
class StagedRouteWorkflow:
    """RouteRequest -> Decision by an activity for each stage, the semantic one on a task queue of its own if named."""

    @workflow.run
    async def run(self, request: RawValue = NOTHING, semantic_queue: str = "") -> RawValue:
        return await route_staged(request, DEFAULT, Config(task_queue=semantic_queue) if semantic_queue else {})
