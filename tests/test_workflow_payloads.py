"""Bad input fails at once, also for clients that import nothing of ours. Payloads that are too large are cut or
refused.
"""

import asyncio
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue

from orchestrator import Executor, StepStatus, ToolCall, ToolResult, Turn
from orchestrator.temporal.workflow.payload import MAX_RESULT_BYTES, hold_bytes
from tests.my_workflow import CallPublisher, Publish, SideBySide
from tests.runner import Runner, Serve
from tests.running import plugin_over
from tests.servers.real import node, node_servers_installed
from tests.temporal import why_failed
from tests.test_workflow_route import publisher

ROUTE, RUN = "toolroute.route", "toolroute.run"
SIDE_BY_SIDE = " and ".join([*(f"read the file {letter}.txt" for letter in "abcdefg"), "delete the file h.txt"])
LARGE = "x" * 600_000
EMOJI, PLAIN = "\U0001f600" * 60_000, "x" * 1_000_000


@pytest.fixture
async def stranger(runner: Runner, temporal_address: str) -> Client:
    """Return a client without our plugin. A worker has the plugin."""
    return await Client.connect(temporal_address)


async def test_plain_json_goes_in_and_comes_out(stranger: Client, task_queue: str) -> None:
    asked = {"query": "Read the file a.txt", "tenant": "org:1", "limit": 2}
    answer: Any = await stranger.execute_workflow(ROUTE, asked, id=uuid4().hex, task_queue=task_queue)
    assert answer["recommended"] == ["files:read_file"]
    assert len(answer["matches"]) <= 2


@pytest.mark.parametrize(
    ("workflow", "asked"),
    [
        (ROUTE, {"query": "Read the file a.txt \ud83d"}),
        (ROUTE, {"query": "Read the file a.txt", "conversation": [{"text": "\ud83d"}]}),
        ("toolroute.route_staged", {"query": "\udc00 Read the file a.txt"}),
    ],
)
async def test_half_a_surrogate_pair_of_a_client_is_replaced(
    stranger: Client, task_queue: str, workflow: str, asked: dict[str, Any]
) -> None:
    asked = {**asked, "tenant": "org:1"}
    answer: Any = await stranger.execute_workflow(workflow, asked, id=uuid4().hex, task_queue=task_queue)
    assert answer["recommended"] == ["files:read_file"]


@pytest.mark.skipif(
    not node_servers_installed and not os.environ.get("CI"), reason="the npm packages are not installed: make test"
)
async def test_a_client_in_another_language_routes_runs_and_asks_how_it_stands(
    stranger: Client, temporal_address: str, task_queue: str
) -> None:
    client = Path(__file__).parent / "node" / "client.mjs"
    process = await asyncio.create_subprocess_exec(
        *(str(node), str(client), temporal_address, task_queue, "Read the file a.txt"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 150)
    assert process.returncode == 0, err.decode()
    told = json.loads(out)
    assert told["decision"]["recommended"] == ["files:read_file"]
    assert told["result"]["answer"] == "read_file a.txt"
    assert told["progress"]["phase"] == "done"


def _raw(data: bytes) -> RawValue:
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data))


NESTED = b'{"task": "x", "query": "x", "arguments": {"path": %b%b}}' % (b"[" * 600, b"]" * 600)


