import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.testing import ActivityEnvironment

from orchestrator.activities.routing import RoutingActivities
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.records import durable_names as names
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest
from orchestrator.records.run import RunRequest, RunResult, StepStatus
from orchestrator.temporal.call import why_failed
from orchestrator.temporal.executors import Executor
from orchestrator.temporal.plugin import OrchestratorPlugin
from orchestrator.workflows.execution import RunWorkflow
from orchestrator.workflows.routing import RouteWorkflow
from tests.decisions import ALL, PUBLISH
from tests.my_workflow import Apart, Assistant, Careless, FollowUp, Insistent, OwnModel, Patient, Publish, Stubborn
from tests.running import TENANT, Desk, plugin_over
from tests.temporal import activities_of, child_of, replays, until, working


async def test_a_decision_comes_back_whole_and_replays(temporal_address: str, task_queue: str) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    request = RouteRequest(query="Read the file a.txt", tenant=TENANT)
    async with working(client, task_queue):
        handle = await client.start_workflow(
            names.ROUTE, request, id=f"route-{uuid4().hex[:8]}", task_queue=task_queue, result_type=Decision
        )
        decision = await handle.result()
        assert decision.recommended == ("files:read_file",)
        assert decision.tool("files:read_file") in ALL
        assert await activities_of(handle) == [names.ROUTE]
        await replays(await handle.fetch_history(), [RouteWorkflow])


async def test_routing_and_planning_outlast_a_restart_of_what_they_need(temporal_address: str, task_queue: str) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    async with working(client, task_queue, workflows=[FollowUp]):
        handle = await client.start_workflow(
            FollowUp.run, args=["Read the file a.txt", []], id=uuid4().hex, task_queue=task_queue
        )
        await handle.result()
        events = (await handle.fetch_history()).events
    asked = [event.activity_task_scheduled_event_attributes for event in events]
    for given in [one for one in asked if one.activity_type.name]:
        waits_s = [min(10, 0.5 * 2**number) for number in range(given.retry_policy.maximum_attempts - 1)]
        assert 300 < sum(waits_s) < 900
        assert 0 < given.heartbeat_timeout.ToTimedelta().total_seconds() <= 20


async def test_a_slow_route_says_that_it_lives() -> None:
    beats: list[object] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *_: beats.append(1)
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=3))
    request = DataConverter.default.payload_converter.to_payload(RouteRequest(query="Read a.txt", tenant=TENANT))
    await environment.run(RoutingActivities(plugin_over().resources).route, RawValue(request))
    assert beats


async def test_the_router_inside_a_users_own_workflow(temporal_address: str, task_queue: str) -> None:
    desk = Desk()
    client = await Client.connect(temporal_address, plugins=[plugin_over(desk)])
    async with working(client, task_queue, workflows=[Assistant]):
        handle = await client.start_workflow(
            Assistant.run, "Read the file a.txt", id=f"mine-{uuid4().hex[:8]}", task_queue=task_queue
        )
        assert await handle.result() == ["files:read_file", "read_file a.txt", "read_file a.txt"]
        route, plan, call = names.ROUTE, names.PLAN, names.CALL_TOOL
        assert await activities_of(handle) == [route, plan, call, route, plan, call]
        await replays(await handle.fetch_history(), [Assistant], [plugin_over()])
    assert len(desk.calls) == 2


async def test_a_call_that_the_users_own_model_chose_is_resolved_inside_the_workflow(
    temporal_address: str, task_queue: str
) -> None:
    chosen = [{"name": "files__read_file", "arguments": text} for text in ('{"pth": 1}', '{"path": "a.txt"}')]
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    async with working(client, task_queue, workflows=[OwnModel]):
        handle = await client.start_workflow(
            OwnModel.run, args=["Read the file a.txt", chosen], id=f"mine-{uuid4().hex[:8]}", task_queue=task_queue
        )
        wrong, right = await asyncio.wait_for(handle.result(), 30)
        await replays(await handle.fetch_history(), [OwnModel], [plugin_over()])
    assert "'path' is a required property" in wrong
    assert right == "read_file a.txt"


async def test_a_call_has_a_deadline_before_temporals_own(temporal_address: str, task_queue: str) -> None:
    plugin = plugin_over(executors={"builtin": lambda call: f"{call.deadline_s:.0f} s"})
    client = await Client.connect(temporal_address, plugins=[plugin])
    async with working(client, task_queue, workflows=[Assistant]):
        told = await client.execute_workflow(
            Assistant.run, "Read the file a.txt", id=f"mine-{uuid4().hex[:8]}", task_queue=task_queue
        )
    assert told[1:] == ["18 s", "108 s"]  # of 20 s, and of a run's 120


