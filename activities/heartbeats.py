"""Heartbeats of running activities: from their event loop or, while that is blocked, from a thread.

They go through the client, because a worker holds heartbeats back for up to 80 % of the heartbeat timeout. So the
server knows that the activity is running, and a cancellation arrives within a second or two, independent of the
settings of the user's worker. The worker needs heartbeats, too: it cancels an activity by itself after the heartbeat
timeout and five seconds. It gets them when that time comes near. From then on a cancellation may take 80 % of the
heartbeat timeout.

A function that blocks the loop must not cost the other calls a second attempt, so a thread replaces the loop. It stops
after GIVE_UP_S. Then the server gives the calls of this worker to others, because the loop may never come back.
"""

import asyncio
import logging
import sys
import sysconfig
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle
from temporalio.service import RPCError, RPCStatusCode

from orchestrator import errors

LONGEST_S = 1.0
"""The maximum number of seconds between two heartbeats."""
LOOK_S = 0.1
"""The seconds between two looks of the thread."""
BLOCKED_S = 3.0
"""The seconds after which a blocked loop is reported."""
IDLE_S = 10.0
"""The seconds without an activity after which the thread ends. A new one for each activity would cost 2 ms."""
GIVE_UP_S = 60.0
"""The seconds after which nobody stands in for a blocked loop, so that its calls time out."""

logger = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class _Pulse:
    """The heartbeats of one activity.

    Attributes:
        handle: Sends heartbeats through the client.
        details: The note that each heartbeat leaves for the next attempt.
        every_s: Seconds between two heartbeats.
        alone_s: Seconds for which the worker does without heartbeats.
        thread: The thread of the activity's event loop.
        looped: When the loop ran last.
        sent: When the last heartbeat was sent.
    """

    handle: AsyncActivityHandle
    details: tuple[Any, ...]
    every_s: float
    alone_s: float
    began: float = field(default_factory=time.monotonic)
    thread: int = field(default_factory=threading.get_ident)
    looped: float = field(default_factory=time.monotonic)
    sent: float = field(default_factory=time.monotonic)

    async def beat(self) -> None:
        """Send a heartbeat again and again. A slow answer of the server delays no further one."""
        async with asyncio.TaskGroup() as sending:
            while True:
                await asyncio.sleep(self.every_s)
                self.looped = time.monotonic()
                sending.create_task(self._beat())

    async def _beat(self) -> None:
        """Send a heartbeat. If the server wants the activity to end, let the worker ask the server itself."""
        self.sent = time.monotonic()
        if self.sent - self.began >= self.alone_s:
            activity.heartbeat(*self.details)
        try:
            await self.handle.heartbeat(*self.details)
        except AsyncActivityCancelledError:
            activity.heartbeat(*self.details)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                activity.heartbeat(*self.details)

    def blocked_s(self) -> float:
        """Return the seconds by which the loop is late."""
        return time.monotonic() - self.looped - self.every_s

    async def stand_in(self) -> None:
        """Send a heartbeat from the thread if the loop is late, but not for ever."""
        is_late = time.monotonic() - self.sent >= 1.2 * self.every_s
        if not is_late or self.blocked_s() > GIVE_UP_S:
            return
        self.sent = time.monotonic()
        with suppress(RPCError, AsyncActivityCancelledError):  # The loop learns of it once it runs.
            await self.handle.heartbeat(*self.details)


class _Heart:
    """Watches the heartbeats of a process from a thread, which runs while there are activities, and IDLE_S longer."""

    def __init__(self) -> None:
        self._pulses: set[_Pulse] = set()
        self._lock = threading.Lock()
        self._watched = False
        self._left_at = 0.0
        self._reported: set[str] = set()

    def watch(self, pulse: _Pulse) -> None:
        with self._lock:
            self._pulses.add(pulse)
            if not self._watched:
                self._watched = True
                threading.Thread(
                    target=lambda: asyncio.run(self._look()), name="toolroute heart", daemon=True
                ).start()

    def forget(self, pulse: _Pulse) -> None:
        with self._lock:
            self._pulses.discard(pulse)
            self._left_at = time.monotonic()

    def _watched_pulses(self) -> list[_Pulse] | None:
        """Return the pulses to watch. None: nothing was to be watched for IDLE_S, so the thread ends."""
        with self._lock:
            is_idle = not self._pulses and time.monotonic() - self._left_at > IDLE_S
            self._watched = not is_idle
            return None if is_idle else list(self._pulses)

    async def _look(self) -> None:
        while (pulses := self._watched_pulses()) is not None:
            await asyncio.gather(*(pulse.stand_in() for pulse in pulses))
            for pulse in pulses:
                self._report(pulse)
            await asyncio.sleep(LOOK_S)

    def _report(self, pulse: _Pulse) -> None:
        """Log a warning once for each function of the user that blocks a loop."""
        blocked_s = pulse.blocked_s()
        if blocked_s < BLOCKED_S:
            return
        frame = users_frame(sys._current_frames().get(pulse.thread))  # noqa: SLF001
        if frame is None:
            return
        function = f"{frame.f_code.co_qualname} ({frame.f_code.co_filename})"
        if function not in self._reported:
            self._reported.add(function)
            logger.warning(
                "%s (%s:%d) has blocked the worker's event loop and all other calls for %.1f s: write a blocking "
                "function as a plain `def`, which runs in a thread",
                *(frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno, blocked_s),
            )


_HEART = _Heart()
"""One thread serves all workers of a process."""

_OURS = (str(Path(__file__).parent), str(Path(errors.__file__).parent))
_CALLERS = ("executors.py", "function_executor.py")
"""Our files that call an Executor or a function of the user."""
_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def users_frame(innermost: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the user's own code that an event loop runs. None: only libraries run.

    It is the innermost frame that is neither ours nor a library's. A function of an installed package counts as the
    user's if our executor called it.
    """
    frames = _frames_in_loop(innermost)
    for frame in frames:
        if not _is_in(frame, (*_OURS, *_LIBRARIES)):
            return frame
    called = None
    for frame in frames:
        if _is_in(frame, _OURS):
            return called if frame.f_code.co_filename.endswith(_CALLERS) else None
        called = frame
    return None


def _frames_in_loop(innermost: FrameType | None) -> Sequence[FrameType]:
    """Return the frames of the callback that a loop runs, innermost first."""
    frames = []
    while innermost is not None and Path(innermost.f_code.co_filename).parts[-2:] != (
        "asyncio",
        "events.py",
    ):
        frames.append(innermost)
        innermost = innermost.f_back
    return frames if innermost is not None else []


def _is_in(frame: FrameType, folders: Sequence[str]) -> bool:
    return frame.f_code.co_filename.startswith(("<frozen", *folders))


@asynccontextmanager
async def beating(details: tuple[Any, ...] = ()) -> AsyncIterator[None]:
    """Send heartbeats until the work is done, at least four in each heartbeat timeout of this activity, and one per
    second.

    Args:
        details: The note that each heartbeat leaves for the next attempt.
    """
    info = activity.info()
    if info.heartbeat_timeout is None:
        yield
        return
    timeout_s = info.heartbeat_timeout.total_seconds()
    every_s = min(LONGEST_S, timeout_s / 4)
    handle = activity.client().get_async_activity_handle(task_token=info.task_token)
    pulse = _Pulse(handle=handle, details=details, every_s=every_s, alone_s=0.8 * timeout_s)
    beats = asyncio.create_task(pulse.beat())
    _HEART.watch(pulse)
    try:
        yield
    finally:
        _HEART.forget(pulse)
        beats.cancel()
        with suppress(asyncio.CancelledError):
            await beats
