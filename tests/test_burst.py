"""A tenant with more calls than the worker has slots: no call is lost, nothing is logged, and others are served."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from orchestrator import OrchestratorPlugin
from orchestrator.errors import InvalidConfig, ServerUnavailable
from orchestrator.temporal.client import devserver
from tests.my_workflow import Burst
from tests.runner import Serve
from tests.running import plugin_over

SLOTS = 8
READ = ("org:1", "files:read_file", {"path": "a.txt"})
NOTE = ("org:2", "notes:add_note", {"title": "x"})


class Nap:
    """A slow function, and the most calls of it at the same time. Each call ends when a test wakes it."""

    def __init__(self) -> None:
        self.running = self.most_running = self.done = 0
        self.is_full = asyncio.Event()
        self._woken = asyncio.Semaphore(0)

    async def __call__(self, path: str) -> str:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        if self.running >= SLOTS - 1:
            self.is_full.set()
        await self._woken.acquire()
        self.running -= 1
        self.done += 1
        return path

    def wake(self, calls: int) -> None:
        for _ in range(calls):
            self._woken.release()


def note(title: str) -> str:
    return title


@pytest.fixture
def nap() -> Nap:
    return Nap()


def plugin_with(nap: Nap, free_slots: int | None = None) -> OrchestratorPlugin:
    return plugin_over(executors={"files:read_file": nap, "notes:add_note": note}, free_slots=free_slots)


async def test_a_burst_loses_no_call_and_logs_nothing(serve: Serve, nap: Nap, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "temporalio")
    runner = await serve(plugin_with(nap), Burst, max_concurrent_activities=SLOTS)
    burst = await runner.begin(Burst, *READ, 40)
    await asyncio.wait_for(nap.is_full.wait(), 120)
    await asyncio.sleep(2)  # So long further calls wait for their turn.
    nap.wake(40)
    await asyncio.wait_for(burst.result(), 120)
    assert nap.done == 40
    assert nap.most_running == SLOTS - 1
    assert not [record for record in caplog.records if record.levelno >= logging.INFO]


async def test_a_second_tenant_does_not_wait_for_the_firsts_calls(serve: Serve, nap: Nap) -> None:
    runner = await serve(plugin_with(nap), Burst, max_concurrent_activities=SLOTS)
    burst = await runner.begin(Burst, *READ, 40)
    await asyncio.wait_for(nap.is_full.wait(), 120)
    await asyncio.wait_for((await runner.begin(Burst, *NOTE, 5)).result(), 120)
    assert nap.done == 0
    nap.wake(40)
    await asyncio.wait_for(burst.result(), 120)


@pytest.fixture
async def temporal_with_fairness(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    monkeypatch.setattr(devserver, "SETTINGS", (*devserver.SETTINGS, "matching.enableFairness=true"))
    async with devserver.dev_server() as address:
        yield address


@pytest.mark.slow
async def test_a_server_with_fairness_serves_the_tenants_in_turns(
    serve: Serve, nap: Nap, temporal_with_fairness: str, task_queue: str
) -> None:
    from tests.temporal import working

    client = await Client.connect(temporal_with_fairness, plugins=[plugin_with(nap, free_slots=0)])
    async with working(client, task_queue, workflows=[Burst], max_concurrent_activities=SLOTS):
        burst = await client.start_workflow(Burst.run, args=[*READ, 40], id="first", task_queue=task_queue)
        await asyncio.wait_for(nap.is_full.wait(), 120)
        second = await client.start_workflow(Burst.run, args=[*NOTE, 5], id="second", task_queue=task_queue)
        ended = asyncio.create_task(second.result())
        while not ended.done():  # The first tenant's calls end one after the other, while the second's wait.
            waiting = (await second.describe()).raw_description.pending_activities
            if waiting and nap.running == SLOTS:
                nap.wake(1)
            await asyncio.wait({ended}, timeout=0.05)
        assert nap.done < 3 * SLOTS
        nap.wake(40)
        await asyncio.wait_for(burst.result(), 120)
    assert nap.most_running == SLOTS


class Flaky:
    """Is not there for the first calls, while others wait for their turn."""

    def __init__(self, failures: int) -> None:
        self.calls = 0
        self._failures = failures

    async def __call__(self, path: str) -> str:
        self.calls += 1
        await asyncio.sleep(0.2)
        if self.calls <= self._failures:
            raise ServerUnavailable("not there")
        return path


@pytest.mark.parametrize(("failures", "is_lost"), [(7, False), (1_000, True)])
async def test_waiting_for_a_turn_uses_up_no_attempt(serve: Serve, failures: int, is_lost: bool) -> None:
    flaky = Flaky(failures)
    plugin = plugin_over(executors={"files:read_file": flaky})
    runner = await serve(plugin, Burst, max_concurrent_activities=2)
    burst = await runner.begin(Burst, *READ, 6)
    if is_lost:
        with pytest.raises(Exception, match="Workflow execution failed"):
            await asyncio.wait_for(burst.result(), 150)
        assert 8 <= flaky.calls <= 6 * 8
    else:
        await asyncio.wait_for(burst.result(), 150)
        assert flaky.calls == 6 + failures


@pytest.mark.parametrize(("free_slots", "settings"), [(8, {"max_concurrent_activities": 8}), (-1, {})])
async def test_free_slots_that_a_worker_does_not_have_are_refused(
    serve: Serve, free_slots: int, settings: dict[str, int]
) -> None:
    with pytest.raises(InvalidConfig, match=f"free_slots={free_slots}: give 0 to"):
        await serve(plugin_over(free_slots=free_slots), **settings)
