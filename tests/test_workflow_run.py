"""A run from its task to its answer, on a real Temporal server."""

import asyncio
import json
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHistory
from temporalio.exceptions import ApplicationError, CancelledError

from orchestrator.records import durable_names as names
from orchestrator.records.budget import Limits
from orchestrator.records.run import Progress, RunRequest, StepStatus
from orchestrator.workflows.execution import RunWorkflow
from orchestrator.workflows.routing import RouteWorkflow
from tests.my_workflow import Assistant
from tests.runner import Runner, statuses
from tests.running import TENANT
from tests.temporal import activities_of, replays, until

ROUTE, PLAN, CALL = names.ROUTE, names.PLAN, names.CALL_TOOL


async def test_a_task_is_routed_planned_and_carried_out_on_a_real_server(runner: Runner) -> None:
    result, handle = await runner.run("What is the current time in Europe/Berlin?")
    assert result.plan.steps[0].tool == "time:get_current_time" == result.decision.recommended[0]
    assert statuses(result) == ["done"]
    assert json.loads(result.answer)["timezone"] == "Europe/Berlin"
    assert result.budget.settled == result.steps[0].tokens > 0
    assert result.budget.reserved == 0
    assert await activities_of(handle) == [ROUTE, PLAN, CALL]


async def test_steps_follow_one_another_from_one_search(runner: Runner) -> None:
    result, handle = await runner.run('Read the file a.txt and then add a note titled "A"')
    assert statuses(result) == ["done", "done"]
    assert runner.desk.calls == [("read_file", {"path": "a.txt"}), ("add_note", {"title": "A", "body": ""})]
    assert await activities_of(handle) == [ROUTE, PLAN, CALL, CALL]


async def test_a_run_may_ask_for_a_coverage_instead_of_a_number_of_tools(runner: Runner) -> None:
    task = "What is the current time in Europe/Berlin?"
    result, _ = await runner.run(task, coverage=0.5)
    assert result.decision.coverage == 0.5
    assert len(result.decision.matches) < len((await runner.run(task))[0].decision.matches)
    assert statuses(result) == ["done"]


async def test_independent_steps_run_side_by_side_and_the_progress_shows_them(runner: Runner) -> None:
    runner.desk.release.clear()
    handle = await runner.start("Read the file a.txt and read the file b.txt")
    await until(handle, "s1", StepStatus.RUNNING)
    progress = await until(handle, "s2", StepStatus.RUNNING)
    assert progress.phase == "running"
    assert progress.budget.reserved > 0
    await runner.desk.reached(2)
    runner.desk.release.set()
    assert statuses(await handle.result()) == ["done", "done"]
    assert runner.desk.most_under_way == 2
    await replays(await handle.fetch_history(), [RunWorkflow])


async def test_no_more_steps_than_asked_for_run_at_a_time(runner: Runner) -> None:
    result, _ = await runner.run("Read the file a.txt, read the file b.txt and read the file c.txt", parallel_steps=2)
    assert statuses(result) == ["done", "done", "done"]
    assert runner.desk.most_under_way == 2


async def test_a_missing_argument_ends_in_needs_input_and_what_follows_is_skipped(runner: Runner) -> None:
    result, handle = await runner.run("Read the file, then add a note titled 'x'")
    assert statuses(result) == ["needs_input", "skipped"]
    assert "s1.path" in result.steps[0].reason
    assert runner.desk.calls == []
    assert await activities_of(handle) == [ROUTE, PLAN]


async def test_arguments_of_the_user_fill_what_is_missing(runner: Runner) -> None:
    result, _ = await runner.run("Read the file", arguments={"path": "given.txt"})
    assert statuses(result) == ["done"]
    assert runner.desk.calls == [("read_file", {"path": "given.txt"})]


async def test_nothing_good_enough_calls_nothing(runner: Runner) -> None:
    result, handle = await runner.run("zzqx vrrm plonk")
    assert result.steps == ()
    assert "nothing is called" in result.answer
    assert await activities_of(handle) == [ROUTE, PLAN]


async def test_a_step_outside_the_matches_causes_one_further_route(runner: Runner) -> None:
    result, handle = await runner.run("Read the file a.txt, then serenade the moon, then whistle at dawn")
    assert await activities_of(handle) == [ROUTE, PLAN, ROUTE, PLAN, CALL]
    assert len(result.extra_routes) == 1
    assert statuses(result) == ["done", "failed", "skipped"]
    assert "no tool of the catalogue fits" in result.steps[1].reason


async def test_a_refused_step_says_which_and_why(runner: Runner) -> None:
    limits = Limits(max_total_tokens=24_100, reserve_for_synthesis=4_000)
    result, _ = await runner.run("Read the file a.txt and read the file b.txt", limits=limits, parallel_steps=1)
    assert set(statuses(result)) == {"done"}  # each used little, so the second fits after the first has settled
    limits = Limits(max_total_tokens=12_000)
    result, _ = await runner.run("Read the file a.txt", limits=limits)
    assert statuses(result) == ["refused"]
    assert result.steps[0].reason.startswith("budget: step s1")
    assert result.budget.warnings


async def test_a_large_result_is_held_to_the_allowance_and_marked(runner: Runner) -> None:
    runner.desk.padding = "word " * 600_000
    result, _ = await runner.run("Read the file a.txt")
    assert statuses(result) == ["done"]
    told = result.steps[0].result
    assert told is not None
    assert told.truncated
    assert "left out" in told.text
    assert result.steps[0].tokens <= result.plan.steps[0].expected_tokens
    assert len(result.answer) < len(told.text)
    assert result.budget.warnings == ()


