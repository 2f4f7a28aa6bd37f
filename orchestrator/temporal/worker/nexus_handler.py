"""The worker's side of the Nexus service. `find` runs in the handler, and `plan` and `call` each start a workflow."""

from collections.abc import Collection
from typing import NoReturn

from nexusrpc import HandlerError, HandlerErrorType, OperationError, OperationErrorState
from nexusrpc.handler import StartOperationContext, service_handler, sync_operation
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.nexus import WorkflowHandle, WorkflowRunOperationContext, workflow_run_operation

from orchestrator.common.digests import digest
from orchestrator.errors import OutcomeUnknown, ToolrouteError, UnknownTenant
from orchestrator.records import durable_names as names
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.request import RouteRequest
from orchestrator.temporal.worker.resources import Resources
from orchestrator.temporal.workflow.nexus import ToolrouteService


@service_handler(service=ToolrouteService)
class ToolrouteHandler:
    """Serves the operations with a worker's resources, only for these tenants. None: for all tenants."""

    def __init__(self, resources: Resources, tenants: Collection[str] | None) -> None:
        self._resources = resources
        self._tenants = tenants

    @sync_operation
    async def find(self, _: StartOperationContext, request: RouteRequest) -> Decision:
        self._check(request.tenant)
        try:
            request.validate()
            router = await self._resources.router_awaiting_listing(request.tenant)
            return await self._resources.limited(await router.route(request))
        except ToolrouteError as error:
            _fail(error)

    @workflow_run_operation
    async def plan(
        self, ctx: WorkflowRunOperationContext, request: PlanRequest
    ) -> WorkflowHandle[Plan]:
        self._check(request.decision.tenant)
        return await ctx.start_workflow(
            names.PLAN, request, id=f"{names.PLAN}-{ctx.request_id}", result_type=Plan
        )

    @workflow_run_operation
    async def call(
        self, ctx: WorkflowRunOperationContext, call: ToolCall
    ) -> WorkflowHandle[ToolResult]:
        self._check(call.tenant)
        try:
            call = await self._resources.of_catalogue(call)
        except ToolrouteError as error:
            _fail(error)
        key = (
            digest(f"{call.tenant}\0{call.idempotency_key}", 32)
            if call.idempotency_key
            else ctx.request_id
        )
        name = f"{names.CALL_TOOL}-{key}"
        try:
            return await ctx.start_workflow(
                names.CALL_TOOL,
                call,
                id=name,
                result_type=ToolResult,
                # A repeated operation gets the call that runs. A call that has ended is not made again.
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                static_summary=call.tool.key[:200],
            )
        except WorkflowAlreadyStartedError:
            ended = f"a call with idempotency_key={call.idempotency_key!r} has already ended (workflow {name!r})"
            _fail(OutcomeUnknown(f"{call.tool.key}: {ended}; give a new call a new key"))

    def _check(self, tenant: str) -> None:
        """Refuse a tenant that this worker does not serve to other namespaces."""
        if self._tenants is not None and tenant not in self._tenants:
            _fail(
                UnknownTenant(
                    f"tenant {tenant!r} is not served through Nexus: add it to the plugin's `nexus`"
                )
            )


def _fail(error: ToolrouteError) -> NoReturn:
    """Raise the error in Nexus' form: the caller's namespace repeats the operation, or the operation fails."""
    if error.retry:
        raise HandlerError(f"{type(error).__name__}: {error}", type=HandlerErrorType.UNAVAILABLE)
    cause = ApplicationError(str(error), type=type(error).__name__, non_retryable=True)
    raise OperationError(str(error), state=OperationErrorState.FAILED) from cause
