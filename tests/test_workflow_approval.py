"""What a person approves is what is called: a model's late arguments are there to be seen first."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner

from orchestrator.records import durable_names as names
from orchestrator.records.run import Progress, RunRequest, RunResult, StepStatus
from orchestrator.workflows.execution import RunWorkflow
from tests.my_workflow import Sharing
from tests.running import TENANT, Desk, plugin_over
from tests.temporal import activities_of, replays, until, working
from tests.test_workflow_model import CALL, COMPLETE, FILLED, PLAN, PLANNED, ROUTE, STEPS, assisted

REPLIES = [PLANNED, STEPS, FILLED, "It is noted."]
WHOLE = {"title": "A", "body": "it says so"}
ASKED = StepStatus.NEEDS_APPROVAL


async def test_a_step_asks_for_approval_with_the_arguments_that_a_model_filled(
    temporal_address: str, task_queue: str
) -> None:
    async with assisted(temporal_address, task_queue, REPLIES) as at:
        handle = await at.start(approve_destructive=True)
        progress = await until(handle, "s2", ASKED)
        assert [step.arguments for step in progress.steps] == [{}, WHOLE]
        assert progress.budget.reserved == 0  # a person may take a day
        assert await activities_of(handle) == [ROUTE, PLAN, CALL, COMPLETE]
        await handle.signal(names.APPROVE, "s2")
        result = await asyncio.wait_for(handle.result(), 60)
        assert await activities_of(handle) == [ROUTE, PLAN, CALL, COMPLETE, CALL, COMPLETE]
        await replays(await handle.fetch_history(), [RunWorkflow])
        over = await handle.query(names.PROGRESS, result_type=Progress)
    assert at.desk.calls[1] == ("add_note", WHOLE)
    assert result.steps[1].arguments == WHOLE
    assert [step.arguments for step in over.steps] == [{}, {}]


async def test_a_word_on_a_step_that_the_plan_does_not_have_is_told(temporal_address: str, task_queue: str) -> None:
    async with assisted(temporal_address, task_queue, REPLIES) as at:
        handle = await at.start(approve_destructive=True)
        await until(handle, "s2", ASKED)
        await handle.signal(names.APPROVE, "s3")
        await handle.signal(names.APPROVE, "s2")
        result = await asyncio.wait_for(handle.result(), 60)
        await replays(await handle.fetch_history(), [RunWorkflow])
    (warning,) = result.warnings
    assert warning == "approving or rejecting 's3' did nothing: the plan has no such step; its steps are s1, s2"


async def test_what_was_used_to_fill_is_settled_once(temporal_address: str, task_queue: str) -> None:
    totals = []
    for ask in (False, True):
        async with assisted(temporal_address, f"{task_queue}-{ask}", REPLIES) as at:
            handle = await at.start(approve_destructive=ask)
            if ask:
                await until(handle, "s2", ASKED)
                await handle.signal(names.APPROVE, "s2")
            result = await asyncio.wait_for(handle.result(), 60)
            totals.append(([step.tokens for step in result.steps], result.budget.settled))
    assert totals[0] == totals[1]


async def test_an_approval_before_there_was_anything_to_see_is_asked_for_again(
    temporal_address: str, task_queue: str
) -> None:
    async with assisted(temporal_address, task_queue, REPLIES) as at:
        handle = await at.start(approve_destructive=True, approval_timeout_s=1.0)
        await handle.signal(names.APPROVE, "s2")
        result = await asyncio.wait_for(handle.result(), 60)
        over = await handle.query(names.PROGRESS, result_type=Progress)
    assert [str(step.status) for step in result.steps] == ["done", "needs_approval"]
    assert [name for name, _ in at.desk.calls] == ["read_file"]
    assert over.steps[1].arguments == WHOLE
    assert result.steps[1].tokens > 0


@pytest.mark.parametrize(("word", "ends"), [(names.APPROVE, "needs_approval"), (names.REJECT, "refused")])
async def test_a_yes_before_there_was_a_plan_counts_for_nothing_and_a_no_stands(
    temporal_address: str, task_queue: str, word: str, ends: str
) -> None:
    """As one has it that was meant for an earlier run of the same id."""
    desk = Desk()
    client = await Client.connect(temporal_address, plugins=[plugin_over(desk)])
    async with working(client, task_queue):
        request = RunRequest(
            task="Delete the file a.txt", tenant=TENANT, approve_destructive=True, approval_timeout_s=1.0
        )
        handle = await client.start_workflow(
            names.RUN,
            request,
            id=f"run-{uuid4().hex[:8]}",
            task_queue=task_queue,
            result_type=RunResult,
            start_signal=word,
            start_signal_args=["s1"],
        )
        result = await asyncio.wait_for(handle.result(), 60)
        await replays(await handle.fetch_history(), [RunWorkflow])
    assert [str(step.status) for step in result.steps] == [ends]
    assert desk.calls == []


async def test_a_step_that_is_rejected_before_it_asks_is_not_filled(temporal_address: str, task_queue: str) -> None:
    async with assisted(temporal_address, task_queue, [PLANNED, STEPS, "Only read."]) as at:
        handle = await at.start(approve_destructive=True)
        await handle.signal(names.REJECT, "s2")
        result = await asyncio.wait_for(handle.result(), 60)
    assert [str(step.status) for step in result.steps] == ["done", "refused"]
    assert (at.model.left, len(at.model.asked)) == (0, 3)


async def test_a_step_whose_arguments_a_model_does_not_find_asks_nobody(temporal_address: str, task_queue: str) -> None:
    nowhere = {"arguments": "{}", "missing": ["body"], "why": "the file is empty"}
    async with assisted(temporal_address, task_queue, [PLANNED, STEPS, nowhere, "It lacks its body."]) as at:
        result, _ = await at.run(approve_destructive=True)
    assert [str(step.status) for step in result.steps] == ["done", "needs_input"]


@pytest.mark.parametrize("early", [True, False])
async def test_a_run_that_continues_as_new_calls_with_what_was_approved(
    early: bool, temporal_address: str, task_queue: str
) -> None:
    """`s3` ends the first execution while `s2` waits with its arguments, or with its approval, for the next one."""
    steps: dict[str, Any] = {"steps": [*STEPS["steps"], {**STEPS["steps"][0], "id": "s3", "depends_on": ["s1"]}]}
    async with assisted(temporal_address, task_queue, [PLANNED, steps, FILLED, "It is noted."]) as at:
        handle = await at.start(approve_destructive=True, steps_per_run=2, parallel_steps=1)
        if early:
            await handle.signal(names.APPROVE, "s2")
        await until(handle, "s3", StepStatus.DONE)
        assert (await until(handle, "s2", ASKED)).steps[1].arguments == WHOLE
        await handle.signal(names.APPROVE, "s2")
        result = await asyncio.wait_for(handle.result(), 60)
        latest = await at.client.get_workflow_handle(handle.id).describe()
    assert latest.run_id != handle.first_execution_run_id
    assert [str(step.status) for step in result.steps] == ["done", "done", "done"]
    assert at.desk.calls.count(("add_note", WHOLE)) == 1
    assert (at.model.left, len(at.model.asked)) == (0, 4)


async def test_the_time_for_an_approval_does_not_begin_anew_when_the_run_continues(
    temporal_address: str, task_queue: str
) -> None:
    read, note = STEPS["steps"]
    steps = {"steps": [{**note, "from_results": [], "depends_on": []}, *({**read, "id": f"s{n}"} for n in (1, 3))]}
    async with assisted(temporal_address, task_queue, [PLANNED, steps, "It is noted."]) as at:
        handle = await at.start(approve_destructive=True, steps_per_run=1, parallel_steps=1, approval_timeout_s=60.0)
        left_s = await _timer(at.client.get_workflow_handle(handle.id))
        await handle.signal(names.APPROVE, "s1")
        result = await asyncio.wait_for(handle.result(), 60)
    assert [str(step.status) for step in result.steps] == ["done", "done", "done"]
    assert 0 < left_s < 60


async def _timer(latest: WorkflowHandle[Any, Any]) -> float:
    """The seconds of the one timer that a workflow, or what it continued as, has set."""
    for _ in range(300):
        for event in (await latest.fetch_history()).events:
            if event.HasField("timer_started_event_attributes"):
                return event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta().total_seconds()
        await asyncio.sleep(0.1)
    raise AssertionError("no timer was set")


async def test_a_no_after_the_yes_counts_until_the_step_starts(temporal_address: str, task_queue: str) -> None:
    desk = Desk()
    desk.release.clear()
    client = await Client.connect(temporal_address, plugins=[plugin_over(desk)])
    async with working(client, task_queue):
        request = RunRequest(
            task="Read the file a.txt and delete the file b.txt",
            tenant=TENANT,
            approve_destructive=True,
            parallel_steps=1,
        )
        handle = await client.start_workflow(
            names.RUN, request, id=f"run-{uuid4().hex[:8]}", task_queue=task_queue, result_type=RunResult
        )
        await desk.reached(1)
        await handle.signal(names.APPROVE, "s2")
        await until(handle, "s2", StepStatus.WAITING)
        await handle.signal(names.REJECT, "s2")
        desk.release.set()
        result = await asyncio.wait_for(handle.result(), 60)
        await replays(await handle.fetch_history(), [RunWorkflow])
    assert [str(step.status) for step in result.steps] == ["done", "refused"]
    assert [name for name, _ in desk.calls] == ["read_file"]
    assert result.budget.reserved == 0


async def test_a_no_stands_though_a_yes_came_after_it_while_the_worker_was_away(
    temporal_address: str, task_queue: str
) -> None:
    desk = Desk()
    client = await Client.connect(temporal_address, plugins=[plugin_over(desk)])
    request = RunRequest(task="Delete the file a.txt", tenant=TENANT, approve_destructive=True)
    async with working(client, task_queue):
        handle = await client.start_workflow(
            names.RUN, request, id=f"run-{uuid4().hex[:8]}", task_queue=task_queue, result_type=RunResult
        )
        await until(handle, "s1", ASKED)
    await handle.signal(names.REJECT, "s1")
    await handle.signal(names.APPROVE, "s1")
    async with working(client, task_queue):
        result = await asyncio.wait_for(handle.result(), 60)
        await replays(await handle.fetch_history(), [RunWorkflow])
    assert [str(step.status) for step in result.steps] == ["refused"]
    assert desk.calls == []
    assert result.warnings == ("approving 's1' did nothing: it came after a rejection, which stands",)


async def test_a_word_given_to_one_workflow_is_no_word_in_another_that_shares_its_router(
    temporal_address: str, task_queue: str
) -> None:
    desk = Desk()
    client = await Client.connect(temporal_address, plugins=[plugin_over(desk)])
    kept = {"workflow_runner": UnsandboxedWorkflowRunner(), "max_cached_workflows": 10}
    async with working(client, task_queue, workflows=[Sharing], **kept):
        first, second = [
            await client.start_workflow(
                Sharing.run, f"Delete the file {name}.txt", id=f"mine-{uuid4().hex[:8]}", task_queue=task_queue
            )
            for name in "ab"
        ]
        await until(first, "s1", ASKED)
        await until(second, "s1", ASKED)
        await first.signal(Sharing.approve, "s1")
        assert await asyncio.wait_for(first.result(), 30) == ["done"]
        assert (await until(second, "s1", ASKED)).steps[0].arguments == {"path": "b.txt"}
        await second.cancel()
    assert desk.calls == [("delete_file", {"path": "a.txt"})]
