"""How a command ends on a signal: what it started ends with it."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def until_ended(body: Coroutine[Any, Any, T]) -> T:
    """Return what the body returns. SIGTERM and SIGHUP cancel it as Ctrl-C does, so that its servers end with it."""
    loop, task, received = asyncio.get_running_loop(), asyncio.current_task(), list[int]()

    def stop(number: int, _: object) -> None:
        if task is not None and not received:  # A second one would cut short what the first one ends.
            loop.call_soon_threadsafe(task.cancel)
        received.append(number)

    # Not the loop's own handlers: they would report a first Ctrl-C, too, while it listens for a second one.
    before = {number: signal.signal(number, stop) for number in ending_signals()}
    try:
        return await body
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        if received:
            raise SystemExit(128 + received[0])


def ending_signals() -> list[int]:
    """Return SIGTERM, and SIGHUP unless it is ignored (`nohup`)."""
    hangup: list[int] = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []  # Windows has none.
    return [signal.SIGTERM, *(number for number in hangup if signal.getsignal(number) is not signal.SIG_IGN)]
