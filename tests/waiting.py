"""Waiting for an event that a test can watch."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

BUSY_S = 150.0
"""Seconds for what happens at once on a free machine."""


async def until(read: Callable[[], Any]) -> Any:
    """Read until there is a true value, and return it. `read` may be a coroutine function."""
    async with asyncio.timeout(BUSY_S):
        while True:
            value = read()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.02)
