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
        result = await body
    except asyncio.CancelledError:
        if not received:
            raise
    finally:
        for number, handler in before.items():
            if handler is not None:  # One that is not Python's own cannot be put back.
                signal.signal(number, handler)
    if received:
        raise SystemExit(128 + received[0]) from None
    return result


def ending_signals() -> list[signal.Signals]:
    """Return SIGTERM, and SIGHUP unless it is ignored (`nohup`)."""
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGTERM]
    return [signal.SIGTERM, hangup]
