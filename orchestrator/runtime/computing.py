"""Runs the stages of a route in such a way that other tasks of the event loop get their turn."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from orchestrator.common.threads import Threads
from orchestrator.pipeline.state import Compute

R = TypeVar("R")

_THREAD_FROM_TOOLS = 2_000
"""The number of tools from which stages run in a thread.

With 13,000 tools, 50 concurrent routes blocked the event loop for 4,290 ms, and for 384 ms with threads (measured once,
on a busy machine). The number 2,000 is an estimate.
"""
_LONG_CHARACTERS = 1_000
"""The number of characters from which a task is long. The analysis of a shorter one takes .3 ms."""


class Computing:
    """Runs the work of routes: in turn on the event loop, or in a thread if it takes long.

    On the event loop, one route computes at a time, and before each of its parts all other tasks run once. Long tasks
    run in another thread, one at a time for each tenant, so that they do not delay other tenants.
    """

    def __init__(self) -> None:
        # More threads would slow down the event loop.
        self._thread = Threads(1, "toolroute routing")
        self._long_thread = Threads(1, "toolroute long tasks")
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        self._long_turns = WeakValueDictionary[tuple[int, str], asyncio.Lock]()

    def compute(self, query: str, tools: int) -> Compute:
        """Return the function that runs the work for a task among this number of tools."""
        if is_long(query):
            return self._long_thread.run
        return self._thread.run if tools >= _THREAD_FROM_TOOLS else self._in_turn

    @asynccontextmanager
    async def turn_of(self, tenant: str, query: str) -> AsyncIterator[None]:
        """Wait until the tenant's earlier long tasks are answered, if this one is long, too."""
        if not is_long(query):
            yield
            return
        key = id(asyncio.get_running_loop()), tenant
        turn = self._long_turns.setdefault(key, asyncio.Lock())
        async with turn:
            yield

    def close(self) -> None:
        self._thread.close()
        self._long_thread.close()

    async def _in_turn(self, work: Callable[[], R]) -> R:
        turn = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with turn:
            # The others run first. A route that is cancelled meanwhile has no result to lose, such as a coroutine.
            await asyncio.sleep(0)
            return work()


def is_long(query: str) -> bool:
    return len(query) > _LONG_CHARACTERS
