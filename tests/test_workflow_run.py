"""A run from its task to its answer, on a real Temporal server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowFailureError, WorkflowHandle, WorkflowHistory
from temporalio.exceptions import CancelledError

from orchestrator import Decision, Limits, OrchestratorPlugin, Progress, RouteRequest, RunResult, StepStatus
from orchestrator.errors import ServerUnavailable
from orchestrator.workflows.execution import RunWorkflow
from orchestrator.workflows.routing import RouteWorkflow
from tests.my_workflow import Assistant, Direct
from tests.runner import Runner, Serve, statuses
from tests.running import SERVERS, TENANT, plugin_over
from tests.temporal import activities_of, replays, until_step

ROUTE, PLAN, CALL = "toolroute.route", "toolroute.plan", "toolroute.call_tool"


async def test_a_task_is_routed_planned_and_carried_out_on_a_real_server(runner: Runner) -> None:
    result, handle = await runner.run("What is the current time in Europe/Berlin?", approve="changes")
    assert result.plan.steps[0].tool == "time:get_current_time" == result.decision.recommended[0]
    assert statuses(result) == ["done"]
    assert json.loads(result.answer)["timezone"] == "Europe/Berlin"
    assert (result.budget.settled, result.budget.reserved) == (result.steps[0].tokens, 0)
    assert await activities_of(handle) == [ROUTE, PLAN, CALL]


async def test_steps_follow_one_another_from_one_search(runner: Runner) -> None:
    result, handle = await runner.run('Read the file a.txt and then add a note titled "A"')
    assert statuses(result) == ["done", "done"]
    assert runner.local.calls == [("read_file", {"path": "a.txt"}), ("add_note", {"title": "A", "body": ""})]
    assert await activities_of(handle) == [ROUTE, PLAN, CALL, CALL]


@pytest.mark.parametrize("most", [2, 8])
async def test_independent_steps_run_side_by_side_up_to_the_limit(runner: Runner, most: int) -> None:
    runner.local.release.clear()
    task = "Read the file a.txt and read the file b.txt and delete the file c.txt"
    handle = await runner.start(task, parallel_steps=most)
    await runner.local.reached(min(most, 3))
    progress = await handle.query("toolroute.progress", result_type=Progress)
    runner.local.release.set()
    assert statuses(await handle.result()) == ["done"] * 3
    assert runner.local.most_under_way == min(most, 3)
    assert [str(step.status) for step in progress.steps].count("running") == min(most, 3)
    assert progress.budget.reserved > 0
    await replays(await handle.fetch_history())


async def test_a_missing_argument_ends_in_needs_input_and_what_follows_is_skipped(runner: Runner) -> None:
    result, handle = await runner.run("Read the file, then add a note titled 'x'")
    assert statuses(result) == ["needs_input", "skipped"]
    assert result.steps[0].reason == "missing: s1.path"
    assert await activities_of(handle) == [ROUTE, PLAN]
    result, _ = await runner.run("Read the file", arguments={"path": "given.txt"})
    assert runner.local.calls == [("read_file", {"path": "given.txt"})]


async def test_a_step_that_the_budget_does_not_allow_is_refused_and_not_called(runner: Runner) -> None:
    result, _ = await runner.run("Read the file a.txt", limits=Limits(max_total_tokens=12_000))
    assert statuses(result) == ["refused"]
    assert result.steps[0].reason.startswith("budget: step s1")
    assert result.budget.warnings
    limits = Limits(max_tokens_per_step=600)
    result, _ = await runner.run("Add a note titled 'x'", arguments={"s1.body": "word " * 400}, limits=limits)
    assert statuses(result) == ["refused"]
    assert "the arguments of step s1 leave" in result.steps[0].reason
    assert (runner.local.calls, result.budget.settled) == ([], 0)
    limits = Limits(max_total_tokens=24_100)
    result, _ = await runner.run("Read the file a.txt and delete the file b.txt", limits=limits)
    assert statuses(result) == ["done", "done"]  # each used little: the second waits until the first has settled


async def test_a_tools_own_error_ends_its_step_as_failed(runner: Runner) -> None:
    result, _ = await runner.run("What is the current time in Nowhere/Land?", arguments={"timezone": "Nowhere/Land"})
    assert statuses(result) == ["failed"]
    assert "Nowhere/Land" in result.steps[0].reason


async def _asks_to_cancel_the_call(handle: WorkflowHandle[Any, RunResult]) -> None:
    """Return once the workflow has passed its cancellation on. A call that fails before is tried again."""
    asked = EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED
    async with asyncio.timeout(150):
        while all(event.event_type != asked for event in (await handle.fetch_history()).events):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def _cancelled(handle: WorkflowHandle[Any, RunResult]) -> Progress:
    """Return the progress of a cancelled run once it has ended."""
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 120)
    assert isinstance(failure.value.cause, CancelledError)
    await replays(await handle.fetch_history())
    progress: Progress = await handle.query("toolroute.progress", result_type=Progress)
    assert progress.budget.reserved == 0
    return progress


async def test_a_cancelled_run_waits_until_each_call_has_stopped(runner: Runner) -> None:
    runner.local.release.clear()
    runner.local.lingers["b.txt"] = 1.0
    handle = await runner.start("Read the file a.txt and read the file b.txt, then delete the file c.txt")
    await runner.local.reached(2)
    await handle.cancel()
    progress = await _cancelled(handle)
    assert runner.local.under_way == 0
    assert progress.phase == "done"
    reasons = [step.reason for step in progress.steps]
    assert reasons == [*["cancelled while it ran"] * 2, "the run was cancelled before this step"]


async def test_a_call_that_fails_after_the_cancellation_is_not_tried_again(serve: Serve) -> None:
    calls, under_way, release = [], asyncio.Event(), asyncio.Event()

    async def add_note(title: str) -> str:
        calls.append(title)
        under_way.set()
        await release.wait()
        raise ServerUnavailable("the server of notes is away")

    runner = await serve(plugin_over(executors={"notes:add_note": add_note}))
    # A worker hears of a cancellation with its next heartbeat: the tool has failed by then.
    handle = await runner.start("Add a note titled 'x'", heartbeat_s=30.0)
    await asyncio.wait_for(under_way.wait(), 120)
    await handle.cancel()
    await _asks_to_cancel_the_call(handle)
    release.set()
    progress = await _cancelled(handle)
    assert [str(step.status) for step in progress.steps] == ["failed"]
    assert calls == ["x"]


async def test_a_run_continues_as_new_and_calls_nothing_twice(runner: Runner) -> None:
    task = "Read the file a.txt, then read the file b.txt, then delete the file c.txt"
    handle = await runner.start(task, steps_per_run=1)
    result = await asyncio.wait_for(handle.result(), 150)
    assert statuses(result) == ["done", "done", "done"]
    assert [arguments["path"] for _, arguments in runner.local.calls] == ["a.txt", "b.txt", "c.txt"]
    assert result.budget.settled == sum(step.tokens for step in result.steps)
    execution = (await runner.client.get_workflow_handle(handle.id).describe()).run_id
    assert execution != handle.first_execution_run_id
    for run_id in (handle.first_execution_run_id, execution):
        history = await runner.client.get_workflow_handle(handle.id, run_id=run_id).fetch_history()
        await replays(history)


async def test_the_next_execution_has_the_memo_before_its_first_task(runner: Runner) -> None:
    task = "Read the file a.txt, then read the file b.txt"
    handle = await runner.start(task, steps_per_run=1)
    await asyncio.wait_for(handle.result(), 150)
    latest = await runner.client.get_workflow_handle(handle.id).describe()
    assert latest.run_id != handle.first_execution_run_id
    history = await runner.client.get_workflow_handle(handle.id, run_id=latest.run_id).fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes
    assert json.loads(started.memo.fields["toolroute.run"].data) == {"tenant": TENANT, "waiting": []}


async def test_a_step_that_waits_for_approval_waits_on_in_the_next_execution(runner: Runner) -> None:
    task = "Delete the file a.txt and read the file b.txt, then read the file c.txt"
    handle = await runner.start(task, approve="changes", steps_per_run=1)
    latest = runner.client.get_workflow_handle(handle.id)
    while (await latest.describe()).run_id == handle.first_execution_run_id:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    progress = await until_step(latest, "s1", StepStatus.NEEDS_APPROVAL)
    await latest.execute_update("toolroute.approve", {"step": "s1", "digest": progress.steps[0].digest})
    assert statuses(await asyncio.wait_for(handle.result(), 120)) == ["done"] * 3
    assert sorted(arguments["path"] for _, arguments in runner.local.calls) == ["a.txt", "b.txt", "c.txt"]


async def test_a_person_reads_what_the_call_leaves_out(runner: Runner) -> None:
    handle = await runner.start("Delete the file a.txt if Ana agrees", approve="changes")
    latest = runner.client.get_workflow_handle(handle.id)
    step = (await until_step(latest, "s1", StepStatus.NEEDS_APPROVAL)).steps[0]
    assert step.reason.startswith("the call of files:delete_file does not use these words of the task: Ana, agrees")
    await latest.execute_update("toolroute.approve", {"step": "s1", "digest": step.digest, "allowed": False})
    await asyncio.wait_for(handle.result(), 150)


@pytest.mark.slow
async def test_a_workflow_lists_servers_and_what_they_have_is_found(serve: Serve, tmp_path: Path) -> None:
    runner = await serve(OrchestratorPlugin(store=tmp_path / "store", mcp_servers=SERVERS), Direct)
    empty, _ = await runner.run("Read the file a.txt")
    assert empty.warnings == empty.decision.warnings != ()
    asked = {"tenant": "org:7", "servers": ["time"]}
    report = await runner.execute(Direct, "toolroute.sync_catalogue", asked, 60.0)
    with pytest.raises(WorkflowFailureError) as failure:
        await runner.execute(Direct, "toolroute.sync_catalogue", {**asked, "servers": ["tiem"]}, 60.0)
    request = RouteRequest(query="current time in Berlin", tenant="org:7")
    decision = await (await runner.begin("toolroute.route", request, result_type=Decision)).result()
    assert "no server 'tiem' in mcpServers; its servers: time" in str(failure.value.cause.__cause__)
    assert [(server["server"], server["tools"], server["error"]) for server in report["servers"]] == [("time", 2, "")]
    assert decision.matches[0].tool.key == "time:get_current_time"


STORED = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "histories").glob("*.json"))}


@pytest.mark.parametrize("name", STORED)
async def test_stored_histories_still_replay(name: str) -> None:
    """`python -m tests.record_histories` records them. A failure means that running workflows would break."""
    history = WorkflowHistory.from_json(f"recorded-{name}", STORED[name])
    await replays(history, [RunWorkflow, RouteWorkflow, Assistant], plugins=() if name == min(STORED) else None)
