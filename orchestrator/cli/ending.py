"""How a command ends when it is told to: what it started ends with it."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def until_told(body: Coroutine[Any, Any, T]) -> T:
    """What the body gives. SIGTERM, and SIGHUP as a terminal that closes sends it, cancel it, as Ctrl-C does, so that
    the servers which it started end with it."""
    loop, task, told = asyncio.get_running_loop(), asyncio.current_task(), list[int]()

    def stop(number: int, _: object) -> None:
        if task is not None and not told:  # A second one would cut short what the first one ends.
            loop.call_soon_threadsafe(task.cancel)
        told.append(number)

    # Not by the loop: that would tell it of a first Ctrl-C, too, when it listens for a second one.
    before = {number: signal.signal(number, stop) for number in ending_signals()}
    try:
        given = await body
        if told:  # The body took the cancellation for its own.
            raise SystemExit(128 + told[0])
        return given
    except asyncio.CancelledError:
        if not told:
            raise
        raise SystemExit(128 + told[0]) from None
    finally:
        for number, handler in before.items():
            if handler is not None:  # One that is not Python's own cannot be put back.
                signal.signal(number, handler)


def ending_signals() -> list[signal.Signals]:
    """SIGTERM, and SIGHUP where nobody ignores it (`nohup`)."""
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGTERM]
    return [signal.SIGTERM, hangup]
