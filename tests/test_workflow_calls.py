"""Calls among others: what blocks, hangs or fails in one function, and what that costs the calls of everybody else."""

import asyncio
import time

import pytest
from temporalio.client import WorkflowFailureError

from tests.runner import Serve, statuses
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
        time.sleep(4)  # noqa: ASYNC251  (the attack)
        blocked.set()
        return "slept"

    runner = await serve(plugin_over(executors={"notes:add_note": charge, "files:read_file": block}))
    charges = [await runner.start("Add a note titled 'x'", heartbeat_s=1.0) for _ in range(5)]
    async with asyncio.timeout(20):
        for _ in charges:
            await under_way.acquire()
    result, _ = await runner.run("Read the file a.txt", heartbeat_s=1.0)
    assert statuses(result) == ["done"]
    assert [statuses(await handle.result()) for handle in charges] == [["done"]] * 5
    assert "block (" in caplog.text


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
    async with asyncio.timeout(30):
        for _ in range(2):
            await hanging.acquire()
        result, _ = await runner.run("Add a note titled 'x'", tenant="org:2")
    assert (statuses(result), hanging.locked()) == (["done"], True)
    freed.set()
    assert [statuses(await handle.result()) for handle in stuck] == [["done"]] * 5


async def test_a_cancelled_call_hears_of_it_within_two_seconds(serve: Serve) -> None:
    begun = asyncio.Event()

    async def hang(path: str) -> str:
        begun.set()
        await asyncio.sleep(60)
        return path

    runner = await serve(plugin_over(executors={"files:read_file": hang}))
    handle = await runner.start("Read the file a.txt", heartbeat_s=10.0)
    await asyncio.wait_for(begun.wait(), 20)
    await asyncio.sleep(0.5)  # the first beat goes out at once: a cancellation right after it has the longest way
    began = time.monotonic()
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert time.monotonic() - began < 2
