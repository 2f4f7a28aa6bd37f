"""The contract of the Nexus service `toolroute`. Workflows of other namespaces find, plan and call through an endpoint.

    toolroute = workflow.create_nexus_client(service=ToolrouteService, endpoint="toolroute")
    request = RouteRequest(query="refund the customer", tenant="org:acme")
    decision = await toolroute.execute_operation(ToolrouteService.find, request)

This module is deterministic. A worker serves the operations with `OrchestratorPlugin(nexus=...)`.
"""

import nexusrpc

from orchestrator.records import durable_names as names
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.request import RouteRequest

__all__ = ["ToolrouteService"]


@nexusrpc.service(name=names.NEXUS_SERVICE)
class ToolrouteService:
    """The operations of the Nexus service, for `workflow.create_nexus_client`.

    Attributes:
        find: Returns the Decision for a task. The worker answers at once, without a workflow.
        plan: Returns steps bound to a Decision's matches. The workflow `toolroute.plan` makes them.
        call: Calls one of the tenant's tools, as the worker's catalogue defines it. The workflow `toolroute.call_tool`
            makes the call, so that a call that may not be repeated is sent once. Two calls of a tenant with the same
            `idempotency_key` are one call.

    Examples:
        >>> from temporalio import workflow
        >>> from orchestrator import Decision, RouteRequest, ToolrouteService
        >>> async def find_in_a_workflow(task: str) -> Decision:
        ...     toolroute = workflow.create_nexus_client(service=ToolrouteService, endpoint="toolroute")
        ...     request = RouteRequest(query=task, tenant="org:acme")
        ...     return await toolroute.execute_operation(ToolrouteService.find, request)
        >>> ToolrouteService.find.name
        'find'
    """

    find: nexusrpc.Operation[RouteRequest, Decision] = nexusrpc.Operation(name=names.NEXUS_FIND)
    plan: nexusrpc.Operation[PlanRequest, Plan] = nexusrpc.Operation(name=names.NEXUS_PLAN)
    call: nexusrpc.Operation[ToolCall, ToolResult] = nexusrpc.Operation(name=names.NEXUS_CALL)