@pytest.mark.parametrize(
    ("workflow", "given", "kind", "said"),
    [
        (ROUTE, {}, "InvalidInput", "query: Field required. Its fields are query, tenant"),
        (ROUTE, {"query": "x", "tenant": "org:1", "route_hint": "huh"}, "InvalidInput", "or 'graph', not 'huh'"),
        (ROUTE, {"query": "x", "tennant": "org:1"}, "InvalidInput", "'tennant' (did you mean 'tenant'?). Its fields"),
        (ROUTE, {"query": "x", "tenant": "org:1", "fresh": 1}, "InvalidInput", "unknown field 'fresh'. Its fields"),
        (ROUTE, {"query": 2 * LARGE, "tenant": "org:1"}, "InvalidInput", "limit 100,000"),
        (ROUTE, _raw(b'{"task": '), "InvalidInput", "Invalid JSON"),
        (RUN, _raw(b'{"task": "\xff"}'), "InvalidInput", "RunRequest: "),
        (RUN, _raw(NESTED), "InvalidInput", "recursion limit exceeded"),
        (RUN, None, "InvalidInput", "give one JSON object"),
        (RUN, {"task": " ", "tenant": "org:1"}, "InvalidInput", "task is empty"),
        (RUN, {"task": "x", "approve": "sometimes"}, "InvalidInput", "approve: Input should be 'changes'"),
        (RUN, {"task": "x", "limits": {"maxTotal": 9}}, "InvalidInput", "Limits: unknown field 'maxTotal'"),
        (RUN, {"task": "x", "dry_run": True}, "InvalidInput", "RunRequest: unknown field 'dry_run'"),
        (RUN, {"task": "x", "call_timeout_s": 1e18}, "InvalidInput", "call_timeout_s=1e+18: give seconds"),
        (RUN, {"task": "x", "approval_timeout_s": math.nan}, "InvalidInput", "approval_timeout_s=nan: give seconds"),
        (RUN, {"task": "x", "tenant": "acme"}, "UnknownTenant", "'acme'"),
        (RUN, {"task": "读" * 90_000, "tenant": "org:1"}, "PayloadTooLarge", "the task takes 540,002 bytes"),
    ],
)
async def test_input_that_cannot_be_used_fails_at_once_and_says_why(
    stranger: Client, task_queue: str, workflow: str, given: Any, kind: str, said: str
) -> None:
    handle = await stranger.start_workflow(workflow, given, id=uuid4().hex, task_queue=task_queue)
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 120)
    assert why_failed(failure.value.cause)[0] == kind
    assert said in why_failed(failure.value.cause)[1]
    if workflow == RUN:
        progress: Any = await handle.query("toolroute.progress")
        assert progress["phase"] == "failed"
        assert progress["reason"].startswith(f"{kind}: ")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"task": "Read the file", "arguments": {"path": LARGE}}, "arguments for a plan takes 600,"),
        ({"task": "Read the file", "conversation": (Turn(text=2 * LARGE),)}, "conversation takes"),
        (
            {"task": "Read the file and delete the file", "arguments": {"path": "x" * 300_000}},
            "the arguments of the plan's steps takes 600,",
        ),
    ],
    ids=["arguments", "conversation", "arguments that steps share"],
)
async def test_what_a_history_cannot_hold_fails_the_run_at_once(
    runner: Runner, given: dict[str, Any], said: str
) -> None:
    handle = await runner.start(**given)
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 120)
    kind, message = why_failed(failure.value.cause)
    assert kind == "PayloadTooLarge"
    assert said in message


async def read_blanks(call: ToolCall) -> dict[str, str]:
    return {"text": " " * 180_000, "path": call.arguments["path"]}


async def read_lines(call: ToolCall) -> str:
    return "\n" * 3_000_000


@pytest.mark.parametrize("read_file", [read_blanks, read_lines])
@pytest.mark.parametrize(
    ("task", "steps_per_run"), [(SIDE_BY_SIDE, None), (SIDE_BY_SIDE.replace(" and ", ", then "), 7)]
)
async def test_many_large_results_are_cut_to_what_one_payload_holds(
    serve: Serve, read_file: Callable[..., Any], task: str, steps_per_run: int | None
) -> None:
    """Blanks cost few tokens, so that no token limit cuts them."""
    runner = await serve(plugin_over(executors={"files:*": read_file}))
    result, _ = await runner.run(task, steps_per_run=steps_per_run)
    assert [step.status for step in result.steps] == ["done"] * 8
    told = [step.result for step in result.steps if step.result]
    assert all(one.truncated for one in told)
    assert sum(len(one.text) for one in told) <= 512 * 1024


class Raising(Executor):
    """The user's own Executor. It fails with a long message."""

    async def execute(self, call: ToolCall) -> ToolResult:
        raise OSError(5_000_000 * "x")


