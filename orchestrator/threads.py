"""Threads for what may block for long, apart from asyncio's own few, in which stores are read and names looked up."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    """So many threads at most, started as they are needed."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[P, R], /, *given: P.args, **named: P.kwargs) -> R:
        """What `asyncio.to_thread` does, in a thread of these."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, self._name)
        call = partial(contextvars.copy_context().run, work, *given, **named)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        """Lets the threads end, waiting for none of them; a later `run` starts others."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
