"""Records the histories that every later version has to replay: `python -m tests.record_histories VERSION`.

Run it once a release, never to make a failing replay pass.
"""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from orchestrator import names
from orchestrator.devserver import dev_server
from orchestrator.models import RouteRequest
from orchestrator.plans import Limits, RunRequest
from tests.running import TENANT, Desk, plugin_over
from tests.temporal import working

FOLDER = Path(__file__).parent / "histories"
QUEUE = "toolroute-recorded"
TASKS: dict[str, dict[str, Any]] = {
    "steps": {"task": "Read the file a.txt and read the file b.txt, then add a note titled 'x'"},
    "mcp": {"task": "What is the current time in Europe/Berlin?"},
    "needs_input": {"task": "Read the file, then add a note titled 'x'"},
    "further_route": {"task": "Read the file a.txt, then serenade the moon"},
    "refused": {"task": "Read the file a.txt", "limits": Limits(max_total_tokens=12_000)},
    "continued": {"task": "Read the file a.txt, then read the file b.txt", "steps_per_run": 1},
    "unapproved": {"task": "Delete the file a.txt", "approve_destructive": True, "approval_timeout_s": 0.2},
}


async def record(version: str) -> None:
    async with dev_server() as address:
        client = await Client.connect(address, plugins=[plugin_over(Desk())])
        async with working(client, QUEUE):
            for name, settings in TASKS.items():
                request = RunRequest(tenant=TENANT, **settings)
                handle = await client.start_workflow(names.RUN, request, id=f"recorded-{name}", task_queue=QUEUE)
                first = client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id)
                await handle.result()
                await _write(f"{version}-run-{name}", first)
            request_only = RouteRequest(query="Read the file a.txt", tenant=TENANT)
            handle = await client.start_workflow(names.ROUTE, request_only, id="recorded-route", task_queue=QUEUE)
            await handle.result()
            await _write(f"{version}-route", handle)


async def _write(name: str, handle: WorkflowHandle[Any, Any]) -> None:
    """Without the names of machine and process, which nothing replays."""
    text = re.sub(r'"identity": "[^"]*"', '"identity": "recorded"', (await handle.fetch_history()).to_json())
    text = re.sub(r'"(workerInstanceKey|stackTrace)": "[^"]*"', r'"\1": ""', text)
    compact = json.dumps(json.loads(text), separators=(",", ":"))
    await asyncio.to_thread((FOLDER / f"{name}.json").write_text, compact + "\n")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(record(sys.argv[1]))
