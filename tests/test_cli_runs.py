"""Runs for an operator: listed by tenant with their waiting steps, and approved, refused or cancelled."""

import asyncio
import hashlib
import io
import json
import shlex
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from orchestrator import (
    Approval,
    Options,
    PlanRequest,
    Progress,
    RouteRequest,
    RunRequest,
    StepStatus,
    ToolCall,
    failed_result,
)
from orchestrator.cli.runs.temporal import Target, ui_pages
from orchestrator.cli.runs.worker import make_worker, released
from orchestrator.errors import InvalidConfig, InvalidInput, Unavailable
from orchestrator.temporal.client.run_client import RunClient, page_of
from orchestrator.temporal.worker.sdk_metrics import metrics_runtime
from orchestrator.testing import dev_server
from tests.command_line import audited, command
from tests.decisions import READ, decision
from tests.my_workflow import Assistant, OwnHandlers, Plain
from tests.runner import Runner, Serve
from tests.running import TENANT, plugin_over
from tests.temporal import DEPLOYMENT, replays, until_step, working
from tests.test_plugin import Turned
from tests.user import User
from tests.waiting import until

SECRET = "sk-4711-hunter2"
TASK = f"Delete the file {SECRET}.txt and add a note titled 'x'"


async def waiting(runner: Runner, tenant: str = TENANT) -> WorkflowHandle[Any, Any]:
    """Start a run of the tenant, in which two steps wait for approval."""
    handle = await runner.begin("toolroute.run", RunRequest(task=TASK, tenant=tenant))
    await until_step(handle, "s1", StepStatus.NEEDS_APPROVAL)
    await until_step(handle, "s2", StepStatus.NEEDS_APPROVAL)
    return handle


def there(runner: Runner, tenant: str = TENANT) -> tuple[str, ...]:
    return ("--address", runner.client.service_client.config.target_host, "--tenant", tenant)


async def runs(runner: Runner, *words: str, tenant: str = TENANT) -> Any:
    """What `toolroute runs` prints as JSON."""
    return json.loads(await command("runs", *words, *there(runner, tenant), "-o", "json"))


async def approve(runner: Runner, handle: WorkflowHandle[Any, Any], step: str, digest: str) -> None:
    await command("runs", "approve", handle.id, f"{step}={digest}", "--by", "ada", *there(runner))


async def details(handle: WorkflowHandle[Any, Any]) -> str:
    found = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(found.current_details)


async def test_memo_and_details_say_how_a_run_stands_and_nothing_that_it_was_given(runner: Runner) -> None:
    handle = await waiting(runner)
    memo = await (await handle.describe()).memo()
    assert memo == {"toolroute.run": {"tenant": TENANT, "waiting": ["s1 files:delete_file", "s2 notes:add_note"]}}
    shown = await details(handle)
    assert shown.splitlines()[1] == "- s1 `files:delete_file`: needs approval"
    assert SECRET not in shown + str(memo)
    for step in (await until_step(handle, "s2", StepStatus.NEEDS_APPROVAL)).steps:
        await approve(runner, handle, step.step, step.digest)
    await handle.result()
    described = await handle.describe()
    assert (await described.memo())["toolroute.run"]["waiting"] == []
    assert (await details(handle)).splitlines()[0] == "**done**"
    attributes = str(described.raw_description.workflow_execution_info.search_attributes)
    assert SECRET not in str(described.raw_description.workflow_execution_info.memo) + attributes
    await replays(await handle.fetch_history())


