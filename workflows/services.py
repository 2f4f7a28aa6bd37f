"""The workflows behind the Nexus operations `plan` and `call`, and the workflow with which a schedule syncs tools."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from orchestrator.errors import ServerUnavailable
from orchestrator.records import durable_names as names
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.run import RunRequest
from orchestrator.temporal.workflow.call import (
    MODEL_RETRY,
    PATIENT,
    ActivityConfig,
    call_tool,
    fair,
    is_child,
)
from orchestrator.temporal.workflow.payload import NOTHING, read_input
from orchestrator.temporal.workflow.step import MAX_REASON
from orchestrator.temporal.workflow.stubs import MODEL_CALL, call_config
from orchestrator.workflows.routing import tenant_of

SYNCING = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=15),
    heartbeat_timeout=timedelta(seconds=30),
    retry_policy=MODEL_RETRY,
)
"""The options of a sync. A server may have to be installed first, which takes minutes."""


@workflow.defn(name=names.PLAN)
class PlanWorkflow:
    """PlanRequest -> Plan. Both are passed through unread."""

    @workflow.run
    async def run(self, request: RawValue = NOTHING) -> RawValue:
        config = fair(tenant_of(request), {**MODEL_CALL, "retry_policy": PATIENT})
        plan: RawValue = await workflow.execute_activity(
            names.PLAN, request, result_type=RawValue, **config
        )
        return plan


@workflow.defn(name=names.CALL_TOOL)
class CallWorkflow:
    """ToolCall -> ToolResult, with the timeouts and retries of a run.

    A call without a key gets a key from the workflow's id. So does a call of a tool that is a workflow, because its key
    becomes that workflow's id, which tenants must not share.
    """

    @workflow.run
    async def run(self, payload: RawValue = NOTHING) -> ToolResult:
        call = read_input(payload, ToolCall)
        if is_child(call.tool) or not call.idempotency_key:
            call = replace(call, idempotency_key=f"{workflow.info().workflow_id}:call")
        return await call_tool(call, call_config(RunRequest(task=call.tool.key)))


@workflow.defn(name=names.SYNC_CATALOGUE)
class SyncWorkflow:
    """SyncRequest -> a SyncReport's JSON.

    It lists a tenant's servers and stores their tools. It fails if no server answers.
    """

    @workflow.run
    async def run(self, request: RawValue = NOTHING) -> dict[str, Any]:
        report: dict[str, Any] = await workflow.execute_activity(
            names.SYNC_CATALOGUE, request, **fair(tenant_of(request), SYNCING)
        )
        servers = report["servers"]
        errors = [f"{row['server']}: {row['error']}" for row in servers if row["error"]]
        if errors and len(errors) == len(servers):
            raise ServerUnavailable(f"no server could be listed: {'; '.join(errors)}"[:MAX_REASON])
        return report
