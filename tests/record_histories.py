"""Records the histories that every later version has to replay: `python -m tests.record_histories VERSION`.

Run it once a release. What is recorded already stays as it is: a replay that fails means that running workflows break.
"""

import asyncio
import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.llm.client import Models
from orchestrator.options import Options
from orchestrator.records import durable_names as names
from orchestrator.records.budget import Limits
from orchestrator.records.request import RouteRequest
from orchestrator.records.run import RunRequest, StepStatus
from orchestrator.temporal.devserver import dev_server
from orchestrator.temporal.plugin import OrchestratorPlugin
from orchestrator.testing import ScriptedModel
from tests.decisions import ALL, PUBLISH
from tests.my_workflow import Assistant, Patient, Publish
from tests.running import TENANT, Desk, plugin_over
from tests.temporal import child_of, until, working
from tests.test_workflow_model import FILLED, PLANNED, STEPS, TASK

FOLDER = Path(__file__).parent / "histories"
QUEUE = "toolroute-recorded"
TASKS: dict[str, dict[str, Any]] = {
    "steps": {"task": "Read the file a.txt and read the file b.txt, then add a note titled 'x'"},
    "mcp": {"task": "What is the current time in Europe/Berlin?"},
    "needs_input": {"task": "Read the file, then add a note titled 'x'"},
    "further_route": {"task": "Read the file a.txt, then serenade the moon"},
    "refused": {"task": "Read the file a.txt", "limits": Limits(max_total_tokens=12_000)},
    "narrow": {"task": "Read the file a.txt and read the file b.txt", "parallel_steps": 1},
    "continued": {"task": "Read the file a.txt, then read the file b.txt", "steps_per_run": 1},
    "early_yes": {"task": "Delete the file a.txt", "approve_destructive": True, "approval_timeout_s": 0.2},
    "unapproved": {"task": "Delete the file a.txt", "approve_destructive": True, "approval_timeout_s": 0.2},
}


CHILD = {"child": {"task": 'Publish the report titled "May"'}}
CANCELLED = {"cancelled": {"task": "Read the file a.txt and read the file b.txt", "heartbeat_s": 1.0}}
CHILD_CANCELLED = {"child_cancelled": {"task": 'Publish the report titled "May"'}}
ASSISTED: dict[str, dict[str, Any]] = {
    "assisted": {"task": TASK},
    "assisted_continued": {"task": TASK, "steps_per_run": 1},
    "assisted_approved": {"task": TASK, "approve_destructive": True},
    "assisted_unapproved": {"task": TASK, "approve_destructive": True, "approval_timeout_s": 0.2},
}
REPLIES = [PLANNED, STEPS, FILLED, "It is noted."]


async def record(version: str) -> None:
    async with dev_server() as address, ScriptedModel(REPLIES * len(ASSISTED)) as model:
        settings = Options(model="m", model_url=model.url)
        with_model = plugin_over(Desk(), models=lambda: Models(settings, api_key="recorded"))
        await _runs(version, address, plugin_over(Desk()), TASKS)
        publisher = OrchestratorPlugin(catalogue=Catalogue([*ALL, PUBLISH]))
        await _runs(version, address, publisher, CHILD)
        await _runs(version, address, publisher, CHILD_CANCELLED, Patient)
        await _runs(version, address, plugin_over(_lingering()), CANCELLED)
        await _runs(version, address, with_model, ASSISTED)
        client = await Client.connect(address, plugins=[plugin_over(Desk())])
        async with working(client, QUEUE, workflows=[Assistant]):
            slip = {"task": "Read the file a.txt", "tenant": TENANT, "callTimeoutS": 60}
            await _record(version, "run-misnamed", client, names.RUN, slip)
            request = RouteRequest(query="Read the file a.txt", tenant=TENANT)
            await _record(version, "route", client, names.ROUTE, request)
            await _record(version, "router", client, "Assistant", request.query)


def _lingering() -> Desk:
    """Whose calls never end, and whose second one takes its time to stop."""
    desk = Desk()
    desk.release.clear()
    desk.lingers["b.txt"] = 1.0
    return desk


async def _runs(
    version: str,
    address: str,
    plugin: OrchestratorPlugin,
    tasks: dict[str, dict[str, Any]],
    published_by: type = Publish,
) -> None:
    client = await Client.connect(address, plugins=[plugin])
    async with working(client, QUEUE, workflows=[published_by]):
        for name, settings in tasks.items():
            await _record(version, f"run-{name}", client, names.RUN, RunRequest(tenant=TENANT, **settings))


async def _record(version: str, name: str, client: Client, workflow: str, given: Any) -> None:
    """The histories of the first execution and of the last that it continued as, where they are not there yet."""
    early: dict[str, Any] = {"start_signal": names.APPROVE, "start_signal_args": ["s1"]} if "early" in name else {}
    handle = await client.start_workflow(workflow, given, id=f"recorded-{name}", task_queue=QUEUE, **early)
    if name.endswith("_approved"):
        await until(handle, "s2", StepStatus.NEEDS_APPROVAL)
        await handle.signal(names.APPROVE, "s2")
    if name.endswith("child_cancelled"):
        await client.get_workflow_handle(await child_of(handle)).cancel()
    elif name == "run-cancelled":
        await until(handle, "s1", StepStatus.RUNNING)
        await until(handle, "s2", StepStatus.RUNNING)
        await handle.cancel()
    with suppress(WorkflowFailureError):
        await handle.result()
    last = (await client.get_workflow_handle(handle.id).describe()).run_id
    executions = {name: handle.first_execution_run_id}
    if last != handle.first_execution_run_id:
        executions[f"{name}-end"] = last
    for what, run_id in executions.items():
        at = FOLDER / f"{version}-{what}.json"
        if not at.exists():
            await _write(at, client.get_workflow_handle(handle.id, run_id=run_id))


async def _write(at: Path, handle: WorkflowHandle[Any, Any]) -> None:
    """Without the names of machine and process, which nothing replays."""
    text = re.sub(r'"identity": "[^"]*"', '"identity": "recorded"', (await handle.fetch_history()).to_json())
    text = re.sub(r'"(workerInstanceKey|stackTrace)": "[^"]*"', r'"\1": ""', text)
    compact = json.dumps(json.loads(text), separators=(",", ":"))
    await asyncio.to_thread(at.write_text, compact + "\n")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(record(sys.argv[1]))
