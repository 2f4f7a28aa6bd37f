"""Many routes at once: each gets its turn, and no tenant and no event loop waits long."""

import asyncio
import gc
import threading
from collections.abc import Sequence

import pytest

from orchestrator import Router
from tests.catalogues import sample
from tests.stores import watched_embedder


def requests(number: int) -> list[str]:
    return [f"refund charge ch_{number} and tell the customer" for number in range(number)]


async def test_other_tasks_run_between_two_routes() -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with Router(sample()) as router:
        await router.warm()
        other = asyncio.create_task(take_turns())
        await asyncio.gather(*map(router.route, requests(50)))
        other.cancel()
    assert turns >= 50


async def test_a_long_task_is_embedded_beside_the_event_loop() -> None:
    threads: list[threading.Thread] = []

    def note_thread(_: Sequence[str]) -> None:
        threads.append(threading.current_thread())

    async with Router(sample(), embedder=watched_embedder(note_thread)) as router:
        await router.warm()
        threads.clear()
        await router.route("tell the customer " * 100, route_hint="semantic")
    assert threads
    assert threading.main_thread() not in threads


async def test_a_timeout_ends_routes_that_wait_for_their_turn() -> None:
    async with Router(sample()) as router:
        await router.warm()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.gather(*map(router.route, requests(20)))


@pytest.mark.filterwarnings("error")
async def test_a_cancelled_route_leaves_no_coroutine_behind() -> None:
    async with Router(sample()) as router:
        await router.warm()
        for turns in range(1, 8):
            route = asyncio.create_task(router.route("Erstatte bitte die Zahlung des Kunden, der zweimal bezahlt hat"))
            for _ in range(turns):
                await asyncio.sleep(0)
            route.cancel()
            await asyncio.wait([route])
            assert route.cancelled()
    gc.collect()


async def test_one_tenants_long_tasks_delay_no_other_tenant() -> None:
    long = "refund the charge of the customer and open an issue about the invoice. " * 1_400
    async with Router(sample()) as router:
        await router.warm()
        waiting = [asyncio.create_task(router.route(f"{long}{number}", tenant="org:a")) for number in range(16)]
        await asyncio.sleep(0)
        await router.route("refund charge ch_3PqX", tenant="org:b")
        answered = sum(task.done() for task in waiting)
        await asyncio.gather(*waiting)
    assert answered < 8
