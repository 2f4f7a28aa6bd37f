"""The keys of calls: the same for an accidental repetition, and different for an intended one."""

import asyncio
from typing import Any
from uuid import uuid4

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle

from orchestrator import Executor, ToolCall, ToolResult
from tests.my_workflow import Again
from tests.runner import Serve
from tests.running import plugin_over


class Keeping(Executor):
    """Answers at once and keeps the keys of its calls."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def execute(self, call: ToolCall) -> ToolResult:
        self.keys.append(call.idempotency_key)
        return ToolResult(text=call.tool.name)


async def _reset(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    """Everything again from the first task on."""
    reset = ResetWorkflowExecutionRequest(
        namespace="default",
        workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=handle.first_execution_run_id or ""),
        workflow_task_finish_event_id=4,
        request_id=uuid4().hex,
        reason="a test: everything again",
    )
    await client.workflow_service.reset_workflow_execution(reset)


async def test_what_a_workflow_does_again_on_purpose_has_other_keys(serve: Serve) -> None:
    keeping = Keeping()
    runner = await serve(plugin_over(executors={"builtin": keeping}), Again)
    handle = await runner.begin(Again, "Read the file a.txt", 2)
    await asyncio.wait_for(handle.result(), 150)
    assert len(set(keeping.keys)) == len(keeping.keys) == 8
    assert all(key.startswith(f"{handle.id}:") for key in keeping.keys)
    first = list(keeping.keys[:4])
    await _reset(runner.client, handle)
    await asyncio.wait_for(runner.client.get_workflow_handle(handle.id).result(), 150)
    assert keeping.keys[8:12] == first


async def test_a_reset_repeats_the_keys_and_another_run_does_not(serve: Serve) -> None:
    keeping, task = Keeping(), "Read the file a.txt and then add a note titled 'x'"
    runner = await serve(plugin_over(executors={"builtin": keeping}))
    result, handle = await runner.run(task)
    first = list(keeping.keys)
    assert first == [f"{handle.id}:{result.plan.id}:{step}" for step in ("s1", "s2")]
    await _reset(runner.client, handle)
    await asyncio.wait_for(runner.client.get_workflow_handle(handle.id).result(), 150)
    assert keeping.keys == first + first
    other, _ = await runner.run(task)
    assert other.plan.id != result.plan.id
