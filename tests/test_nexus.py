"""The Nexus service: workflows of another namespace find, plan and call with the worker of this one."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError

from examples import nexus
from orchestrator import Catalogue, Kind, OrchestratorPlugin, ToolCall
from orchestrator.errors import InvalidInput
from orchestrator.trust.definition_changes import set_apart
from tests.decisions import ADD_NOTE, DELETE, PUBLISH, READ, READS
from tests.my_workflow import MadeUp, Publish, SameKey
from tests.running import LocalTools, plugin_over
from tests.temporal import replays, why_failed, working


@pytest.mark.slow
async def test_a_workflow_of_another_namespace_finds_plans_and_calls(temporal_address: str, task_queue: str) -> None:
    local = LocalTools()
    owner = await Client.connect(temporal_address, plugins=[plugin_over(local, nexus=["org:1"])])
    other = OrchestratorPlugin(register=False)
    desk = await Client.connect(temporal_address, namespace=await nexus.new_namespace(owner), plugins=[other])

    async def asked(tenant: str, task: str = "Read the file a.txt") -> Any:
        given = [endpoint, tenant, task]
        handle = await desk.start_workflow(nexus.Desk.run, args=given, id=uuid4().hex, task_queue=task_queue)
        result = await asyncio.wait_for(handle.result(), 120)
        await replays(await handle.fetch_history(), [nexus.Desk])
        return result

    async with (
        nexus.new_endpoint(owner, task_queue) as endpoint,
        working(owner, task_queue),
        working(desk, task_queue, workflows=[nexus.Desk, SameKey]),
    ):
        same = await desk.execute_workflow(SameKey.run, endpoint, id=uuid4().hex, task_queue=task_queue)
        assert same[:3] == ["read_file a.txt", "read_file a.txt", "OutcomeUnknown"]
        assert f"idempotency_key={endpoint!r} has already ended" in same[3]
        assert len(local.calls) == 1
        local.calls.clear()
        assert await asked("org:1") == "read_file a.txt"
        assert local.calls == [("read_file", {"path": "a.txt"})]
        for tenant, task, kind in [("org:2", "Read it", "UnknownTenant"), ("org:1", "", "InvalidInput")]:
            with pytest.raises(WorkflowFailureError) as failure:
                await asked(tenant, task)
            assert why_failed(failure.value.cause)[0] == kind


@pytest.mark.slow
async def test_a_caller_calls_only_tools_that_its_tenant_has(temporal_address: str, task_queue: str) -> None:
    local = LocalTools()
    changed = set_apart(ADD_NOTE, "it may delete now")
    plugin = OrchestratorPlugin(
        catalogue=Catalogue([READ, DELETE, changed]), executors=local.executors, nexus=["org:1"]
    )
    owner = await Client.connect(temporal_address, plugins=[plugin])
    other = OrchestratorPlugin(register=False)
    desk = await Client.connect(temporal_address, namespace=await nexus.new_namespace(owner), plugins=[other])
    of_others = replace(PUBLISH, name="toolroute.route", input_schema=None, hash="")
    asked = {"query": "Read the file a.txt", "tenant": "org:2"}
    calls = [
        ToolCall(tenant="org:1", tool=of_others, arguments=asked, idempotency_key=uuid4().hex),
        ToolCall(tenant="org:1", tool=replace(DELETE, annotations=READS, hash=""), arguments={"path": "a.txt"}),
        ToolCall(tenant="org:1", tool=replace(DELETE, kind=Kind.WORKFLOW), arguments={"path": "a.txt"}),
        ToolCall(tenant="org:1", tool=changed, arguments={"title": "x"}),
    ]
    async with (
        nexus.new_endpoint(owner, task_queue) as endpoint,
        working(owner, task_queue),
        working(desk, task_queue, workflows=[MadeUp]),
    ):
        ended = await desk.execute_workflow(MadeUp.run, args=[endpoint, calls], id=uuid4().hex, task_queue=task_queue)
    assert [kind for kind, _ in ended] == ["UnknownTool", "ToolChanged", "called", "ToolChanged"]
    assert local.calls == [("delete_file", {"path": "a.txt"})]  # by the catalogue's own definition, not a workflow


@pytest.mark.slow
@pytest.mark.parametrize("key", ["", "the same"])
async def test_a_tool_that_is_a_workflow_is_called_for_another_namespace(
    temporal_address: str, task_queue: str, key: str
) -> None:
    plugin = OrchestratorPlugin(catalogue=Catalogue([PUBLISH]), nexus=["org:1", "org:2"])
    owner = await Client.connect(temporal_address, plugins=[plugin])
    other = OrchestratorPlugin(register=False)
    desk = await Client.connect(temporal_address, namespace=await nexus.new_namespace(owner), plugins=[other])
    key = key and f"{key} {task_queue}"
    calls = [
        ToolCall(tenant=tenant, tool=PUBLISH, arguments={"title": "May"}, idempotency_key=key)
        for tenant in ("org:1", "org:2")
    ]
    async with (
        nexus.new_endpoint(owner, task_queue) as endpoint,
        working(owner, task_queue, workflows=[Publish]),
        working(desk, task_queue, workflows=[MadeUp]),
    ):
        ended = await desk.execute_workflow(MadeUp.run, args=[endpoint, calls], id=uuid4().hex, task_queue=task_queue)
    assert [kind for kind, _ in ended] == ["called", "called"]


def test_tenants_of_nexus_are_given_as_a_list() -> None:
    with pytest.raises(InvalidInput, match="nexus='org:1': give True or False or a list"):
        plugin_over(nexus="org:1")