def fail_at_length(path: str) -> str:
    raise ValueError(3_000_000 * "x")


async def test_a_failure_of_any_length_is_heard_at_once(serve: Serve) -> None:
    executors = {"files:delete_file": Raising(), "files:read_file": fail_at_length}
    runner = await serve(plugin_over(executors=executors))
    result, handle = await runner.run("Delete the file a.txt and read the file b.txt")
    assert len((await handle.fetch_history()).to_json()) < 200_000
    own, function = result.steps
    assert own.status is StepStatus.OUTCOME_UNKNOWN  # an Executor of one's own broke in an unknown way
    assert "OSError: xxx" in own.reason
    assert function.status is StepStatus.FAILED
    assert function.reason.startswith("ValueError: xxx")


def nested(levels: int) -> Any:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("answer", "structured"),
    [
        ({"text": "a cut emoji \ud83d"}, None),
        ({"mean": float("nan")}, {"mean": None}),
        (nested(160), nested(160)),
        (nested(600), None),
    ],
    ids=["half a character", "no number", "deep", "deeper than JSON readers go"],
)
async def test_what_strict_readers_of_json_refuse_leaves_no_run_stuck(
    serve: Serve, answer: Any, structured: Any
) -> None:
    runner = await serve(plugin_over(executors={"files:*": lambda call: answer}))
    result, _ = await runner.run("Read the file a.txt, then delete the file b.txt", steps_per_run=1)
    assert [step.status for step in result.steps] == ["done", "done"]
    assert [step.result and step.result.structured for step in result.steps] == [structured] * 2


@pytest.mark.parametrize("text", [PLAIN, EMOJI + PLAIN, PLAIN + EMOJI])
@pytest.mark.parametrize("limit", [1_000, MAX_RESULT_BYTES])
def test_a_text_is_held_to_its_bytes_wherever_the_wide_letters_stand(text: str, limit: int) -> None:
    held = hold_bytes(ToolResult(text=text), limit)
    kept, _, mark = held.text.rpartition("\n")
    assert held.truncated
    assert limit / 5 < len(json.dumps(kept)) <= limit
    assert text.startswith(kept)
    assert mark == f"[cut: {len(text) - len(kept):,} of {len(text):,} characters left out]"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("limit", [-5, 0, 1, 2])
@pytest.mark.parametrize("text", ["", "\x00", "a long text"])
def test_a_limit_below_any_text_leaves_the_mark(text: str, limit: int) -> None:
    held = hold_bytes(ToolResult(text=text, structured={"a": 1}), limit)
    assert held.truncated
    assert held.structured is None
    assert held.text in ("", f"\n[cut: {len(text)} of {len(text)} characters left out]")


@pytest.mark.parametrize("tokens", [0, -1])
async def test_a_call_without_tokens_for_its_result_fails(runner: Runner, tokens: int) -> None:
    tool = {"server": "files", "name": "read_file", "kind": "builtin"}
    call = {"tenant": "org:1", "tool": tool, "arguments": {"path": "a.txt"}, "max_result_tokens": tokens}
    with pytest.raises(WorkflowFailureError) as failure:
        await runner.execute("toolroute.call_tool", call)
    kind, message = why_failed(failure.value.cause)
    assert kind == "InvalidInput"
    assert f"ToolCall: max_result_tokens={tokens}: give a number of tokens above 0" in message


async def test_a_child_workflow_with_one_token_is_cut(serve: Serve) -> None:
    runner = await serve(publisher(), CallPublisher, Publish)
    result = await runner.execute(CallPublisher, 1)
    assert result["truncated"]
    assert await runner.execute(CallPublisher, 0) == {"error": "max_result_tokens=0: give a number of tokens above 0"}


@pytest.mark.slow
async def test_five_calls_at_the_same_time_with_a_megabyte_each_leave_no_workflow_stuck(serve: Serve) -> None:
    """Their arguments go out in several workflow tasks, and the child workflows return as much as they receive."""
    runner = await serve(publisher(), SideBySide, Publish)
    assert await runner.execute(SideBySide, 950_000) == 10
