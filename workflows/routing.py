"""The workflows `toolroute.route` and `toolroute.route_staged`, for clients in any language that need a Decision."""

from dataclasses import dataclass
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from orchestrator.records import durable_names as names
from orchestrator.temporal.workflow.call import ActivityConfig, fair
from orchestrator.temporal.workflow.payload import NOTHING, read
from orchestrator.temporal.workflow.staged import route_staged
from orchestrator.temporal.workflow.stubs import DEFAULT


@workflow.defn(name=names.ROUTE)
class RouteWorkflow:
    """RouteRequest -> Decision.

    Both are passed through unread, because reading them would double the cost of the workflow.
    """

    @workflow.run
    async def run(self, request: RawValue = NOTHING) -> RawValue:
        config = fair(tenant_of(request), DEFAULT)
        decision: RawValue = await workflow.execute_activity(
            names.ROUTE, request, result_type=RawValue, **config
        )
        return decision


@workflow.defn(name=names.ROUTE_STAGED)
class StagedRouteWorkflow:
    """RouteRequest -> Decision, with an activity for each stage. The semantic stage may have its own task queue."""

    @workflow.run
    async def run(self, request: RawValue = NOTHING, semantic_queue: str = "") -> RawValue:
        config = fair(tenant_of(request), DEFAULT)
        return await route_staged(
            request, config, ActivityConfig(task_queue=semantic_queue) if semantic_queue else {}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owned:
    tenant: str = ""
    decision: "_Owned | None" = None


def tenant_of(request: RawValue | Any) -> str:
    """Return the tenant of a request or of its Decision. The other fields are not read.

    It is "" if the tenant cannot be read. The activity then reports the error. If a workflow is started with fewer
    arguments than it has, Temporal's SDK gives it plain values without their types.
    """
    if isinstance(request, RawValue):
        try:
            owned = read(request, _Owned)
            return owned.tenant or (owned.decision.tenant if owned.decision else "")
        except ValueError:
            return ""
    tenant = request.get("tenant") if isinstance(request, dict) else ""
    return tenant if isinstance(tenant, str) else ""
