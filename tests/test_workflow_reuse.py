"""What a run does once and only once, counted outside of it: at the embedder's HTTP port and in the tools."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client

from orchestrator import names
from orchestrator.executors import Executor
from orchestrator.models import RouteHint
from orchestrator.options import Options
from orchestrator.plans import RunRequest, RunResult, ToolCall, ToolResult
from tests.running import TENANT, plugin_over
from tests.temporal import activities_of, working


class Embedder:
    """An OpenAI-compatible embeddings endpoint on loopback: vectors from the words' hashes; it keeps every input."""

    def __init__(self) -> None:
        self.inputs: list[str] = []

    async def embed(self, request: Request) -> JSONResponse:
        texts = (await request.json())["input"]
        texts = [texts] if isinstance(texts, str) else texts
        self.inputs.extend(texts)
        data = [
            {"object": "embedding", "index": index, "embedding": base64.b64encode(self._vector(text)).decode()}
            for index, text in enumerate(texts)
        ]
        return JSONResponse({"object": "list", "data": data, "model": "words", "usage": {"prompt_tokens": 1}})

    def _vector(self, text: str) -> bytes:
        vector = np.zeros(64, np.float32)
        for word in text.lower().replace("_", " ").split():
            vector[int(hashlib.sha256(word.encode()).hexdigest(), 16) % 64] += 1
        return vector.tobytes()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        app = Starlette(routes=[Route("/v1/embeddings", self.embed, methods=["POST"])])
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  (uvicorn has no event to wait for)
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
        server.should_exit = True
        await serving


class Keeping(Executor):
    """Answers at once and keeps the keys of its calls."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def execute(self, call: ToolCall) -> ToolResult:
        self.keys.append(call.idempotency_key)
        return ToolResult(text=call.tool.name)


async def _run(client: Client, task_queue: str, task: str, **settings: Any) -> Any:
    request = RunRequest(task=task, tenant=TENANT, **settings)
    handle = await client.start_workflow(
        names.RUN, request, id=f"run-{uuid4().hex[:8]}", task_queue=task_queue, result_type=RunResult
    )
    result: RunResult = await asyncio.wait_for(handle.result(), 60)
    return handle, result


async def test_a_whole_run_asks_the_embedder_once(
    temporal_address: str, task_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    embedder, keeping = Embedder(), Keeping()
    async with embedder.served() as url:
        options = Options(embedder="openai:words", model_url=url, semantic_timeout_s=20)
        plugin = plugin_over(executors={"builtin": keeping}, options=options)
        client = await Client.connect(temporal_address, plugins=[plugin])
        async with working(client, task_queue):
            task = "Read the file a.txt and then add a note titled 'x' and read the file b.txt"
            _, result = await _run(client, task_queue, task, route_hint=RouteHint.SEMANTIC)
    assert result.decision.semantic_ran
    assert len(keeping.keys) == 3
    assert embedder.inputs.count(task) == 1


async def test_a_reset_repeats_the_keys_and_another_run_does_not(temporal_address: str, task_queue: str) -> None:
    keeping = Keeping()
    client = await Client.connect(temporal_address, plugins=[plugin_over(executors={"builtin": keeping})])
    async with working(client, task_queue):
        handle, result = await _run(client, task_queue, "Read the file a.txt and then add a note titled 'x'")
        first = list(keeping.keys)
        assert first == [f"{handle.id}:{result.plan.id}:{step}" for step in ("s1", "s2")]
        reset = ResetWorkflowExecutionRequest(
            namespace="default",
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=handle.first_execution_run_id or ""),
            workflow_task_finish_event_id=4,
            request_id=uuid4().hex,
            reason="a test: everything again",
        )
        await client.workflow_service.reset_workflow_execution(reset)
        again = client.get_workflow_handle(handle.id, result_type=RunResult)
        await asyncio.wait_for(again.result(), 60)
        assert keeping.keys == first + first
        assert (await activities_of(again)).count(names.CALL_TOOL) == 2
        _, other = await _run(client, task_queue, "Read the file a.txt and then add a note titled 'x'")
        assert other.plan.id != result.plan.id
