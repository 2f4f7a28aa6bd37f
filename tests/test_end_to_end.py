"""A task of three steps with a dependency, within the budget: three real MCP servers, a scripted model over HTTP and a
real Temporal server. The worker is killed on the way.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client

from orchestrator import Approve, Connections, RunRequest, RunResult, Store
from orchestrator.llm.prompts import CHOOSE, FILL, PLAN
from orchestrator.mcp.sync import sync
from orchestrator.testing import Fault, ModelRequest, ScriptedModel, environment
from tests.servers.real import node_entry, node_servers_installed, python_entry
from tests.servers.start import config
from tests.stores import shipped
from tests.temporal import replays, scheduled

ROOT = Path(__file__).parents[1]
KEY = "sk-end-to-end-never-shown"
TENANT = "org:acme"

pytestmark = pytest.mark.skipif(
    not node_servers_installed and not os.environ.get("CI"),
    reason="the npm servers are not installed: make node-servers",
)


class Model:
    """The scripted model: plans from the tools it is shown, hangs at the last filling, then reads the results."""

    def __init__(self, repository: Path) -> None:
        self.repository = str(repository)
        self.filling = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    async def __call__(self, asked: ModelRequest) -> Any:
        if asked.wants == "ChosenShape":
            return {"action": "plan", "reasons": ["the entity needs both results"], "confidence": 0.95}
        if asked.wants == "PlanShape":
            return {"reasons": ["three calls"], "steps": self._steps(asked.text)}
        if asked.wants == "FilledShape":
            return await self._fill(asked)
        commit = re.findall(r"[0-9a-f]{40}", asked.text)
        return f"Remembered {commit[0]}." if commit else Fault(400, "no result was shown")

    def _steps(self, shown: str) -> list[dict[str, Any]]:
        """Return three steps. A step whose tool was not shown names none, and so asks for a further route."""
        steps: list[dict[str, Any]] = [
            {
                "task": "show the git log",
                "tool": "git:git_log",
                "arguments": json.dumps({"repo_path": self.repository}),
            },
            {"task": "the time", "tool": "time:get_current_time", "arguments": '{"timezone": "Asia/Tokyo"}'},
            {
                "task": "remember both",
                "tool": "memory:create_entities",
                "from_results": ["entities"],
                "depends_on": ["s1", "s2"],
            },
        ]
        unseen = {"tool": "", "arguments": "{}"}
        return [
            {**step, "id": f"s{number}", **({} if step["tool"] in shown else unseen)}
            for number, step in enumerate(steps, 1)
        ]

    async def _fill(self, asked: ModelRequest) -> Any:
        if "create_entities" not in asked.text:
            return {"arguments": json.dumps({"repo_path": self.repository}), "why": "the task"}
        if not self.filling.is_set():
            self.loop.call_soon_threadsafe(self.filling.set)
            await asyncio.sleep(60)
        (commit, *_), (zone, *_) = re.findall(r"[0-9a-f]{40}", asked.text), re.findall("Asia/Tokyo", asked.text)
        entity = {"name": commit, "entityType": "commit", "observations": [f"seen in {zone}"]}
        return {"arguments": json.dumps({"entities": [entity]}), "why": "s1 and s2"}


@asynccontextmanager
async def worker(env: Mapping[str, str], *options: str) -> AsyncIterator[None]:
    """Run a worker process, and kill it with SIGKILL at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator", "worker", *options),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(180):
            while b"serves" not in (line := await process.stderr.readline()):
                assert line, "the worker ended"
        yield
    finally:
        process.kill()
        await process.communicate()


def _repository(folder: Path) -> Path:
    git = ("git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for command in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run([*git, *command], check=True)
    return folder


async def _listed(store: str, servers: dict[str, Any]) -> None:
    known = Store(store, embedder=shipped())
    async with Connections(servers) as connections:
        report = await sync(connections, known, TENANT)
    known.close()
    assert [server.error for server in report.servers] == [""] * 3


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_three_servers_a_model_and_a_kill(temporal_address: str, task_queue: str, tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    repository = _repository(tmp_path / "repository")
    notes = tmp_path / "memory.json"
    servers = config(
        time=python_entry("mcp_server_time"),
        git=python_entry("mcp_server_git"),
        memory=node_entry("memory", MEMORY_FILE_PATH=str(notes)),
    )
    file, store = tmp_path / "mcp.json", str(tmp_path / "store")
    file.write_text(json.dumps(servers))
    await _listed(store, servers)

    task = (
        f"Show the git log of the repository {repository}, get the current time in Asia/Tokyo, "
        "and then create an entity in the knowledge graph that remembers both"
    )
    script = Model(repository)
    client = await Client.connect(temporal_address)
    async with ScriptedModel(script, key=KEY) as model:
        where = ("--address", temporal_address, "--task-queue", task_queue)
        arguments = (environment(model, key=KEY), *where, "--store", store, "--config", str(file))
        async with worker(*arguments):
            request = RunRequest(task=task, tenant=TENANT, approve=Approve.NEVER)
            handle = await client.start_workflow(
                "toolroute.run", request, id=f"run-{uuid4().hex[:8]}", task_queue=task_queue, result_type=RunResult
            )
            await asyncio.wait_for(script.filling.wait(), 180)
        async with worker(*arguments):
            result = await asyncio.wait_for(handle.result(), 120)

    commit = (repository / ".git" / "refs" / "heads" / "main").read_text().strip()
    assert [str(step.status) for step in result.steps] == ["done"] * 3
    assert (result.answer, result.plan.model, result.warnings) == (f"Remembered {commit}.", "scripted", ())
    assert json.loads(notes.read_text().splitlines()[0])["name"] == commit
    assert len(notes.read_text().splitlines()) == 1
    assert result.plan.usage.total < result.budget.settled < result.budget.max_total_tokens
    asked = ["ChosenShape", "PlanShape", "FilledShape", "FilledShape", ""]
    assert [one.wants for one in model.asked] == asked

    history = await handle.fetch_history()
    decided = ["toolroute.route", "toolroute.plan"]
    called = [
        "toolroute.call_tool",
        "toolroute.call_tool",
        "toolroute.complete",
        "toolroute.call_tool",
        "toolroute.complete",
    ]
    assert scheduled(history)[:2] == decided
    assert sorted(scheduled(history)[2:]) == sorted(called)
    await replays(history)
    written = b"".join(event.SerializeToString() for event in history.events)
    assert b"git:git_log" in written
    assert KEY.encode() not in written
    assert not [text for text in (CHOOSE, PLAN, FILL) if json.dumps(text[:60])[1:-1].encode() in written]
    decisions = (result.decision, *result.extra_routes)
    matched = {match.tool.key for decision in decisions for match in decision.matches}
    assert len(matched) < result.decision.catalogue.tools
