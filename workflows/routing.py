"""The workflows `toolroute.route` and `toolroute.route_staged`: for clients, in any language, that want a Decision."""

from dataclasses import dataclass
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from orchestrator.records import durable_names as names
from orchestrator.temporal.call import Config, fair
from orchestrator.temporal.payload import NOTHING, read
from orchestrator.temporal.staged import route_staged
from orchestrator.temporal.stubs import DEFAULT


@workflow.defn(name=names.ROUTE)
class RouteWorkflow:
    """RouteRequest -> Decision, both handed through unread: reading them here would double the cost of the workflow."""

    @workflow.run
    async def run(self, request: RawValue = NOTHING) -> RawValue:
        config = fair(tenant_of(request), DEFAULT)
        decision: RawValue = await workflow.execute_activity(names.ROUTE, request, result_type=RawValue, **config)
        return decision


@workflow.defn(name=names.ROUTE_STAGED)
class StagedRouteWorkflow:
    """RouteRequest -> Decision with an activity for each stage. The semantic stage can have its own task queue."""

    @workflow.run
    async def run(self, request: RawValue = NOTHING, semantic_queue: str = "") -> RawValue:
        config = fair(tenant_of(request), DEFAULT)
        return await route_staged(request, config, Config(task_queue=semantic_queue) if semantic_queue else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owned:
    tenant: str = ""
    decision: "_Owned | None" = None


def tenant_of(request: RawValue | Any) -> str:
    """Return the tenant of a request or of its Decision, without reading the rest.

    It is "" if it cannot be read. The activity reports that.

    Temporal's SDK gives a workflow plain values without their types if it is started with fewer arguments than it has.
    """
    if isinstance(request, RawValue):
        try:
            found = read(request, _Owned)
            return found.tenant or (found.decision.tenant if found.decision else "")
        except ValueError:
            return ""
    tenant = request.get("tenant") if isinstance(request, dict) else ""
    return tenant if isinstance(tenant, str) else ""