@pytest.mark.slow
async def test_a_tenant_sees_its_own_runs_and_no_sign_of_others(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLROUTE_TEMPORAL_UI", "https://ui")
    runner = await serve(plugin_over(), Assistant)
    secret = replace(DataConverter.default, payload_codec=Turned())
    coded = await Client.connect(runner.client.service_client.config.target_host, data_converter=secret)
    unread = [
        await client.start_workflow("toolroute.run", id=uuid4().hex, task_queue="nobody", memo={"toolroute.run": memo})
        for client, memo in ((coded, {"tenant": TENANT}), (runner.client, {"tenant": 3}), (runner.client, TENANT))
    ]
    own, other = await waiting(runner), await waiting(runner, "org:10")
    route = await runner.begin("toolroute.route", RouteRequest(query="Read the file a.txt", tenant=TENANT))
    async with asyncio.timeout(120):
        while own.id not in (found := {run["id"]: run for run in await runs(runner, "list")}):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert other.id not in found
    assert found[own.id]["status"] == "waiting for approval"
    assert found[own.id]["link"] == f"https://ui/namespaces/default/workflows/{own.id}"
    for theirs in (other.id, route.id, *(run.id for run in unread), "no-such-run", ""):
        with pytest.raises(InvalidInput) as refused:
            await runs(runner, "show", theirs)
        listing = f"toolroute runs list --all {' '.join(there(runner))}"
        assert str(refused.value) == f"tenant org:1 has no run {theirs!r}: list its runs with `{listing}`"
    for handle in (own, other, *unread):
        await handle.terminate()
    assert (await runs(runner, "show", own.id))["status"] == "terminated"


@pytest.mark.parametrize(
    ("address", "ui", "link"),
    [
        ("a.tmprl.cloud:7233", "", "https://cloud.temporal.io/namespaces/default/workflows/my%20run"),
        ("10.0.0.1:7233", "", ""),
        ("10.0.0.1:7233", "https://ui.example/", "https://ui.example/namespaces/default/workflows/my%20run"),
        ("localhost:64999", "", ""),
    ],
)
def test_a_link_is_given_where_the_address_of_the_ui_is_known(address: str, ui: str, link: str) -> None:
    pages = ui_pages(Target(address=address), Options(temporal_ui=ui))
    assert page_of(pages, "my run") == link


@pytest.mark.slow
async def test_an_operator_approves_refuses_and_cancels_by_command(
    serve: Serve, user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "audit"
    monkeypatch.setenv("TOOLROUTE_AUDIT", str(log))
    runner = await serve(plugin_over())
    there = ("--address", user.address, "--organization", "1")

    async def said(*arguments: str) -> tuple[int, str, str]:
        return await user.toolroute("runs", *arguments, *there)

    queue = ("--task-queue", runner.task_queue, "--detach")
    code, out, err = await user.toolroute("run", "Delete the file a.txt and add a note titled 'x'", *there, *queue)
    run_id = out.strip()
    assert (code, err) == (0, f"run {run_id}\n")
    await until_step(runner.client.get_workflow_handle(run_id), "s2", StepStatus.NEEDS_APPROVAL)
    code, piped, _ = await said("show", run_id, "-o", "json")
    assert {step["digest"] for step in json.loads(piped)["progress"]["steps"]} == {""}
    shown = (await user.at_terminal("runs", "show", run_id, *there, early=b"", answers=[]))[1]
    assert 's1 waits for approval: files:delete_file with {"path": "a.txt"}' in shown
    printed = next(line for line in shown.splitlines() if f"toolroute runs approve {run_id} s1=" in line)
    approving = shlex.split(printed)[1:]
    assert approving[4:] == ["--address", user.address, "--tenant", "org:1"]
    code, _, err = await said("approve", run_id, "s1=000000000000")
    assert (code, runner.local.calls) == (2, []), err
    assert err.startswith(
        f"toolroute: {run_id}: digest='000000000000': the call of files:delete_file by step s1 has another digest"
    )
    assert (await said("refuse", run_id, "s2"))[::2] == (0, "s2 refused\n")
    assert (await user.toolroute(*approving, "--by", "ada"))[::2] == (0, "s1 approved\n")
    result = await runner.client.get_workflow_handle(run_id).result()
    assert [step["status"] for step in result["steps"]] == ["done", "refused"]
    refused, approved = audited(log, "approval")
    assert [(line["tenant"], line["decision"], line["approval"]) for line in (refused, approved)] == [
        ("org:1", run_id, word) for word in ("declined", "this call")
    ]
    assert (approved["server"], approved["tool"]) == ("files", "files:delete_file")
    assert approved["arguments"] == approving[3].partition("=")[2]
    other = await waiting(runner)
    code, out, _ = await said("list", "--waiting", "-o", "json")
    assert (code, other.id in {one["id"] for one in json.loads(out)}) == (0, True)
    assert (await said("cancel", other.id))[::2] == (0, f"{other.id} is being cancelled\n")
    with pytest.raises(Exception, match="Workflow execution failed"):
        await other.result()
    assert (await other.describe()).status is WorkflowExecutionStatus.CANCELED


@pytest.mark.slow
async def test_a_run_that_no_worker_takes_ends_in_time_and_says_what_to_do(user: User, task_queue: str) -> None:
    code, out, err = await user.toolroute(
        *("run", "Read the file a.txt", "--address", user.address, "--task-queue", task_queue, "--start-within", "1")
    )
    assert (code, out) == (1, "")
    start = f"start one with `toolroute worker --task-queue {task_queue}`, or increase --start-within"
    assert f"toolroute: no worker took the run within 1 s, nothing was done: {start}\n" in err
    run_id = err.split()[1]
    described = await (await Client.connect(user.address)).get_workflow_handle(run_id).describe()
    assert described.status is WorkflowExecutionStatus.TERMINATED


async def test_a_versioned_worker_gets_runs_once_its_version_is_the_current_one(
    temporal_address: str, task_queue: str
) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    async with (
        make_worker(client, task_queue, released(task_queue, "one")),
        make_worker(client, task_queue, released(task_queue, "two", pinned=True)),
    ):
        current = SetWorkerDeploymentCurrentVersionRequest(
            namespace="default", deployment_name=task_queue, build_id="two", identity="tests"
        )
        async with asyncio.timeout(120):
            while True:
                try:
                    await client.workflow_service.set_worker_deployment_current_version(current)
                    break
                except RPCError:  # until the worker has polled once
                    await asyncio.sleep(0.05)
        handle = await client.start_workflow(
            "toolroute.run", RunRequest(task="Read the file a.txt", tenant=TENANT), id=task_queue, task_queue=task_queue
        )
        await asyncio.wait_for(handle.result(), 120)
        info = (await handle.describe()).raw_description.workflow_execution_info.versioning_info
    assert (info.deployment_version.build_id, info.behavior) == ("two", 1)
    assert not DEPLOYMENT.use_worker_versioning
    assert not released().use_worker_versioning


async def test_a_server_that_lists_no_runs_is_said_not_to(temporal_address: str) -> None:
    client = await Client.connect(temporal_address, namespace="nowhere")
    with pytest.raises(Unavailable, match="could not list its runs: Namespace nowhere is not found"):
        await RunClient(client, TENANT).runs(ended=True)


async def listed(runner: Runner, run_id: str) -> Any:
    """A run as lists show it, once the server's index has it."""
    async with asyncio.timeout(120):
        while not (found := [run for run in await runs(runner, "list") if run["id"] == run_id]):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return found[0]


async def test_a_run_in_a_users_own_workflow_is_listed_and_approved(serve: Serve) -> None:
    runner = await serve(plugin_over(), Plain)
    handle = await runner.begin(Plain, ["Delete the file a.txt"])
    progress = await until_step(handle, "s1", StepStatus.NEEDS_APPROVAL)
    found = await listed(runner, handle.id)
    assert found["workflow"] == "Plain"
    assert found["status"] == "waiting for approval"
    assert found["waiting"] == ["s1 files:delete_file"]
    with pytest.raises(InvalidInput, match="has no run"):
        await runs(runner, "show", handle.id, tenant="org:2")
    with pytest.raises(InvalidInput, match="cannot be followed: its workflow has no stream"):
        await runs(runner, "show", handle.id, "--follow")
    with pytest.raises(InvalidInput, match="has another digest"):
        await approve(runner, handle, "s1", "000000000000")
    await approve(runner, handle, "s1", progress.steps[0].digest)
    assert await handle.result() == ["done"]
    assert (await details(handle)).splitlines() == ["**done**", "- s1 `files:delete_file`: done"]
    assert (await runs(runner, "show", handle.id))["waiting"] == []
    await replays(await handle.fetch_history(), [Plain])


async def test_runs_side_by_side_in_one_workflow_are_approved_by_digest(serve: Serve) -> None:
    runner = await serve(None, Plain)
    handle = await runner.begin(Plain, [f"Delete the file {name}" for name in ("a.txt", "b.txt", "c.txt|org:2")])
    await until_step(handle, "s1", StepStatus.NEEDS_APPROVAL)
    async with asyncio.timeout(120):
        while len((await runs(runner, "show", handle.id))["waiting"]) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    progress = await until_step(handle, "s1", StepStatus.NEEDS_APPROVAL)
    waiting = {step.arguments["path"]: step for step in progress.steps if step.digest}
    assert waiting.keys() == {"a.txt", "b.txt"}, "the run of another tenant is not shown"
    with pytest.raises(InvalidInput, match="waits in several runs"):
        await command("runs", "refuse", handle.id, "s1", *there(runner))
    await approve(runner, handle, "s1", waiting["b.txt"].digest)
    refusal = Approval(step="s1", digest=waiting["a.txt"].digest, allowed=False)
    await handle.execute_update("toolroute.approve", refusal)
    await until(lambda: runner.local.calls == [("delete_file", {"path": "b.txt"})])
    await handle.cancel()
    with pytest.raises(Exception, match="Workflow execution failed"):
        await handle.result()
    await replays(await handle.fetch_history(), [Plain])


async def test_handlers_and_details_of_the_users_own_stay(serve: Serve) -> None:
    runner = await serve(plugin_over(), OwnHandlers)
    handle = await runner.begin(OwnHandlers, "Delete the file a.txt")
    progress = await until_step(handle, "s1", StepStatus.NEEDS_APPROVAL)
    assert (await details(handle)).splitlines() == ["mine"]
    word = Approval(step="s1", digest=progress.steps[0].digest)
    assert await handle.execute_update("toolroute.approve", word) is True
    assert await handle.result() == ["done"]
    await replays(await handle.fetch_history(), [OwnHandlers])


async def test_a_runs_changes_are_followed_to_its_end_across_continuations(runner: Runner) -> None:
    task = "Delete the file c.txt, then read the file a.txt, then read the file b.txt"
    handle = await runner.start(task, steps_per_run=1, approve="changes")
    progress = await until_step(handle, "s1", StepStatus.NEEDS_APPROVAL)
    output = io.StringIO()
    follow = ("runs", "show", handle.id, "--follow", "-o", "json", *there(runner))
    following = asyncio.create_task(command(*follow, output=output))
    await until(lambda: "needs_approval" in output.getvalue())
    [waits] = [step for step in progress.steps if step.digest]
    await handle.execute_update("toolroute.approve", Approval(step=waits.step, digest=waits.digest))
    printed = await asyncio.wait_for(following, 120)
    steps = [step for change in documents(printed) for step in change["steps"]]
    assert all(step["arguments"] == {} for step in steps)
    seen = [(step["step"], step["status"]) for step in steps]
    assert [name for name, status in dict.fromkeys(seen) if status == "done"] == ["s1", "s2", "s3"]
    assert ("s1", "needs_approval") in seen
    assert seen[-1] == ("s3", "done")


def documents(text: str) -> list[Any]:
    """The JSON documents of a text, one after the other."""
    found = []
    while text := text.strip():
        document, end = json.JSONDecoder().raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


async def test_activities_have_their_tenant_as_fairness_key(serve: Serve) -> None:
    runner = await serve(None, Plain)
    long = f"org:{'x' * 80}"
    for tenant, key in ((TENANT, TENANT), (long, hashlib.sha256(long.encode()).hexdigest()[:32])):
        handle = await runner.begin(Plain, [f"Read the file a.txt|{tenant}"])
        assert await handle.result() == ["done"]
        found = [
            event.activity_task_scheduled_event_attributes
            for event in (await handle.fetch_history()).events
            if event.HasField("activity_task_scheduled_event_attributes")
        ]
        assert {one.activity_type.name for one in found} >= {"toolroute.route", "toolroute.plan", "toolroute.call_tool"}
        assert {one.priority.fairness_key for one in found} == {key}


@pytest.mark.parametrize(
    ("workflow", "given"),
    [
        ("toolroute.plan", PlanRequest(decision=decision("Read the file a.txt", [READ]))),
        ("toolroute.sync_catalogue", {"tenant": TENANT}),
        ("toolroute.call_tool", ToolCall(tenant=TENANT, tool=READ, arguments={"path": "a.txt"})),
    ],
)
async def test_workflows_of_one_activity_give_it_their_tenant(runner: Runner, workflow: str, given: Any) -> None:
    handle = await runner.begin(workflow, given)
    with suppress(WorkflowFailureError):  # There is no store to sync.
        await handle.result()
    keys = [
        event.activity_task_scheduled_event_attributes.priority.fairness_key
        for event in (await handle.fetch_history()).events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert keys == [TENANT]


async def test_a_run_without_a_step_that_was_done_fails_with_its_result(runner: Runner) -> None:
    runner.local.release.clear()
    handle = await runner.start("Delete the file a.txt", call_timeout_s=0.5)
    with pytest.raises(WorkflowFailureError) as failure:
        await handle.result()
    assert isinstance(failure.value.cause, ApplicationError)
    assert failure.value.cause.type == "StepsFailed"
    assert "s1 files:delete_file: the call was sent and its answer was lost" in failure.value.cause.message
    result = failed_result(failure.value)
    assert result is not None
    assert (result.failed, result.steps[0].status) == (True, StepStatus.OUTCOME_UNKNOWN)
    assert (await handle.describe()).status is WorkflowExecutionStatus.FAILED
    assert (await handle.query("toolroute.progress", result_type=Progress)).phase == "failed"
    await replays(await handle.fetch_history())


async def has_attributes(client: Client) -> None:
    """Register the search attributes, and wait until the server knows them."""
    kinds = {
        "ToolrouteTenant": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
        "ToolrouteWaiting": IndexedValueType.INDEXED_VALUE_TYPE_BOOL,
    }
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=kinds)
    await client.operator_service.add_search_attributes(request)
    listing = ListSearchAttributesRequest(namespace=client.namespace)
    async with asyncio.timeout(120):
        while not kinds.keys() <= {  # noqa: ASYNC110
            *(await client.operator_service.list_search_attributes(listing)).custom_attributes
        }:
            await asyncio.sleep(0.1)


async def test_search_attributes_find_a_tenants_waiting_runs(serve: Serve) -> None:
    async with dev_server() as address:
        runner = await serve()
        plain = await Client.connect(address, plugins=[plugin_over()])
        await has_attributes(plain)
        detached = ("--task-queue", runner.task_queue, "--detach", "--address", address)
        async with working(plain, runner.task_queue):
            ids = []
            for tenant, task in (
                (TENANT, "Delete the file a.txt"),
                ("org:2", "Delete the file a.txt"),
                (TENANT, "Read the file a.txt"),
            ):
                printed = await command("run", task, "--tenant", tenant, *detached)
                ids.append(printed.strip())
            waits, _, done = map(plain.get_workflow_handle, ids)
            await until_step(waits, "s1", StepStatus.NEEDS_APPROVAL)
            await done.result()
            async with asyncio.timeout(120):
                query = f"ToolrouteTenant = '{TENANT}' AND ToolrouteWaiting = true"
                while [run.id async for run in plain.list_workflows(query)] != [waits.id]:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            listing = ("runs", "list", "--all", "-o", "json", "--address", address, "--tenant", TENANT)
            waiting_runs = json.loads(await command(*listing, "--waiting"))
            assert [run["id"] for run in waiting_runs] == [waits.id]
            assert {run["id"] for run in json.loads(await command(*listing))} == {waits.id, done.id}
            await replays(await waits.fetch_history())


@pytest.mark.timeout(120)
async def test_the_workers_metrics_are_served_for_prometheus(temporal_address: str, task_queue: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        metrics = f"127.0.0.1:{probe.getsockname()[1]}"
    client = await Client.connect(temporal_address, runtime=metrics_runtime(metrics), plugins=[plugin_over()])
    async with working(client, task_queue):
        request = RouteRequest(query="Read the file a.txt", tenant=TENANT)
        await client.execute_workflow("toolroute.route", request, id=uuid4().hex, task_queue=task_queue)
        async with httpx2.AsyncClient() as http:
            text = (await http.get(f"http://{metrics}/metrics")).text
    assert "temporal_activity_execution_latency" in text


def test_without_an_address_or_a_collector_no_metrics_are_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert metrics_runtime() is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/")
    assert metrics_runtime() is not None
    with pytest.raises(InvalidConfig, match="metrics='nowhere'"):
        metrics_runtime("nowhere")
