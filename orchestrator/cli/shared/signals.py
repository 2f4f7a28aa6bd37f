"""The signals that end a command: SIGTERM and SIGHUP end it as Ctrl-C does, so that its servers end with it."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def until_signalled(body: Coroutine[Any, Any, int]) -> int:
    """Run the body. SIGTERM and SIGHUP cancel it as Ctrl-C does, so that its servers end with it."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    received = list[int]()

    def stop(number: int, _: object) -> None:
        # A second one would cut short what the first one ends.
        if task is not None and not received:
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
    signals: list[int] = [signal.SIGTERM]
    # Windows has none.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals
