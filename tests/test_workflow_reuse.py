"""What a run does once and only once, counted outside of it: at the ports of store and embedder, and in the tools."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle

from orchestrator.index.embed import embedder_for
from orchestrator.options import Options
from orchestrator.records import durable_names as names
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.run import Approve, RunRequest, RunResult
from orchestrator.store.store import Store
from orchestrator.temporal.executors import Executor
from orchestrator.temporal.plugin import OrchestratorPlugin
from orchestrator.testing import ScriptedModel
from tests.decisions import ALL
from tests.my_workflow import Again
from tests.qdrant_front import QdrantFront, qdrant_front
from tests.running import TENANT, plugin_over
from tests.stores import by_server
from tests.temporal import activities_of, working


class Keeping(Executor):
    """Answers at once and keeps the keys of its calls."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def execute(self, call: ToolCall) -> ToolResult:
        self.keys.append(call.idempotency_key)
        return ToolResult(text=call.tool.name)


async def _run(client: Client, task_queue: str, task: str, **settings: Any) -> Any:
    request = RunRequest(task=task, tenant=TENANT, approve=Approve.NEVER, **settings)
    handle = await client.start_workflow(
        names.RUN, request, id=f"run-{uuid4().hex[:8]}", task_queue=task_queue, result_type=RunResult
    )
    result: RunResult = await asyncio.wait_for(handle.result(), 60)
    return handle, result


async def _reset(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    """Everything again from the first task on."""
    reset = ResetWorkflowExecutionRequest(
        namespace="default",
        workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=handle.first_execution_run_id or ""),
        workflow_task_finish_event_id=4,
        request_id=uuid4().hex,
        reason="a test: everything again",
    )
    await client.workflow_service.reset_workflow_execution(reset)


@dataclass
class Site:
    """A worker whose store and whose embedder are both behind HTTP ports that count, and what its tools were asked."""

    client: Client
    task_queue: str
    store: QdrantFront
    embedder: ScriptedModel
    keeping: Keeping

    def asked(self) -> tuple[list[str], list[list[str]]]:
        """What reached the store's port and the embedder's since this was last called."""
        seen = list(self.store.requests), [list(asked.body["input"]) for asked in self.embedder.asked]
        self.store.requests.clear()
        self.embedder.asked.clear()
        return seen

    async def route(self, task: str) -> None:
        request = RouteRequest(query=task, tenant=TENANT, route_hint=RouteHint.SEMANTIC)
        await self.client.execute_workflow(names.ROUTE, request, id=uuid4().hex, task_queue=self.task_queue)


@pytest.fixture
async def site(temporal_address: str, task_queue: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    with qdrant_front() as store, ScriptedModel() as embedder:
        options = Options(embedder="openai:words", model_url=embedder.url, semantic_timeout_s=20, store=store.url)
        filled = Store(store.url, embedder=lambda: embedder_for(options))
        await asyncio.to_thread(filled.replace_servers, TENANT, by_server(ALL))
        filled.close()
        keeping = Keeping()
        plugin = OrchestratorPlugin(store=store.url, options=options, executors={"builtin": keeping})
        client = await Client.connect(temporal_address, plugins=[plugin])
        async with working(client, task_queue):
            yield Site(client, task_queue, store, embedder, keeping)


async def test_a_whole_run_asks_store_and_embedder_what_one_route_asks(site: Site) -> None:
    task = "Read the file a.txt and then add a note titled 'x' and read the file b.txt"
    await site.route("the first route of a worker loads the tenant's index")
    site.asked()
    await site.route(task)
    at_store, at_embedder = site.asked()
    assert at_store
    assert len(at_embedder) == 1
    _, result = await _run(site.client, site.task_queue, task, route_hint=RouteHint.SEMANTIC)
    assert site.asked() == (at_store, at_embedder)
    assert result.decision.semantic_ran
    assert len(site.keeping.keys) == 3


async def test_a_step_outside_the_matches_costs_one_further_search(site: Site) -> None:
    task = "Read the file a.txt, then serenade the moon, then whistle at dawn"
    await site.route(task)
    site.asked()
    await site.route(task)
    at_store, _ = site.asked()
    _, result = await _run(site.client, site.task_queue, task, route_hint=RouteHint.SEMANTIC)
    twice, embedded = site.asked()
    assert twice == at_store * 2
    assert [texts[0] for texts in embedded] == [task, "serenade the moon; whistle at dawn"]
    assert len(result.extra_routes) == 1


async def test_what_a_workflow_does_again_on_purpose_has_other_keys(temporal_address: str, task_queue: str) -> None:
    keeping = Keeping()
    client = await Client.connect(temporal_address, plugins=[plugin_over(executors={"builtin": keeping})])
    async with working(client, task_queue, workflows=[Again]):
        given, name = ["Read the file a.txt", 2], uuid4().hex
        handle = await client.start_workflow(Again.run, args=given, id=name, task_queue=task_queue)
        await asyncio.wait_for(handle.result(), 60)
        assert len(set(keeping.keys)) == len(keeping.keys) == 8
        assert all(key.startswith(f"{name}:") for key in keeping.keys)
        first = list(keeping.keys[:4])
        await _reset(client, handle)
        await asyncio.wait_for(client.get_workflow_handle(name).result(), 60)
        assert keeping.keys[8:12] == first


async def test_a_reset_repeats_the_keys_and_another_run_does_not(temporal_address: str, task_queue: str) -> None:
    keeping = Keeping()
    client = await Client.connect(temporal_address, plugins=[plugin_over(executors={"builtin": keeping})])
    async with working(client, task_queue):
        handle, result = await _run(client, task_queue, "Read the file a.txt and then add a note titled 'x'")
        first = list(keeping.keys)
        assert first == [f"{handle.id}:{result.plan.id}:{step}" for step in ("s1", "s2")]
        await _reset(client, handle)
        again = client.get_workflow_handle(handle.id, result_type=RunResult)
        await asyncio.wait_for(again.result(), 60)
        assert keeping.keys == first + first
        assert (await activities_of(again)).count(names.CALL_TOOL) == 2
        _, other = await _run(client, task_queue, "Read the file a.txt and then add a note titled 'x'")
        assert other.plan.id != result.plan.id
