"""Calls among others: a function that blocks, hangs or fails, and its effect on all other calls."""

import asyncio
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from orchestrator import Annotations, Catalogue, OrchestratorPlugin, Tool, ToolCall
from orchestrator.errors import Busy
from tests.decisions import DELETE, NOW, READ, decision
from tests.runner import Serve, result_of, statuses
from tests.running import plugin_over


@pytest.mark.slow
async def test_a_function_that_blocks_the_event_loop_costs_no_other_call_its_heartbeats(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    under_way, blocked = asyncio.Semaphore(0), asyncio.Event()

    async def charge(title: str) -> str:
        under_way.release()
        await blocked.wait()
        return "charged"

    async def block(path: str) -> str:
        wait_in_a_library(11)
        wait_in_a_library(11)
        blocked.set()
        return "slept"

    runner = await serve(plugin_over(executors={"notes:add_note": charge, "files:read_file": block}))
    charges = [await runner.start("Add a note titled 'x'", heartbeat_s=20.0) for _ in range(5)]
    async with asyncio.timeout(150):
        for _ in charges:
            await under_way.acquire()
    blocking = await runner.start("Read the file a.txt", heartbeat_s=20.0)
    for handle in (*charges, blocking):  # They are not replayed here, because a replay blocks this loop, too.
        assert statuses(await result_of(handle)) == ["done"]
    [warning] = [record.getMessage() for record in caplog.records if "event loop" in record.getMessage()]
    assert warning.startswith(f"wait_in_a_library ({__file__}:")


@pytest.mark.slow
async def test_a_call_outlasts_its_heartbeat_timeout(serve: Serve) -> None:
    async def add_note(title: str) -> str:
        await asyncio.sleep(8)  # The worker cancels what it hears nothing of for the timeout and five seconds.
        return title

    runner = await serve(plugin_over(executors={"notes:add_note": add_note}))
    result, _ = await runner.run("Add a note titled 'x'", heartbeat_s=1.0)
    assert statuses(result) == ["done"]


def wait_in_a_library(seconds: float) -> None:
    """Block in frames of the standard library, as a client of a database does."""
    subprocess.run([sys.executable, "-c", f"import time; time.sleep({seconds})"], check=True)


@pytest.mark.slow
async def test_a_loop_that_stays_blocked_is_found(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.activities.heartbeats.GIVE_UP_S", 1.0)
    under_way, is_first = asyncio.Event(), True

    async def charge(title: str) -> str:
        under_way.set()
        await asyncio.sleep(30)
        return "charged"

    async def block(path: str) -> str:
        nonlocal is_first
        if is_first:
            is_first = False
            time.sleep(12)  # noqa: ASYNC251  (the attack)
        return "slept"

    runner = await serve(plugin_over(executors={"notes:add_note": charge, "files:read_file": block}))
    charged = await runner.start("Add a note titled 'x'", heartbeat_s=3.0)
    await asyncio.wait_for(under_way.wait(), 150)
    result, _ = await runner.run("Read the file a.txt", heartbeat_s=3.0)
    assert statuses(result) == ["done"], "a call that may be repeated was taken again"
    assert statuses(await result_of(charged)) == ["outcome_unknown"]


@pytest.mark.slow
async def test_calls_that_hang_leave_room_for_routing_and_for_the_calls_of_others(serve: Serve) -> None:
    hanging, freed = asyncio.Semaphore(0), asyncio.Event()

    async def hang(path: str) -> str:
        hanging.release()
        await freed.wait()
        return path

    runner = await serve(
        plugin_over(executors={"files:read_file": hang, "notes:add_note": lambda title: title}),
        max_concurrent_activities=4,
    )
    stuck = [await runner.start("Read the file a.txt") for _ in range(5)]
    async with asyncio.timeout(120):
        for _ in range(3):
            await hanging.acquire()
        result, _ = await runner.run("Add a note titled 'x'", tenant="org:2")
    assert (statuses(result), hanging.locked()) == (["done"], True)
    freed.set()
    assert [statuses(await handle.result()) for handle in stuck] == [["done"]] * 5


async def test_a_cancelled_call_hears_of_it_soon(serve: Serve) -> None:
    begun = asyncio.Event()

    async def hang(path: str) -> str:
        begun.set()
        await asyncio.sleep(600)
        return path

    runner = await serve(plugin_over(executors={"files:read_file": hang}))
    handle = await runner.start("Read the file a.txt", heartbeat_s=120.0)
    await asyncio.wait_for(begun.wait(), 150)
    await asyncio.sleep(0.5)  # a worker would send a heartbeat after 60 seconds
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(handle.result(), 150)


async def its_time(call: ToolCall) -> str:
    return f"{call.deadline_s:g} s of {call.replayable}"


@pytest.mark.parametrize(
    ("labels", "said"),
    [({}, "27 s of True"), ({"timeout_s": "20", "idempotent": "false"}, "18 s of False"), ({"retries": "many"}, "")],
    ids=["its entry's", "its label's", "a label that is no limit"],
)
async def test_a_tools_own_limits_go_before_those_of_the_run(serve: Serve, labels: dict[str, str], said: str) -> None:
    entry = {"command": "unused", "toolroute": {"timeout_s": 30, "idempotent": True}}
    tool = replace(NOW, annotations=Annotations(), labels=labels, hash="")
    plugin = OrchestratorPlugin(
        catalogue=Catalogue([tool]), mcp_servers={"mcpServers": {"time": entry}}, executors={"time:*": its_time}
    )
    result, _ = await (await serve(plugin)).run("What is the current time in Europe/Berlin?", call_timeout_s=4.0)
    [step] = result.steps
    if said:
        assert result.answer == said
    else:
        assert "time:get_current_time: the label retries='many': give a whole number from 0 to 1,000" in step.reason


class Failing:
    """A function that fails with one error this number of times."""

    def __init__(self, error: Exception, slow_s: float = 0.0) -> None:
        self.error, self.slow_s, self.calls = error, slow_s, 0

    async def __call__(self, path: str) -> str:
        self.calls += 1
        await asyncio.sleep(self.slow_s)
        if self.calls > 2:
            return "done"
        raise self.error


REFUSED = ApplicationError("no such file", 7, type="NoSuchFile", non_retryable=True)
LATER = ApplicationError("wait", type="RateLimited", next_retry_delay=timedelta(seconds=0.1))


@pytest.mark.parametrize(
    ("error", "tool", "ends", "reason", "calls"),
    [
        (ConnectionResetError("peer"), READ, "done", "", 3),
        (
            ConnectionResetError("peer"),
            DELETE,
            "outcome_unknown",
            "the call was sent and its answer was lost (OutcomeUnknown: Conn",
            1,
        ),
        (LATER, READ, "done", "", 3),
        (LATER, DELETE, "failed", "RateLimited: wait", 1),
        (REFUSED, READ, "failed", "NoSuchFile: no such file", 1),
        (ValueError("wrong"), READ, "failed", "ValueError: wrong", 1),
        (RuntimeError("declined"), DELETE, "failed", "RuntimeError: declined", 1),
        (Busy("full", 0.1), DELETE, "done", "", 3),
        (FileNotFoundError(2, "gone", "a.txt"), READ, "failed", "FileNotFoundError: [Errno 2] gone: 'a.txt'", 1),
    ],
)
async def test_what_a_function_raises_keeps_its_type_and_says_whether_it_is_tried_again(
    serve: Serve, error: Exception, tool: Tool, ends: str, reason: str, calls: int
) -> None:
    failing = Failing(error)
    runner = await serve(plugin_over(executors={tool.key: failing}))
    result, _ = await runner.run(f"{tool.description.split()[0]} the file a.txt")
    assert (statuses(result), failing.calls) == ([ends], calls)
    assert result.steps[0].reason.startswith(reason)


@pytest.mark.slow
async def test_a_read_that_is_too_slow_is_sent_twice_and_not_eight_times(serve: Serve) -> None:
    slow = Failing(ValueError("unheard"), slow_s=20)
    runner = await serve(plugin_over(executors={READ.key: slow}))
    result, _ = await runner.run("Read the file a.txt", call_timeout_s=5)
    assert (statuses(result), slow.calls) == (["failed"], 2)


async def test_a_configuration_that_hangs_costs_a_route_its_limits_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.temporal.worker.servers_by_tenant._LIMITS_TIMEOUT_S", 0.1)
    asked, released = [], threading.Event()

    def servers_of(tenant: str) -> None:
        asked.append(tenant)
        released.wait(150)

    resources = OrchestratorPlugin(catalogue=Catalogue([NOW]), mcp_servers=servers_of).resources
    found = [await resources.limited(decision("the time", [NOW])) for _ in range(3)]
    released.set()
    assert [one.matches[0].tool for one in found] == [NOW] * 3
    assert ["did not return within 0.1 s" in one.warnings[0] for one in found] == [True] * 3
    assert asked == ["org:1"]
