"""The router inside users' own workflows, tools that are child workflows, and activities by their names."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from orchestrator import Catalogue, Decision, OrchestratorPlugin, RouteRequest, StepStatus, Tool, ToolCall
from orchestrator.errors import ServerUnavailable
from tests.decisions import ADD_NOTE, ALL, PUBLISH, READ
from tests.my_workflow import Apart, Assistant, Direct, OwnModel, Patient, Publish, Stubborn
from tests.runner import Runner, Serve, statuses
from tests.running import TENANT, LocalTools, plugin_over
from tests.temporal import activities_of, child_of, replays, until_step, why_failed

PUBLISHING = 'Publish the report titled "May"'


def publisher(local: LocalTools | None = None) -> OrchestratorPlugin:
    return OrchestratorPlugin(catalogue=Catalogue([*ALL, PUBLISH]), executors=(local or LocalTools()).executors)


async def test_a_decision_comes_back_whole_and_replays(runner: Runner) -> None:
    request = RouteRequest(query="Read the file a.txt", tenant=TENANT)
    handle = await runner.begin("toolroute.route", request, result_type=Decision)
    decision = await handle.result()
    assert decision.recommended == ("files:read_file",)
    assert decision.tool("files:read_file") in ALL
    assert await activities_of(handle) == ["toolroute.route"]
    await replays(await handle.fetch_history())


async def test_the_router_inside_a_users_own_workflow(serve: Serve) -> None:
    runner = await serve(plugin_over(executors={"builtin": lambda call: f"{call.deadline_s:.0f} s"}), Assistant)
    told = await runner.execute(Assistant, "Read the file a.txt")
    assert told == ["files:read_file", "18 s", "108 s"]  # a call ends ahead of its 20 seconds, and of a run's 120


async def test_a_call_that_the_users_own_model_chose_is_resolved_inside_the_workflow(serve: Serve) -> None:
    chosen = [{"name": "files__read_file", "arguments": text} for text in ('{"pth": 1}', '{"path": "a.txt"}')]
    runner = await serve(None, OwnModel)
    wrong, right = await runner.execute(OwnModel, "Read the file a.txt", chosen)
    assert "'path' is a required property" in wrong
    assert right == "read_file a.txt"


@pytest.mark.parametrize(
    ("tool", "size", "kind"),
    [
        ("files:nothing", 1, "UnknownTool"),
        ("files:read_file", 3_000_000, "PayloadTooLarge"),
        ("files:read_file", 0, "InvalidInput"),
    ],
)
async def test_what_cannot_be_called_fails_the_workflow_at_once(serve: Serve, tool: str, size: int, kind: str) -> None:
    runner = await serve(None, Stubborn)
    with pytest.raises(WorkflowFailureError) as failure:
        await runner.execute(Stubborn, tool, size)
    assert why_failed(failure.value.cause)[0] == kind


class Losing:
    """A tool that fails this number of times, and then answers."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.left, self.calls = error, times, 0

    async def __call__(self, call: ToolCall) -> str:
        self.calls += 1
        self.left -= 1
        if self.left < 0:
            return "done"
        raise self.error


@pytest.mark.parametrize("tool", [READ, ADD_NOTE])
async def test_a_call_that_sent_nothing_goes_again_whatever_its_tool_does(serve: Serve, tool: Tool) -> None:
    losing = Losing(ServerUnavailable("not there"), 2)
    call = ToolCall(tenant=TENANT, tool=tool, arguments={"path": "a.txt"} if tool is READ else {"title": "x"})
    runner = await serve(plugin_over(executors={"builtin": losing}), Direct)
    told = await runner.execute(Direct, "toolroute.call_tool", call, 20.0)
    assert (told["text"], losing.calls) == ("done", 3)


@pytest.mark.parametrize(
    ("task", "error", "ends", "calls"),
    [
        ("Read the file a.txt", ServerUnavailable("away"), "failed", 3),
        ("Add a note titled 'x'", ConnectionResetError("no answer"), "outcome_unknown", 1),
    ],
)
async def test_a_users_retry_policy_counts_the_attempts(
    serve: Serve, task_queue: str, task: str, error: Exception, ends: str, calls: int
) -> None:
    losing = Losing(error, 9)
    runner = await serve(plugin_over(executors={"builtin": losing}), Apart)
    step, _ = await runner.execute(Apart, task, task_queue, task_queue)
    assert (step[0], losing.calls) == (ends, calls)


async def test_a_change_whose_answer_is_late_is_sent_once(runner: Runner) -> None:
    runner.local.release.clear()
    result, _ = await runner.run("Delete the file a.txt", call_timeout_s=10.0)
    assert statuses(result) == ["outcome_unknown"]
    assert "the limit of one call (call_timeout_s)" in result.steps[0].reason
    assert len(runner.local.calls) == 1


async def test_a_call_that_no_worker_takes_has_failed_and_done_nothing(serve: Serve, task_queue: str) -> None:
    runner = await serve(None, Apart)
    step, _ = await runner.execute(Apart, "Add a note titled 'x'", task_queue, f"{task_queue}-nobody")
    assert step == ["failed", "TimeoutError: no worker took the call in time: check that a worker polls its task queue"]


@pytest.mark.parametrize(
    ("task", "said"), [("Read the file a.txt", "read_file a.txt"), (PUBLISHING, '"published":"May"')]
)
async def test_workflows_run_on_one_queue_and_every_activity_on_another(
    serve: Serve, task_queue: str, task: str, said: str
) -> None:
    tools = f"{task_queue}-tools"
    await serve(publisher(), task_queue=tools)
    runner = await serve(OrchestratorPlugin(register=False), Apart, Publish)
    _, (answer, *warnings) = await runner.execute(Apart, task, tools, tools)
    assert said in answer
    assert not warnings  # that the outcome is remembered by no worker, too


@pytest.mark.parametrize("name", ["run", "漢" * 320])
async def test_a_workflow_tool_is_a_child_workflow_with_checked_arguments(serve: Serve, name: str) -> None:
    runner = await serve(publisher(), Publish)
    handle = await runner.start(PUBLISHING, name=name)
    result = await asyncio.wait_for(handle.result(), 120)
    assert statuses(result) == ["done"]
    said: Any = json.loads(result.answer)
    assert said["published"] == "May"
    assert name != "run" or said["by"] == f"{handle.id}:{result.plan.id}:s1"
    assert await activities_of(handle) == ["toolroute.route", "toolroute.plan", "toolroute.check_call"]


@pytest.mark.parametrize("ended", ["terminated", "cancelled", "late"])
async def test_a_child_workflow_that_did_not_end_itself_may_have_taken_effect_and_its_run_goes_on(
    serve: Serve, ended: str
) -> None:
    local, limited = LocalTools(), replace(PUBLISH, labels={"timeout_s": "1"} if ended == "late" else {})
    # The read is held until the end. It has a limit of its own, so that on a busy machine it does not fail before that.
    others = [tool for tool in ALL if tool is not READ]
    reading = replace(READ, labels={**READ.labels, "timeout_s": "300"})
    plugin = OrchestratorPlugin(catalogue=Catalogue([*others, reading, limited]), executors=local.executors)
    runner = await serve(plugin, Patient)
    local.release.clear()
    handle = await runner.start(f"Read the file a.txt and {PUBLISHING}", call_timeout_s=0.5)
    if ended != "late":
        await local.reached(1)
        child = runner.client.get_workflow_handle(await child_of(handle))
        await (child.terminate() if ended == "terminated" else child.cancel())
    progress = await until_step(handle, "s2", StepStatus.OUTCOME_UNKNOWN)
    assert "its workflow 'publish_report', id '" in progress.steps[1].reason
    local.release.set()
    result = await asyncio.wait_for(handle.result(), 120)
    await replays(await handle.fetch_history())
    assert statuses(result) == ["done", "outcome_unknown"]
