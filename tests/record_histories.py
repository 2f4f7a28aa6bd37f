"""Records the histories that every later version has to replay: `python -m tests.record_histories VERSION`.

Run it once per release. Recorded histories stay unchanged, because a replay that fails means that running workflows
break.
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
from orchestrator.records.run import RunRequest, StepStatus
from orchestrator.temporal.client.devserver import dev_server
from orchestrator.temporal.worker.plugin import OrchestratorPlugin
from orchestrator.testing import ScriptedModel
from tests.decisions import ALL, PUBLISH
from tests.my_workflow import Assistant, Publish
from tests.running import TENANT, LocalTools, plugin_over
from tests.temporal import until_step, working
from tests.test_workflow_model import FILLED, PLANNED, STEPS, TASK

FOLDER = Path(__file__).parent / "histories"
QUEUE = "toolroute-recorded"
RUNS: dict[str, dict[str, Any]] = {
    "steps": {"task": "Read the file a.txt and read the file b.txt, then delete the file c.txt", "approve": "never"},
    "continued": {"task": "Read the file a.txt, then delete the file b.txt", "approve": "never", "steps_per_run": 1},
    "cancelled": {"task": "Read the file a.txt and delete the file b.txt"},
}


async def record(version: str) -> None:
    async with dev_server() as address, ScriptedModel([PLANNED, STEPS, FILLED, "It is noted."]) as model:
        settings = Options(model="m", model_url=model.url)
        assisted = plugin_over(LocalTools(), models=lambda: Models(settings, api_key="recorded"))
        publisher = OrchestratorPlugin(catalogue=Catalogue([*ALL, PUBLISH]))
        for name, given in RUNS.items():
            await _run(version, name, await Client.connect(address, plugins=[plugin_over(LocalTools())]), **given)
        await _run(version, "assisted", await Client.connect(address, plugins=[assisted]), task=TASK)
        client = await Client.connect(address, plugins=[publisher])
        await _run(version, "child", client, task='Publish the report titled "May"', approve="never")
        client = await Client.connect(address, plugins=[plugin_over(LocalTools())])
        async with working(client, QUEUE, workflows=[Assistant]):
            await _record(version, "router", client, "Assistant", "Read the file a.txt")


async def _run(version: str, name: str, client: Client, **settings: Any) -> None:
    async with working(client, QUEUE, workflows=[Publish]):
        await _record(version, name, client, "toolroute.run", RunRequest(tenant=TENANT, **settings))


async def _record(version: str, name: str, client: Client, workflow: str, given: Any) -> None:
    """Write the history of the last execution, if it is not there yet."""
    handle = await client.start_workflow(workflow, given, id=f"recorded-{version}-{name}", task_queue=QUEUE)
    if name == "assisted":
        waits = (await until_step(handle, "s2", StepStatus.NEEDS_APPROVAL)).steps[1]
        await handle.execute_update("toolroute.approve", {"step": "s2", "digest": waits.digest})
    if name == "cancelled":
        await until_step(handle, "s2", StepStatus.NEEDS_APPROVAL)
        await handle.cancel()
    with suppress(WorkflowFailureError):
        await handle.result()
    at = FOLDER / f"{version}-{name}.json"
    if not at.exists():
        await _write(at, client.get_workflow_handle(handle.id))


async def _write(at: Path, handle: WorkflowHandle[Any, Any]) -> None:
    """Write it without the names of machine and process, which nothing replays."""
    text = re.sub(r'"identity": "[^"]*"', '"identity": "recorded"', (await handle.fetch_history()).to_json())
    text = re.sub(r'"(workerInstanceKey|stackTrace)": "[^"]*"', r'"\1": ""', text)
    compact = json.dumps(json.loads(text), separators=(",", ":"))
    await asyncio.to_thread(at.write_text, compact + "\n")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(record(sys.argv[1]))
