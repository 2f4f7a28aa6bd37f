"""A workflow of another namespace uses toolroute's Nexus service. `python -m examples.nexus` starts its own server.

The namespace `desk` has no catalogue, no store and no server's key: it knows the name of an endpoint.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

from google.protobuf.duration_pb2 import Duration
from temporalio import workflow
from temporalio.api.nexus.v1 import EndpointSpec, EndpointTarget
from temporalio.api.operatorservice.v1 import CreateNexusEndpointRequest, DeleteNexusEndpointRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.worker import Worker

from examples.functions import FUNCTIONS
from orchestrator import (
    Catalogue,
    OrchestratorPlugin,
    PlanRequest,
    RouteRequest,
    ToolCall,
    ToolrouteService,
)
from orchestrator.testing import dev_server

WITHIN = timedelta(minutes=1)


@workflow.defn
class Desk:
    """Finds the tools for a task, plans with them, and calls the first step's."""

    @workflow.run
    async def run(self, endpoint: str, tenant: str, task: str) -> str:
        toolroute = workflow.create_nexus_client(service=ToolrouteService, endpoint=endpoint)
        request = RouteRequest(query=task, tenant=tenant)
        decision = await toolroute.execute_operation(
            ToolrouteService.find, request, schedule_to_close_timeout=WITHIN
        )
        planned = PlanRequest(decision=decision)
        plan = await toolroute.execute_operation(
            ToolrouteService.plan, planned, schedule_to_close_timeout=WITHIN
        )
        if not plan.steps or plan.steps[0].missing:
            return f"not clear enough: {'; '.join(plan.reasons)}"
        step = plan.steps[0]
        tool = next(match.tool for match in decision.matches if match.tool.key == step.tool)
        call = ToolCall(tenant=tenant, tool=tool, arguments=step.arguments)
        result = await toolroute.execute_operation(
            ToolrouteService.call, call, schedule_to_close_timeout=WITHIN
        )
        return result.text


async def main(
    tenant: str = "org:acme", task: str = 'Look up the record of customer name "Ada"'
) -> None:
    tools = OrchestratorPlugin(catalogue=Catalogue.of(*FUNCTIONS), nexus=["org:acme"])
    # It lets toolroute's modules through the sandbox of workflows.
    no_tools = OrchestratorPlugin(register=False)
    async with dev_server() as address:
        owner = await Client.connect(address, plugins=[tools])
        desk = await Client.connect(
            address, namespace=await new_namespace(owner), plugins=[no_tools]
        )
        async with (
            Worker(owner, task_queue="toolroute"),
            Worker(desk, task_queue="desk", workflows=[Desk]),
            new_endpoint(owner, "toolroute") as endpoint,
        ):
            given = [endpoint, tenant, task]
            print(
                await desk.execute_workflow(
                    Desk.run, args=given, id=f"desk-{uuid4().hex[:8]}", task_queue="desk"
                )
            )


async def new_namespace(client: Client) -> str:
    """Like `temporal operator namespace create`."""
    name = f"desk-{uuid4().hex[:8]}"
    keeps = Duration(seconds=24 * 3600)
    request = RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=keeps)
    await client.workflow_service.register_namespace(request)
    return name


@asynccontextmanager
async def new_endpoint(client: Client, task_queue: str) -> AsyncIterator[str]:
    """Like `temporal operator nexus endpoint create`. Deletes the endpoint at the end."""
    target = EndpointTarget(
        worker=EndpointTarget.Worker(namespace=client.namespace, task_queue=task_queue)
    )
    spec = EndpointSpec(name=f"toolroute-{uuid4().hex[:8]}", target=target)
    made = (
        await client.operator_service.create_nexus_endpoint(CreateNexusEndpointRequest(spec=spec))
    ).endpoint
    try:
        yield spec.name
    finally:
        gone = DeleteNexusEndpointRequest(id=made.id, version=made.version)
        await client.operator_service.delete_nexus_endpoint(gone)


if __name__ == "__main__":
    asyncio.run(main())
