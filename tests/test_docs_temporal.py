"""The Python of docs/how-to/temporal.md and docs/how-to/temporal-tools.md runs, and its names exist."""

import importlib
import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client

from orchestrator import OrchestratorPlugin, StepStatus
from tests import durable_agents
from tests.pages import ROOT, python_of
from tests.running import plugin_over
from tests.temporal import working

TEXT = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*/temporal*.md"))
[WORKFLOW, FOLLOW, START] = python_of("docs/how-to/temporal.md")
[PLUGIN, WORKER, OPENAPI] = python_of("docs/how-to/temporal-tools.md")
[SERVED, CALLER] = python_of("docs/how-to/temporal-nexus.md")
[SCHEDULED, STORED] = python_of("docs/how-to/temporal-operating.md")


async def test_the_workflow_of_the_page_runs(
    temporal_address: str, task_queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = _as_module(WORKFLOW, tmp_path, monkeypatch)
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    async with working(client, task_queue, workflows=[page["Desk"]]):
        for task, answer in (
            ("Read the file a.txt", "read_file a.txt"),
            ("Read the file", "say path for files:read_file"),
        ):
            answered = await client.execute_workflow(page["Desk"].run, task, id=uuid4().hex, task_queue=task_queue)
            assert answered == answer


async def test_the_run_of_the_page_is_started_read_and_followed(
    temporal_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = _as_module(START, tmp_path, monkeypatch)
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    async with working(client, "toolroute"):
        result = await page["carry_out"](client, "Read the file a.txt")
        await _as_module(FOLLOW, tmp_path, monkeypatch)["follow"](client, "desk-Read the file a.txt")
    assert [str(step.status) for step in result.steps] == ["done"]
    assert capsys.readouterr().out.splitlines()[-1] == "s1 files:read_file done"


@pytest.mark.parametrize("code", [PLUGIN, SERVED, OPENAPI], ids=["tools", "nexus", "openapi"])
def test_the_plugin_of_the_page_can_be_made(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = {"operationId": "list_orders", "summary": "List the orders."}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://shop.example"}],
        "paths": {"/orders": {"get": operation}},
        "components": {"securitySchemes": {"bearerAuth": {"type": "http", "scheme": "bearer"}}},
    }
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    monkeypatch.setenv("SHOP_TOKEN", "any")
    monkeypatch.chdir(tmp_path)
    assert isinstance(_as_module(code, tmp_path, monkeypatch)["plugin"], OrchestratorPlugin)


def test_the_workflow_of_the_nexus_page_is_that_of_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = (ROOT / "examples" / "nexus.py").read_text(encoding="utf-8")
    calls = re.findall(r"await toolroute\.execute_operation\(.*?WITHIN\s*\)", CALLER, re.DOTALL)
    assert len(calls) == 3
    assert all(call in example for call in calls)
    assert _as_module(CALLER, tmp_path, monkeypatch)["Desk"]


def test_the_durable_agents_of_the_page_are_those_of_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    page = _as_module(python_of("docs/how-to/durable-agents.md")[0], tmp_path, monkeypatch)
    assert {"PydanticDesk", "OpenAIDesk"} <= {*page} & {*vars(durable_agents)}


async def test_the_worker_of_the_page_is_made(
    temporal_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    worker = _as_module(WORKER, tmp_path, monkeypatch)["worker_of"](client)
    assert worker.task_queue == "desk"


async def test_the_schedule_of_the_page_is_made(
    temporal_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = _as_module(SCHEDULED, tmp_path, monkeypatch)
    handle = await page["keep_in_sync"](await Client.connect(temporal_address))
    assert (await handle.describe()).schedule.spec.intervals[0].every.total_seconds() == 6 * 3600
    await handle.delete()


def test_every_durable_name_and_status_is_on_the_page() -> None:
    used = {
        "toolroute.route",
        "toolroute.plan",
        "toolroute.complete",
        "toolroute.call_tool",
        "toolroute.check_call",
        "toolroute.run",
    }
    used |= {"toolroute.sync_catalogue", "toolroute.approve", "toolroute.progress", "toolroute/idempotency-key"}
    ways = {"pending", "waiting", "running"}
    assert all(f"`{name}`" in TEXT for name in used | {str(status) for status in StepStatus} - ways)


def _as_module(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The code as a module that the workflow sandbox, too, can import."""
    name = f"page_{uuid4().hex[:8]}"
    (folder / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    return vars(importlib.import_module(name))
