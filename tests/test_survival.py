"""A run outlives its workers and its server: each is killed in mid-step, and no finished step runs again."""

import asyncio
import multiprocessing
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowHandle

from orchestrator import Approve, RunRequest, RunResult, StepStatus
from orchestrator.testing import dev_server
from tests.running import TENANT
from tests.survival_worker import serve
from tests.temporal import replays
from tests.waiting import until

pytestmark = pytest.mark.slow

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["__main__", "tests.survival_worker", "orchestrator.runtime.router"])
"""Workers are forked from a process that has imported all they need: a dozen starts cost what one did."""


@dataclass
class Site:
    """The workers of one test: the server, the queue, and the file with their calls."""

    address: str
    task_queue: str
    log: Path
    seconds: float = 0.3

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        """Run a worker process, and kill it with SIGKILL at the end of the block."""
        ready = FORKS.Event()
        process = FORKS.Process(
            target=serve, args=(self.address, self.task_queue, self.log, self.seconds, ready), daemon=True
        )
        process.start()
        try:
            assert await asyncio.to_thread(ready.wait, 120), "no worker came up"
            yield
        finally:
            process.kill()
            await asyncio.to_thread(process.join)

    async def start(self, client: Client, task: str) -> WorkflowHandle[Any, RunResult]:
        request = RunRequest(task=task, tenant=TENANT, heartbeat_s=5.0, call_timeout_s=20.0, approve=Approve.NEVER)
        return await client.start_workflow(
            "toolroute.run", request, id=f"run-{uuid4().hex[:8]}", task_queue=self.task_queue, result_type=RunResult
        )

    async def broken_off(self, task: str, step: str) -> tuple[WorkflowHandle[Any, RunResult], RunResult]:
        """Start a run whose worker is killed during this step, and let another worker end it."""
        client = await Client.connect(self.address)
        async with self.worker():
            handle = await self.start(client, task)
            await self.begun(handle, step)
        async with self.worker():
            return handle, await asyncio.wait_for(handle.result(), 120)

    def calls(self, handle: WorkflowHandle[Any, RunResult]) -> list[tuple[str, str, float]]:
        """This run's notes in order: begin or end, the step's id, when."""
        lines = [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [(what, key.split(":")[2], float(at)) for what, key, _, at in lines if key.startswith(f"{handle.id}:")]

    def booked(self, handle: WorkflowHandle[Any, RunResult]) -> int:
        """Return the number of this run's entries in the ledger."""
        with closing(sqlite3.connect(self.log.with_suffix(".sqlite"))) as ledger:
            found = ledger.execute("SELECT count(*) FROM entries WHERE key LIKE ?", [f"{handle.id}:%"]).fetchone()
        return int(found[0])

    async def another(self, what: str, handle: WorkflowHandle[Any, RunResult] | None = None) -> None:
        """Return once one more call than now has begun or ended, of this run or of any."""
        key = f"{what} {handle.id}:" if handle else f"{what} "

        def noted() -> int:
            return self.log.read_text().count(key) if self.log.exists() else 0

        before = noted()
        await until(lambda: noted() != before)

    async def progress(self, handle: WorkflowHandle[Any, RunResult]) -> None:
        """Return once a call of this run has ended, or the run itself."""
        ended = [asyncio.ensure_future(self.another("end", handle)), asyncio.ensure_future(handle.result())]
        _, pending = await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()

    async def begun(self, handle: WorkflowHandle[Any, RunResult], step: str) -> None:
        await until(lambda: any(what == "begin" and found == step for what, found, _ in self.calls(handle)))


@pytest.fixture
def site(temporal_address: str, task_queue: str, tmp_path: Path) -> Site:
    return Site(temporal_address, task_queue, tmp_path / "calls.txt")


def begins(calls: list[tuple[str, str, float]]) -> Counter[str]:
    return Counter(step for what, step, _ in calls if what == "begin")


async def test_a_read_under_way_is_done_again_and_the_finished_step_is_not(site: Site) -> None:
    site.seconds = 1.0
    task = "Read the file a.txt, then read the file b.txt, then delete the file c.txt"
    handle, result = await site.broken_off(task, "s2")
    assert [step.status for step in result.steps] == [StepStatus.DONE] * 3
    assert begins(site.calls(handle)) == {"s1": 1, "s2": 2, "s3": 1}
    await replays(await handle.fetch_history())


async def test_a_change_under_way_is_never_sent_again_and_the_plan_sees_it(site: Site) -> None:
    site.seconds = 2.0
    task = "Read the file a.txt, then add a note titled 'x', then read the file b.txt"
    handle, result = await site.broken_off(task, "s2")
    assert [step.status for step in result.steps] == [
        StepStatus.DONE,
        StepStatus.OUTCOME_UNKNOWN,
        StepStatus.SKIPPED,
    ]
    assert begins(site.calls(handle)) == {"s1": 1, "s2": 1}
    assert "took effect" in result.steps[1].reason


@pytest.mark.timeout(600)
async def test_twelve_kills_at_random_points_repeat_no_finished_step(site: Site) -> None:
    client = await Client.connect(site.address)
    chance = random.Random(7)
    task = (
        "Read the file a.txt, then post an entry with the subject 'May', then add a note titled 'x', "
        "then read the file c.txt"
    )
    handles = [await site.start(client, task) for _ in range(4)]
    for number in range(12):
        handles.append(await site.start(client, task))
        async with site.worker():
            if number % 4:  # else anywhere, also while it routes and plans
                await site.another("begin")
            if number % 2:  # A call that has lost eight workers fails, so each run gets on in every second round.
                await asyncio.gather(*(site.progress(handle) for handle in handles))
            await asyncio.sleep(chance.uniform(0.05, 0.9))
    async with site.worker():
        results = await asyncio.gather(*(handle.result() for handle in handles))
    noted = Counter(what for handle in handles for what, _, _ in site.calls(handle))
    assert noted["begin"] > noted["end"], "no kill hit a call"
    for handle, result in zip(handles, results, strict=True):
        _nothing_finished_ran_again(site.calls(handle), result)
        assert site.booked(handle) == 1


def _nothing_finished_ran_again(calls: list[tuple[str, str, float]], result: RunResult) -> None:
    assert all(
        step.status in (StepStatus.DONE, StepStatus.OUTCOME_UNKNOWN, StepStatus.SKIPPED) for step in result.steps
    ), [(step.status, step.reason) for step in result.steps]
    assert begins(calls)["s3"] <= 1  # a note is written once, or not known to be written
    assert result.steps[1].status is StepStatus.DONE  # an entry may be sent again: its key books it once
    unknown = result.steps[2].status is StepStatus.OUTCOME_UNKNOWN
    assert (result.steps[3].status is StepStatus.SKIPPED) == unknown
    order = [step for what, step, _ in calls if what == "begin"]
    assert order == sorted(order)  # once a step has begun, those before it had finished, and none began again


async def test_a_server_that_restarts_on_its_database_goes_on(tmp_path: Path, task_queue: str) -> None:
    database = tmp_path / "temporal.db"
    async with dev_server(database=database) as address:
        site = Site(address, task_queue, tmp_path / "calls.txt", seconds=1.0)
        client = await Client.connect(address)
        async with site.worker():
            handle = await site.start(client, "Delete the file a.txt, then read the file b.txt")
            await site.begun(handle, "s2")
    async with dev_server(database=database, port=int(address.rpartition(":")[2])), site.worker():
        client = await Client.connect(address)
        again = client.get_workflow_handle(handle.id, result_type=RunResult)
        result = await asyncio.wait_for(again.result(), 150)
    assert [step.status for step in result.steps] == [StepStatus.DONE] * 2
    assert begins(site.calls(again))["s1"] == 1
