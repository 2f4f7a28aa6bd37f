"""What is too large: a result is cut and marked, all else is a clear error; nothing is stuck or terminated."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from orchestrator.records import durable_names as names
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest, Turn
from orchestrator.records.run import RunRequest, RunResult, StepStatus
from orchestrator.temporal.call import why_failed
from orchestrator.temporal.executors import Executor
from orchestrator.temporal.held import MAX_RESULTS_BYTES
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


def fail_at_length(path: str) -> str:
    raise ValueError(3_000_000 * "x")


async def test_a_failure_of_any_length_is_told_at_once(temporal_address: str, task_queue: str) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over(executors={"builtin": Raising()})])
    async with working(client, task_queue):
        handle = await start(client, task_queue, RunRequest(task="Delete the file a.txt", tenant=TENANT))
        own = await asyncio.wait_for(handle.result(), 30)
    client = await Client.connect(
        temporal_address, plugins=[plugin_over(executors={"files:read_file": fail_at_length})]
    )
    async with working(client, task_queue):
        handle = await start(client, task_queue, RunRequest(task="Read the file a.txt", tenant=TENANT))
        functions = await asyncio.wait_for(handle.result(), 30)
        assert len((await handle.fetch_history()).to_json()) < 100_000
    assert functions.steps[0].status is StepStatus.FAILED
    assert functions.steps[0].reason.startswith("ToolFailed: files:read_file: ValueError: xxx")
    assert own.steps[0].status is StepStatus.OUTCOME_UNKNOWN  # an Executor of one's own broke in an unknown way
    assert "OSError: xxx" in own.steps[0].reason


class Raising(Executor):
    """An Executor of the user's own that breaks with much to say."""

    async def execute(self, call: ToolCall) -> ToolResult:
        raise OSError(5_000_000 * "x")


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("answer", "structured"),
    [
        ({"text": "a cut emoji \ud83d"}, {"text": "a cut emoji \ufffd"}),
        ({"mean": float("nan")}, {"mean": None}),
        (nested(301), nested(301)),
        (nested(320), nested(320)),
        (nested(321), None),
        (nested(600), None),
    ],
    ids=["half a character", "no number", "deep", "as deep as can be", "deeper", "deeper than the SDK writes"],
)
async def test_what_strict_readers_of_json_refuse_leaves_no_run_stuck(
    temporal_address: str, task_queue: str, answer: Any, structured: Any
) -> None:
    plugin = plugin_over(executors={"files:read_file": lambda path: answer})
    client = await Client.connect(temporal_address, plugins=[plugin])
    async with working(client, task_queue):
        task = "Read the file a.txt, then read the file b.txt"
        handle = await start(client, task_queue, RunRequest(task=task, tenant=TENANT, steps_per_run=1))
        result = await asyncio.wait_for(handle.result(), 30)
    assert [step.status for step in result.steps] == ["done", "done"]
    assert [step.result and step.result.structured for step in result.steps] == [structured] * 2


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
