"""Measures how long a tenant's five short calls wait behind 40 long calls of another tenant, on a worker of 8 slots.

`python -m benchmarks.fairness`. It takes about eight minutes, mostly in sleeping calls. The server is a dev server with
the settings of `orchestrator.temporal.client.devserver`, without and with fairness.
"""

import asyncio
import time
from contextlib import AsyncExitStack

from temporalio.client import Client
from temporalio.worker import Worker

from benchmarks.burst import Burst
from orchestrator import Catalogue, OrchestratorPlugin
from orchestrator.temporal.client import devserver

LONG_CALLS = 40
SHORT_CALLS = 5
SLOTS = 8
LONG_S = 25.0
QUEUE = "toolroute-fairness"
FAIRNESS = "matching.enableFairness=true"


class Desk:
    """Two tools, and when they were called."""

    def __init__(self) -> None:
        self.running = 0
        self.ended = 0
        self.is_full = asyncio.Event()

    async def long_nap(self, number: int) -> int:
        """Take a long nap."""
        self.running += 1
        if self.running >= SLOTS - 1:
            self.is_full.set()
        await asyncio.sleep(LONG_S)
        self.running -= 1
        self.ended += 1
        return number

    async def short_nap(self, number: int) -> int:
        """Take a short nap."""
        return number


async def measure(label: str, free_slots: int | None, *, fairness: bool) -> str:
    """Return a row: the longest wait of the short calls, and the time and the losses of the long ones."""
    settings = devserver.SETTINGS
    desk = Desk()
    catalogue = Catalogue.of(desk.long_nap, desk.short_nap)
    plugin = OrchestratorPlugin(catalogue=catalogue, free_slots=free_slots)
    async with AsyncExitStack() as stack:
        devserver.SETTINGS = (*settings, FAIRNESS) if fairness else settings
        stack.callback(setattr, devserver, "SETTINGS", settings)
        address = await stack.enter_async_context(devserver.dev_server())
        client = await Client.connect(address, plugins=[plugin])
        worker = Worker(
            client, task_queue=QUEUE, workflows=[Burst], max_concurrent_activities=SLOTS
        )
        await stack.enter_async_context(worker)
        began = time.monotonic()
        long = await client.start_workflow(
            Burst.run, args=["org:1", "long_nap", LONG_CALLS], id="long", task_queue=QUEUE
        )
        await desk.is_full.wait()
        asked = time.monotonic()
        await client.execute_workflow(
            Burst.run, args=["org:2", "short_nap", SHORT_CALLS], id="short", task_queue=QUEUE
        )
        waited = time.monotonic() - asked
        await long.result()
        took = time.monotonic() - began
    return f"| {label} | {waited:.1f} | {took:.0f} | {LONG_CALLS - desk.ended} |"


async def main() -> None:
    print(
        "| 40 calls of 25 s, 8 slots | the other tenant's five calls, with their route, s | all, s | lost |"
    )
    print("| --- | ---: | ---: | ---: |")
    print(await measure("no fairness, `free_slots=0`", 0, fairness=False), flush=True)
    print(
        await measure("no fairness, the default (one slot is left free)", None, fairness=False),
        flush=True,
    )
    print(await measure("the server has fairness, `free_slots=0`", 0, fairness=True), flush=True)
    await devserver.settle()


if __name__ == "__main__":
    asyncio.run(main())
