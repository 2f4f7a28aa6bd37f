"""Threads for what may block for long, apart from asyncio's own few, in which stores are read and names looked up."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    """A pool of at most `most` threads, opened on first use; after `close` a later `run` opens another."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[P, R], /, *given: P.args, **named: P.kwargs) -> R:
        """Do what `asyncio.to_thread` does, in a thread of these."""
        return await asyncio.wrap_future(self.begin(work, *given, **named))

    def begin(self, work: Callable[P, R], /, *given: P.args, **named: P.kwargs) -> "Future[R]":
        """Return the work's future, which can be cancelled as long as no thread has begun the work."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, self._name)
        return self._pool.submit(contextvars.copy_context().run, partial(_finished, work, *given, **named))

    def close(self) -> None:
        """Let the threads end, waiting for none of them."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _finished(work: Callable[P, R], /, *given: P.args, **named: P.kwargs) -> R:
    try:
        return work(*given, **named)
    except StopIteration as error:  # Asyncio's futures do not take it: who waits would wait for ever.
        raise RuntimeError(f"StopIteration: {error}") from error