async def test_a_lost_tool_ends_as_a_failed_step(runner: Runner) -> None:
    result, _ = await runner.run("What is the current time in Nowhere/Land?", arguments={"timezone": "Nowhere/Land"})
    assert statuses(result) == ["failed"]
    assert "Nowhere/Land" in result.steps[0].reason


async def test_cancelling_stops_in_mid_step_and_tells_what_was_not_done(runner: Runner) -> None:
    runner.desk.release.clear()
    handle = await runner.start("Read the file a.txt, then read the file b.txt")
    await until(handle, "s1", StepStatus.RUNNING)
    await runner.desk.reached(1)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 30)
    assert isinstance(failure.value.cause, CancelledError)
    assert runner.desk.under_way == 0  # the call itself was stopped, not only given up
    progress = await handle.query(names.PROGRESS, result_type=Progress)
    assert [step.status for step in progress.steps] == [StepStatus.CANCELLED, StepStatus.CANCELLED]
    assert progress.budget.reserved == 0
    await replays(await handle.fetch_history(), [RunWorkflow])


async def test_a_cancelled_run_waits_until_each_call_has_stopped(runner: Runner) -> None:
    runner.desk.release.clear()
    runner.desk.lingers["b.txt"] = 1.0
    handle = await runner.start("Read the file a.txt and read the file b.txt")
    await runner.desk.reached(2)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(handle.result(), 30)
    assert runner.desk.under_way == 0
    progress = await handle.query(names.PROGRESS, result_type=Progress)
    assert progress.phase == "done"
    assert [step.reason for step in progress.steps] == ["cancelled while it ran"] * 2
    await replays(await handle.fetch_history(), [RunWorkflow])


async def test_a_run_continues_as_new_and_calls_nothing_twice(runner: Runner) -> None:
    handle = await runner.start(
        "Read the file a.txt, then read the file b.txt, then read the file c.txt", steps_per_run=1
    )
    result = await asyncio.wait_for(handle.result(), 60)
    assert statuses(result) == ["done", "done", "done"]
    assert [arguments["path"] for _, arguments in runner.desk.calls] == ["a.txt", "b.txt", "c.txt"]
    assert result.budget.settled == sum(step.tokens for step in result.steps)
    executions = [found async for found in runner.client.list_workflows(f"WorkflowId='{handle.id}'")]
    assert len(executions) == 3
    for found in executions:
        history = await runner.client.get_workflow_handle(handle.id, run_id=found.run_id).fetch_history()
        await replays(history, [RunWorkflow])


async def test_destructive_tools_wait_for_an_approval(runner: Runner) -> None:
    task = "Delete the file a.txt and delete the file b.txt"
    handle = await runner.start(task, approve_destructive=True)
    await until(handle, "s1", StepStatus.NEEDS_APPROVAL)
    await until(handle, "s2", StepStatus.NEEDS_APPROVAL)
    assert runner.desk.calls == []
    await handle.signal(names.APPROVE, "s1")
    await handle.signal(names.REJECT, "s2")
    result = await asyncio.wait_for(handle.result(), 60)
    assert statuses(result) == ["done", "refused"]
    assert runner.desk.calls == [("delete_file", {"path": "a.txt"})]
    await replays(await handle.fetch_history(), [RunWorkflow])


async def test_an_approval_that_never_comes_ends_the_step(runner: Runner) -> None:
    result, _ = await runner.run("Delete the file a.txt", approve_destructive=True, approval_timeout_s=0.5)
    assert statuses(result) == ["needs_approval"]
    assert runner.desk.calls == []


@pytest.mark.parametrize(
    ("asked", "kind", "told"),
    [
        (RunRequest(task="read a.txt"), "UnknownTenant", "no tenant"),
        (RunRequest(task="read a.txt", tenant="acme"), "UnknownTenant", "'acme'"),
        (RunRequest(task=" ", tenant=TENANT), "InvalidInput", "task is empty"),
        (RunRequest(task="read a.txt", tenant=TENANT, limit=99), "InvalidInput", "limit=99"),
        (RunRequest(task="read a.txt", tenant=TENANT, coverage=2.0), "InvalidInput", "coverage=2.0"),
    ],
)
async def test_what_no_run_can_be_made_of_fails_before_any_activity(
    runner: Runner, asked: RunRequest, kind: str, told: str
) -> None:
    with pytest.raises(WorkflowFailureError) as failure:
        await runner.client.execute_workflow(
            names.RUN, asked, id=f"run-{uuid4().hex[:8]}", task_queue=runner.task_queue
        )
    assert isinstance(failure.value.cause, ApplicationError)
    assert failure.value.cause.type == kind
    assert told in str(failure.value.cause)


async def test_settings_out_of_range_fail_the_run_at_once(runner: Runner) -> None:
    handle = await runner.start("read a.txt", parallel_steps=0)
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 30)
    assert "parallel_steps=0" in str(failure.value.cause)


STORED = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "histories").glob("*.json"))}


@pytest.mark.parametrize("name", STORED)
async def test_stored_histories_still_replay(name: str) -> None:
    """Recorded by `python -m tests.record_histories`; one that fails means that running workflows would break."""
    run_by = f"recorded-{name.partition('-')[2].removesuffix('-end')}"  # it is part of a child workflow's id
    await replays(WorkflowHistory.from_json(run_by, STORED[name]), [RunWorkflow, RouteWorkflow, Assistant])
