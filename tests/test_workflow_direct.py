"""The activities alone, by the names that the documentation gives, as Temporal retries them by default."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError

from orchestrator.errors import ServerUnavailable
from orchestrator.records.call import ToolCall
from orchestrator.temporal.call import why_failed
from tests.decisions import ADD_NOTE, READ
from tests.my_workflow import Direct
from tests.running import TENANT, plugin_over
from tests.temporal import working


class Failing:
    """A tool that fails three times in one way, and then answers."""

    def __init__(self, error: Exception | None) -> None:
        self.error, self.calls = error, 0

    async def __call__(self, call: ToolCall) -> str:
        self.calls += 1
        if self.calls > 3:
            return "done"
        if self.error is None:
            await asyncio.sleep(4)
            return "late"
        raise self.error


@pytest.mark.parametrize(
    ("error", "kind"), [(None, "OutcomeUnknown"), (ServerUnavailable("not there"), "ServerUnavailable")]
)
async def test_what_may_not_be_called_again_is_sent_once(
    temporal_address: str, task_queue: str, error: Exception | None, kind: str
) -> None:
    tool = Failing(error)
    call = ToolCall(tenant=TENANT, tool=ADD_NOTE, arguments={"title": "x"})
    with pytest.raises(WorkflowFailureError) as failure:
        await _directly(temporal_address, task_queue, tool, call)
    assert why_failed(failure.value.cause or failure.value)[0] == kind
    assert tool.calls == 1


async def test_what_may_be_called_again_is(temporal_address: str, task_queue: str) -> None:
    tool = Failing(ServerUnavailable("not there"))
    call = ToolCall(tenant=TENANT, tool=READ, arguments={"path": "a.txt"})
    assert await _directly(temporal_address, task_queue, tool, call) == "done"


async def _directly(address: str, task_queue: str, tool: Failing, call: ToolCall) -> Any:
    client = await Client.connect(address, plugins=[plugin_over(executors={"builtin": tool})])
    async with working(client, task_queue, workflows=[Direct]):
        handle = await client.start_workflow(
            Direct.run, args=[call, 2.0], id=f"mine-{uuid4().hex[:8]}", task_queue=task_queue
        )
        return await asyncio.wait_for(handle.result(), 40)