@pytest.mark.parametrize(
    ("tool", "size", "kind"), [("files:nothing", 1, "UnknownTool"), ("files:read_file", 3_000_000, "PayloadTooLarge")]
)
async def test_what_cannot_be_called_fails_the_workflow_at_once(
    temporal_address: str, task_queue: str, tool: str, size: int, kind: str
) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    async with working(client, task_queue, workflows=[Stubborn]):
        with pytest.raises(WorkflowFailureError) as failure:
            await client.execute_workflow(
                Stubborn.run, args=[tool, size], id=f"mine-{uuid4().hex[:8]}", task_queue=task_queue
            )
    assert why_failed(failure.value.cause)[0] == kind


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_total_tokens": "5"}, "max_total_tokens='5': give"),
        ({}, "limits={}: give Limits"),
        (None, "RouteRequest: query: Input should be a valid string, not 'None'"),
    ],
)
async def test_limits_or_a_query_that_are_none_fail_the_workflow_at_once(
    temporal_address: str, task_queue: str, limits: Any, said: str
) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    async with working(client, task_queue, workflows=[Careless]):
        handle = await client.start_workflow(Careless.run, limits, id=f"mine-{uuid4().hex[:8]}", task_queue=task_queue)
        with pytest.raises(WorkflowFailureError) as failure:
            await asyncio.wait_for(handle.result(), 20)
    kind, message = why_failed(failure.value.cause)
    assert kind == "InvalidInput"
    assert message.startswith(said)


@pytest.mark.parametrize(
    ("task", "said"),
    [("Read the file a.txt", "read_file a.txt"), ('Publish the report titled "May"', '"published":"May"')],
)
async def test_workflows_run_on_one_queue_and_every_activity_on_another(
    temporal_address: str, task_queue: str, task: str, said: str
) -> None:
    tools = OrchestratorPlugin(catalogue=Catalogue([*ALL, PUBLISH]), executors=Desk().executors)
    there = await Client.connect(temporal_address, plugins=[tools])
    here = await Client.connect(temporal_address, plugins=[OrchestratorPlugin(register=False)])
    async with (
        working(there, f"{task_queue}-tools"),
        working(here, task_queue, workflows=[Apart, Publish]),
    ):
        told = await here.execute_workflow(
            Apart.run, args=[task, f"{task_queue}-tools"], id=uuid4().hex, task_queue=task_queue
        )
    assert said in told


async def test_a_workflow_tool_is_a_child_workflow_with_checked_arguments(
    temporal_address: str, task_queue: str
) -> None:
    plugin = OrchestratorPlugin(catalogue=Catalogue([*ALL, PUBLISH]))
    client = await Client.connect(temporal_address, plugins=[plugin])
    async with working(client, task_queue, workflows=[Publish]):
        handle = await client.start_workflow(
            names.RUN,
            RunRequest(task='Publish the report titled "May"', tenant=TENANT),
            id=f"run-{uuid4().hex[:8]}",
            task_queue=task_queue,
            result_type=RunResult,
        )
        result = await handle.result()
        assert [step.status for step in result.steps] == ["done"], result
        child = json.loads(result.answer)
        assert child == {"published": "May", "by": f"{handle.id}:{result.plan.id}:s1"}
        assert await activities_of(handle) == [names.ROUTE, names.PLAN, names.CHECK_CALL]


