"""`toolroute run` and `worker` when they are interrupted, hung up or stopped: nothing is lost or left behind."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from tests.servers.start import alive
from tests.user import User, served
from tests.waiting import until

ENDED = WorkflowExecutionStatus.TERMINATED


@pytest.mark.slow
async def test_a_worker_serves_its_queue_and_stops_cleanly(user: User, task_queue: str) -> None:
    check = ("worker", "--check", "--address", user.address, "--task-queue", task_queue)
    code, _, err = await user.toolroute(*check)
    assert code == 1
    assert f"no worker of this machine polls the task queue '{task_queue}'" in err
    async with served(user, task_queue) as worker:
        code, printed, err = await user.run("What is the current time in UTC?", "--task-queue", task_queue)
        assert code == 0, err
        assert printed["steps"][0]["status"] == "done"
        assert (await user.toolroute(*check))[0] == 0
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(worker.wait(), 120) == 0


@pytest.mark.slow
async def test_a_run_that_nobody_serves_says_so_and_ends_when_it_is_interrupted(user: User, task_queue: str) -> None:
    process = await user.start(
        *("run", "What is the current time in UTC?", "--address", user.address, "--task-queue", task_queue)
    )
    assert process.stderr is not None
    async with asyncio.timeout(150):
        while f"toolroute worker --task-queue {task_queue}".encode() not in (line := await process.stderr.readline()):
            assert line, "the run ended"
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    client = await Client.connect(user.address)
    async with asyncio.timeout(150):
        while [run.status async for run in client.list_workflows(f"TaskQueue = '{task_queue}'")] != [ENDED]:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


@pytest.mark.slow
async def test_a_terminals_interrupt_which_reaches_the_server_too_cancels_the_run(user: User) -> None:
    process = await user.start(
        *("run", "--approve", "never", "Wait 60 seconds", "--arg", "seconds=60", "--catalogue", "tools.jsonl"),
        *("--config", "mcp.json", "--dev"),
    )
    assert os.getpgid(process.pid) == process.pid
    await user.is_waiting()
    os.killpg(process.pid, signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 150)
    assert process.returncode == 130, err
    assert b"s1 plain:wait: outcome unknown" in err


@pytest.mark.slow
async def test_a_terminal_that_closes_leaves_no_server_behind(user: User) -> None:
    process = await user.start(
        *("run", "--approve", "never", "Wait 60 seconds", "--arg", "seconds=60", "--catalogue", "tools.jsonl"),
        *("--config", "mcp.json", "--dev"),
    )
    await user.is_waiting()
    servers = await asyncio.to_thread(_children, process.pid)
    assert servers
    os.killpg(process.pid, signal.SIGHUP)
    await until(lambda: "ended early" in (user.path / "count").read_text())
    process.send_signal(signal.SIGTERM)  # A second one cuts nothing short.
    _, err = await asyncio.wait_for(process.communicate(), 150)
    assert process.returncode == 128 + signal.SIGHUP, err
    assert not [pid for pid in servers if alive(pid)]


def _children(parent: int) -> list[str]:
    threads = Path(f"/proc/{parent}/task").glob("*/children")
    return [pid for thread in threads for pid in thread.read_text().split()]


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
async def test_an_interrupted_run_stops_its_call_and_tells_how_each_step_ended(user: User, times: int) -> None:
    process = await user.start(
        *(
            "run",
            "--approve",
            "never",
            "Wait 60 seconds, then what is the current time in UTC?",
            "--arg",
            "s1.seconds=60",
        ),
        *("--catalogue", "tools.jsonl", "--config", "mcp.json", "--address", user.address),
    )
    assert process.stderr is not None
    await user.is_waiting()
    process.send_signal(signal.SIGINT)
    again = b"press Ctrl-C again to leave at once; follow the run with `toolroute runs show toolroute-run-"
    async with asyncio.timeout(120):
        while again not in (line := await process.stderr.readline()):
            assert line, "the run ended"
    if times > 1:
        process.send_signal(signal.SIGINT)
    out, err = await asyncio.wait_for(process.communicate(), 150)
    assert (process.returncode, out) == (130, b""), err
    assert b"Traceback" not in err
    if times > 1:  # whoever is in a hurry waits for no outcome
        return
    assert b"s1 plain:wait: outcome unknown" in err
    assert b"s2 time:get_current_time: cancelled" in err


@pytest.mark.slow
async def test_a_worker_that_is_stopped_lets_the_call_under_way_end(user: User, task_queue: str) -> None:
    async with served(user, task_queue) as first:
        running = asyncio.create_task(user.run("Wait 2 seconds", "--arg", "seconds=2", "--task-queue", task_queue))
        await user.is_waiting()
        first.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(first.wait(), 120) == 0
        async with served(user, task_queue):
            code, printed, err = await running
    assert code == 0, err
    assert printed["answer"] == "waited"
    assert (user.path / "count").read_text() == "wait\n"
