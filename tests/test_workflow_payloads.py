"""What is too large: a result is cut and marked, all else is a clear error; nothing is stuck or terminated."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from orchestrator import names
from orchestrator.decision import Decision
from orchestrator.durable import why_failed
from orchestrator.held import MAX_RESULTS_BYTES
from orchestrator.models import RouteRequest, Turn
from orchestrator.plans import RunRequest, RunResult
from orchestrator.workflows.execution import RunWorkflow
from tests.running import TENANT, Desk, plugin_over
from tests.temporal import replays, working

SIDE_BY_SIDE = " and ".join(f"read the file {letter}.txt" for letter in "abcdefghijkl")
ONE_BY_ONE = SIDE_BY_SIDE.replace(" and ", ", then ")


async def start(client: Client, task_queue: str, request: RunRequest) -> WorkflowHandle[Any, RunResult]:
    return await client.start_workflow(names.RUN, request, id=uuid4().hex, task_queue=task_queue, result_type=RunResult)


async def read_blanks(path: str) -> dict[str, str]:
    return {"text": " " * 180_000, "path": path}


async def read_lines(path: str) -> str:
    return "\n" * 3_000_000


@pytest.mark.parametrize("read_file", [read_blanks, read_lines])
@pytest.mark.parametrize(("task", "steps_per_run"), [(SIDE_BY_SIDE, None), (ONE_BY_ONE, 11)])
async def test_many_large_results_are_cut_to_what_one_payload_holds(
    temporal_address: str, task_queue: str, read_file: Callable[..., Any], task: str, steps_per_run: int | None
) -> None:
    """Blanks cost few tokens, so that no token limit cuts them."""
    plugin = plugin_over(executors={"files:read_file": read_file})
    client = await Client.connect(temporal_address, plugins=[plugin])
    async with working(client, task_queue):
        request = RunRequest(task=task, tenant=TENANT, steps_per_run=steps_per_run)
        handle = await start(client, task_queue, request)
        result = await asyncio.wait_for(handle.result(), 60)
        await replays(await handle.fetch_history(), [RunWorkflow])
    assert [step.status for step in result.steps] == ["done"] * 12
    told = [step.result for step in result.steps if step.result]
    assert all(one.truncated for one in told)
    assert sum(len(one.text) for one in told) <= MAX_RESULTS_BYTES
    assert len(result.answer) <= 8 * request.limits.reserve_for_synthesis + 100 * len(told)


LARGE = "x" * 600_000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"task": "Read the file", "arguments": {"path": LARGE}}, "arguments takes 600,"),
        ({"task": "Read the file", "conversation": (Turn(text=2 * LARGE),)}, "conversation takes"),
        ({"task": "读" * 90_000}, "the task takes 540,002 bytes"),
        ({"task": LARGE}, "the task takes 600,002 bytes"),
    ],
    ids=["arguments", "conversation", "a task of wide letters", "a task"],
)
async def test_what_a_history_cannot_hold_fails_the_run_at_once(
    temporal_address: str, task_queue: str, given: dict[str, Any], said: str
) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over(Desk())])
    async with working(client, task_queue):
        handle = await start(client, task_queue, RunRequest(tenant=TENANT, **given))
        with pytest.raises(WorkflowFailureError) as failure:
            await asyncio.wait_for(handle.result(), 30)
    kind, message = why_failed(failure.value.cause)
    assert kind == "PayloadTooLarge"
    assert said in message


async def test_arguments_that_many_steps_share_are_counted_for_each(temporal_address: str, task_queue: str) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over(Desk())])
    task = "Read the file and delete the file"
    async with working(client, task_queue):
        handle = await start(
            client, task_queue, RunRequest(task=task, tenant=TENANT, arguments={"path": "x" * 300_000})
        )
        with pytest.raises(WorkflowFailureError) as failure:
            await asyncio.wait_for(handle.result(), 30)
    assert "what the plan's steps are given as arguments takes 600," in why_failed(failure.value.cause)[1]


async def test_a_query_beyond_a_payload_is_no_query(temporal_address: str, task_queue: str) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over(Desk())])
    async with working(client, task_queue):
        with pytest.raises(WorkflowFailureError) as failure:
            await client.execute_workflow(
                names.ROUTE,
                RouteRequest(query=2 * LARGE, tenant=TENANT),
                id=uuid4().hex,
                task_queue=task_queue,
                result_type=Decision,
            )
    assert "at most 100,000" in why_failed(failure.value.cause)[1]
