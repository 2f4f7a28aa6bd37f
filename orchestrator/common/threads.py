"""Threads for long blocking work, separate from asyncio's few threads, which read stores and resolve names."""

import asyncio
import contextvars
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial, wraps
from threading import Thread
from typing import Any, Concatenate, ParamSpec, TypeVar

from orchestrator.errors import InvalidInput

P = ParamSpec("P")

R = TypeVar("R")
S = TypeVar("S")


class Threads:
    """A pool of at most `most` threads, opened on first use. After `close`, a later `run` opens a new one."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[P, R], /, *given: P.args, **named: P.kwargs) -> R:
        """Like `asyncio.to_thread`, in a thread of this pool."""
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


def now(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine from synchronous code and return its result, also inside a running event loop."""
    loop = _loop(os.getpid())
    with suppress(RuntimeError):  # No loop runs in this thread.
        if asyncio.get_running_loop() is loop:
            work.close()
            raise InvalidInput("a call that waits was made within another: await the method of the same name instead")
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def waiting(method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[S, P], R]:
    """Return the method as one that is not async: it waits for the result."""

    @wraps(method)
    def waits(own: S, /, *given: P.args, **named: P.kwargs) -> R:
        return now(method(own, *given, **named))

    return waits


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the one loop of all calls of a process that are not async: a Router and its store serve one loop's."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name=f"toolroute calls of {process}", daemon=True).start()
    return loop
