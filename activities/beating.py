"""Heartbeats of activities that wait for others: so a lost worker and a cancellation are noticed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from temporalio import activity


@asynccontextmanager
async def heartbeats() -> AsyncIterator[None]:
    """Beats while something is under way, three times in each heartbeat timeout."""
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return
    beating = asyncio.create_task(_beat(timeout.total_seconds() / 3))
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _beat(every_s: float) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(every_s)
