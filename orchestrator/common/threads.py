"""Threads for work that may block for a long time, separate from asyncio's own threads."""

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
    """A pool of at most `most` threads. It opens on first use. After `close`, a later `run` opens a new pool."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the work in a thread of this pool, like `asyncio.to_thread`."""
        return await asyncio.wrap_future(self.begin(work, *args, **kwargs))

    def begin(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Return the work's future. It can be cancelled until a thread has started the work."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, self._name)
        # The work sees the context of its caller, such as the current span, as in `asyncio.to_thread`.
        return self._pool.submit(
            contextvars.copy_context().run, partial(_finished, work, *args, **kwargs)
        )

    def close(self) -> None:
        """Let the threads end, without waiting for them."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _finished(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    try:
        return work(*args, **kwargs)
    except StopIteration as error:
        # An asyncio future cannot hold it, and its caller would wait forever.
        raise RuntimeError(f"StopIteration: {error}") from error


def now(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine and return its result, for callers that are not async. A running event loop does not matter."""
    loop = _loop(os.getpid())
    with suppress(RuntimeError):  # No loop runs in this thread.
        if asyncio.get_running_loop() is loop:
            work.close()
            raise InvalidInput(
                "a blocking call was made inside another blocking call: await the async method instead"
            )
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def waiting(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], R]:
    """Return a method that is not async and waits for the result of the given one."""

    @wraps(method)
    def waits(instance: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return now(method(instance, *args, **kwargs))

    return waits


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop for all blocking calls of a process. A Router and its store serve only one event loop."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name=f"toolroute calls of {process}", daemon=True).start()
    return loop
