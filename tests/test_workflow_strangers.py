"""Clients that import nothing of ours: JSON in and out by name, in another language too; bad input says so."""

import asyncio
import json
import math
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue

from orchestrator.records.run import StepStatus
from orchestrator.temporal.call import why_failed
from tests.running import plugin_over
from tests.servers.real import node, node_servers_installed
from tests.temporal import until, working

CLIENT = Path(__file__).parent / "node" / "client.mjs"
ROUTE, RUN = "toolroute.route", "toolroute.run"


@pytest.fixture
async def stranger(temporal_address: str, task_queue: str) -> AsyncIterator[Client]:
    """A client without our plugin, beside a worker that has it."""
    worker_side = await Client.connect(temporal_address, plugins=[plugin_over()])
    async with working(worker_side, task_queue):
        yield await Client.connect(temporal_address)


async def test_plain_json_goes_in_and_comes_out(stranger: Client, task_queue: str) -> None:
    asked = {"query": "Read the file a.txt", "tenant": "org:1", "limit": 2, "a field of a later version": 1}
    answer: Any = await stranger.execute_workflow(ROUTE, asked, id=uuid.uuid4().hex, task_queue=task_queue)
    assert answer["recommended"] == ["files:read_file"]
    assert len(answer["matches"]) <= 2
    assert answer["matches"][0]["tool"]["name"] == "read_file"


@pytest.mark.skipif(
    not node_servers_installed and not os.environ.get("CI"), reason="the npm packages are not installed: make test"
)
async def test_a_client_in_another_language_routes_runs_and_asks_how_it_stands(
    stranger: Client, temporal_address: str, task_queue: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(str(node), str(CLIENT), temporal_address, task_queue, "Read the file a.txt"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    told = json.loads(out)
    assert told["decision"]["recommended"] == ["files:read_file"]
    assert [step["status"] for step in told["result"]["steps"]] == ["done"]
    assert told["result"]["answer"] == "read_file a.txt"
    assert told["progress"]["phase"] == "done"


@pytest.mark.parametrize(
    ("workflow", "given", "said"),
    [
        (ROUTE, {"task": "x"}, "query: Field required. Its fields are query, tenant"),
        (ROUTE, "Read the file", "input: Input should be an object, not 'Read the file'"),
        (ROUTE, {"query": "x", "tenant": "org:1", "route_hint": "huh"}, "'auto', 'keyword' or 'semantic', not 'huh'"),
        (RUN, {"query": "x"}, "task: Field required. Its fields are task, tenant"),
        (RUN, {"task": "x", "limits": {"max_total_tokens": "lots"}}, "limits.max_total_tokens"),
        (
            RUN,
            {"task": "x", "approveDestructive": True},
            "'approveDestructive' is no field: did you mean 'approve_destr",
        ),
        (RUN, {"task": "x", "limits": {"maxTotalTokens": 9}}, "Limits: 'maxTotalTokens' is no field: did you mean"),
        (ROUTE, {"query": "x", "tenant": "org:1", "filter": {}}, "'filter' is no field: did you mean 'filters'?"),
        (RUN, {"task": "x", "call_timeout_s": 1e18}, "call_timeout_s=1e+18: give seconds, from 0.001 to 10,000"),
        (RUN, {"task": "x", "call_timeout_s": 1e-9}, "call_timeout_s=1e-09: give seconds"),
        (RUN, {"task": "x", "heartbeat_s": math.inf}, "heartbeat_s=inf: give seconds"),
        (RUN, {"task": "x", "approval_timeout_s": math.nan}, "approval_timeout_s=nan: give seconds"),
        (RUN, None, "give one JSON object"),
    ],
)
async def test_input_that_cannot_be_read_fails_at_once_and_says_why(
    stranger: Client, task_queue: str, workflow: str, given: Any, said: str
) -> None:
    handle = await stranger.start_workflow(workflow, given, id=uuid.uuid4().hex, task_queue=task_queue)
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 30)
    kind, message = why_failed(failure.value.cause)
    assert kind == "InvalidInput"
    assert said in message


def _lists(levels: int) -> bytes:
    return b'{"task": "x", "query": "x", "arguments": {"path": %b%b}}' % (b"[" * levels, b"]" * levels)


@pytest.mark.parametrize("workflow", [ROUTE, RUN])
@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"", "the input cannot be read (Expecting value"),
        (b'{"task": ', "the input cannot be read (Expecting value"),
        (b'{"task": "\xff"}', "the input cannot be read ('utf-8' codec can't decode byte 0xff"),
        (_lists(600), "the input cannot be read (it is nested deeper than 350 levels): give one JSON object"),
        (_lists(990), "the input cannot be read ("),
    ],
    ids=["nothing", "half of it", "no UTF-8", "deep", "deeper than Python reads"],
)
async def test_what_is_no_json_or_too_deep_fails_at_once_too(
    stranger: Client, task_queue: str, workflow: str, written: bytes, said: str
) -> None:
    given = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=written))
    handle = await stranger.start_workflow(workflow, given, id=uuid.uuid4().hex, task_queue=task_queue)
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 30)
    kind, message = why_failed(failure.value.cause)
    assert kind == "InvalidInput"
    assert said in message


@pytest.mark.parametrize("workflow", [ROUTE, RUN])
async def test_no_input_at_all_fails_at_once_too(stranger: Client, task_queue: str, workflow: str) -> None:
    handle = await stranger.start_workflow(workflow, id=uuid.uuid4().hex, task_queue=task_queue)
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 30)
    assert "give one JSON object" in why_failed(failure.value.cause)[1]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"task": "Read the file a.txt"}, "UnknownTenant"),
        ({"task": "Read the file a.txt", "tenant": "org:1", "limit": "many"}, "InvalidInput"),
        ({"task": "x" * 200_000, "tenant": "org:1"}, "PayloadTooLarge"),
    ],
)
async def test_the_progress_of_a_run_that_failed_says_so_and_why(
    stranger: Client, task_queue: str, given: dict[str, Any], kind: str
) -> None:
    handle = await stranger.start_workflow(RUN, given, id=uuid.uuid4().hex, task_queue=task_queue)
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(handle.result(), 30)
    progress: Any = await handle.query("toolroute.progress")
    assert progress["phase"] == "failed"
    assert progress["reason"].startswith(f"{kind}: ")


@pytest.mark.parametrize("word", [(), (None,), (1, {"step": "s1"}), (["s1"],)])
async def test_a_word_that_names_no_step_is_no_word_and_holds_nothing_up(
    stranger: Client, task_queue: str, word: tuple[Any, ...]
) -> None:
    asked = {"task": "Delete the file a.txt", "tenant": "org:1", "approve_destructive": True}
    handle = await stranger.start_workflow(RUN, asked, id=uuid.uuid4().hex, task_queue=task_queue)
    await handle.signal("toolroute.approve", args=word)
    assert (await until(handle, "s1", StepStatus.NEEDS_APPROVAL)).phase == "running"
    await handle.signal("toolroute.reject", args=["s1", "s2"])
    result: Any = await asyncio.wait_for(handle.result(), 30)
    assert [step["status"] for step in result["steps"]] == ["refused"]
