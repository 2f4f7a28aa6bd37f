"""The Nexus service `toolroute`: workflows of other namespaces find, plan and call through an endpoint.

toolroute = workflow.create_nexus_client(service=ToolrouteService, endpoint="toolroute")
request = RouteRequest(query="refund the customer", tenant="org:acme")
decision = await toolroute.execute_operation(ToolrouteService.find, request)

Deterministic: this is the contract alone. `OrchestratorPlugin(nexus=...)` has a worker serve it.
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
        find: Returns the Decision for a task. The worker answers it at once, without a workflow of its own.
        plan: Returns steps bound to a Decision's matches. It is carried out by the workflow `toolroute.plan`.
        call: Calls one of the tenant's tools, as the worker's catalogue defines it. It is carried out by the workflow
            `toolroute.call_tool`, so that a call that may not be repeated is sent once. Equal `idempotency_key`s of a
            tenant make one call.
    """

    find: nexusrpc.Operation[RouteRequest, Decision] = nexusrpc.Operation(name=names.NEXUS_FIND)
    plan: nexusrpc.Operation[PlanRequest, Plan] = nexusrpc.Operation(name=names.NEXUS_PLAN)
    call: nexusrpc.Operation[ToolCall, ToolResult] = nexusrpc.Operation(name=names.NEXUS_CALL)
