"""Heartbeats of running activities: from their event loop or, while that is blocked, from a thread."""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from temporalio import activity
from temporalio.client import AsyncActivityHandle

LONGEST_S, LOOK_S, BLOCKED_S = 1.0, 0.1, 3.0
"""Seconds between two heartbeats, between two checks by the thread, and until a blocked loop is reported."""

logger = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class _Pulse:
    """The heartbeats of one activity. `looped` is the last time that its event loop ran, `sent` the last heartbeat."""

    handle: AsyncActivityHandle
    every_s: float
    thread: int = field(default_factory=threading.get_ident)
    looped: float = field(default_factory=time.monotonic)
    sent: float = field(default_factory=time.monotonic)

    async def beat(self) -> None:
        """Send heartbeats through the worker, which learns of a cancellation that way."""
        while True:
            activity.heartbeat()
            self.looped = self.sent = time.monotonic()
            await asyncio.sleep(self.every_s)

    async def stand_in(self) -> None:
        """Send a heartbeat through the client if the loop is late. Failures are ignored, for example if the activity
        has
        ended.
        """
        if time.monotonic() - self.sent < 1.5 * self.every_s:
            return
        self.sent = time.monotonic()
        with suppress(Exception):
            await self.handle.heartbeat()


class _Heart:
    """Watches the heartbeats of a process from a thread, which runs while there are activities."""

    def __init__(self) -> None:
        self._pulses: set[_Pulse] = set()
        self._lock, self._watched = threading.Lock(), False
        self._reported: set[str] = set()

    def watch(self, pulse: _Pulse) -> None:
        with self._lock:
            self._pulses.add(pulse)
            if not self._watched:
                self._watched = True
                threading.Thread(target=lambda: asyncio.run(self._look()), name="toolroute heart", daemon=True).start()

    def forget(self, pulse: _Pulse) -> None:
        with self._lock:
            self._pulses.discard(pulse)

    def _seen(self) -> list[_Pulse]:
        with self._lock:
            self._watched = bool(self._pulses)
            return list(self._pulses)

    async def _look(self) -> None:
        while pulses := self._seen():
            await asyncio.gather(*(pulse.stand_in() for pulse in pulses))
            for pulse in pulses:
                self._report(pulse)
            await asyncio.sleep(LOOK_S)

    def _report(self, pulse: _Pulse) -> None:
        """Log a warning once for each line that blocks a loop."""
        late_s, frame = time.monotonic() - pulse.looped, sys._current_frames().get(pulse.thread)  # noqa: SLF001
        if late_s < BLOCKED_S or frame is None:
            return
        at = traceback.extract_stack(frame, limit=1)[0]
        where = f"{at.name} ({at.filename}:{at.lineno})"
        if where not in self._reported and at.name != "select":  # In `select` the whole process was stopped.
            self._reported.add(where)
            logger.warning(
                "%s has blocked the worker's event loop and all other calls for %.1f s: write a blocking function as a "
                "plain `def`, which runs in a thread",
                *(where, late_s),
            )


_HEART = _Heart()


@asynccontextmanager
async def beating() -> AsyncIterator[None]:
    """Send heartbeats until the work is done: at least three in each heartbeat timeout of this activity, and one per
    second.
    """
    info = activity.info()
    if info.heartbeat_timeout is None:
        yield
        return
    every_s = min(LONGEST_S, info.heartbeat_timeout.total_seconds() / 3)
    handle = activity.client().get_async_activity_handle(task_token=info.task_token)
    pulse = _Pulse(handle=handle, every_s=every_s)
    beats = asyncio.create_task(pulse.beat())
    _HEART.watch(pulse)
    try:
        yield
    finally:
        _HEART.forget(pulse)
        beats.cancel()
        with suppress(asyncio.CancelledError):
            await beats