@pytest.mark.parametrize("letter", ["x", "漢"])
async def test_a_child_of_a_workflow_with_the_longest_id_starts_too(
    temporal_address: str, task_queue: str, letter: str
) -> None:
    plugin = OrchestratorPlugin(catalogue=Catalogue([*ALL, PUBLISH]))
    client = await Client.connect(temporal_address, plugins=[plugin])
    name = uuid4().hex + letter * ((1000 - 32) // len(letter.encode()))
    async with working(client, task_queue, workflows=[Publish]):
        request = RunRequest(task='Publish the report titled "May"', tenant=TENANT)
        handle = await client.start_workflow(names.RUN, request, id=name, task_queue=task_queue, result_type=RunResult)
        result = await asyncio.wait_for(handle.result(), 30)
    assert [str(step.status) for step in result.steps] == ["done"]
    assert json.loads(result.answer)["by"].startswith(name[:200])


async def test_a_child_workflow_that_runs_out_of_time_may_have_taken_effect_and_is_named(
    temporal_address: str, task_queue: str
) -> None:
    plugin = OrchestratorPlugin(catalogue=Catalogue([*ALL, PUBLISH]))
    client = await Client.connect(temporal_address, plugins=[plugin])
    async with working(client, task_queue):  # It runs no Publish: the child's tasks fail until its time is up.
        request = RunRequest(task='Publish the report titled "May"', tenant=TENANT, call_timeout_s=1.0)
        name = f"run-{uuid4().hex[:8]}"
        result = await client.execute_workflow(
            names.RUN, request, id=name, task_queue=task_queue, result_type=RunResult
        )
        (step,) = result.steps
        assert step.status == "outcome_unknown"
        assert f"its workflow 'publish_report', id '{name}:{result.plan.id}:s1', was ended when its time was up" in (
            step.reason
        )


class Losing(Executor):
    """Loses every answer."""

    def __init__(self) -> None:
        self.calls = 0

    async def execute(self, call: ToolCall) -> ToolResult:
        self.calls += 1
        raise ConnectionResetError("no answer")


@pytest.mark.parametrize(
    ("task", "calls", "status"),
    [("Read the file a.txt", 3, "failed"), ("Add a note titled 'x'", 1, "outcome_unknown")],
)
async def test_no_retry_policy_sends_a_call_again_that_may_not_be(
    temporal_address: str, task_queue: str, task: str, calls: int, status: str
) -> None:
    losing = Losing()
    client = await Client.connect(temporal_address, plugins=[plugin_over(executors={"builtin": losing})])
    async with working(client, task_queue, workflows=[Insistent]):
        told = await client.execute_workflow(
            Insistent.run, args=[task, None], id=f"mine-{uuid4().hex[:8]}", task_queue=task_queue
        )
    assert [step[0] for step in told] == [status]
    assert losing.calls == calls


async def test_a_call_that_no_worker_takes_has_failed_and_done_nothing(temporal_address: str, task_queue: str) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    async with working(client, task_queue, workflows=[Insistent]):
        task = "Add a note titled 'x'"
        told = await client.execute_workflow(
            Insistent.run, args=[task, f"{task_queue}-nobody"], id=f"mine-{uuid4().hex[:8]}", task_queue=task_queue
        )
    assert told == [["failed", "TimeoutError: no worker took it in time: see whether one serves its task queue"]]


async def test_a_call_that_takes_too_long_says_whose_time_was_up(temporal_address: str, task_queue: str) -> None:
    desk = Desk()
    desk.release.clear()
    client = await Client.connect(temporal_address, plugins=[plugin_over(desk)])
    async with working(client, task_queue):
        request = RunRequest(task="Delete the file a.txt", tenant=TENANT, call_timeout_s=1.0)
        result = await client.execute_workflow(
            names.RUN, request, id=f"run-{uuid4().hex[:8]}", task_queue=task_queue, result_type=RunResult
        )
    assert result.steps[0].status == "outcome_unknown"
    assert "no answer within the time of one call: give more as call_timeout_s" in result.steps[0].reason


@pytest.mark.parametrize("ended", ["terminated", "cancelled"])
async def test_a_child_workflow_that_someone_ends_may_have_taken_effect_and_its_run_goes_on(
    temporal_address: str, task_queue: str, ended: str
) -> None:
    desk = Desk()
    plugin = OrchestratorPlugin(catalogue=Catalogue([*ALL, PUBLISH]), executors=desk.executors)
    client = await Client.connect(temporal_address, plugins=[plugin])
    async with working(client, task_queue, workflows=[Patient]):
        request = RunRequest(task='Read the file a.txt and publish the report titled "May"', tenant=TENANT)
        desk.release.clear()
        handle = await client.start_workflow(
            names.RUN, request, id=f"run-{uuid4().hex[:8]}", task_queue=task_queue, result_type=RunResult
        )
        await desk.reached(1)
        child = client.get_workflow_handle(await child_of(handle))
        await (child.terminate() if ended == "terminated" else child.cancel())
        progress = await until(handle, "s2", StepStatus.OUTCOME_UNKNOWN)
        assert f"its workflow 'publish_report', id '{child.id}', was {ended} by someone" in progress.steps[1].reason
        desk.release.set()
        result = await asyncio.wait_for(handle.result(), 30)
        await replays(await handle.fetch_history(), [RunWorkflow])
    assert [str(step.status) for step in result.steps] == ["done", "outcome_unknown"]
