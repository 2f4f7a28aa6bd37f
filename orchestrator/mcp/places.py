"""The places for open connections: so many, and when all are taken the one idle for longest gives way."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from orchestrator.mcp.connection import Connection


class Places:
    """Bounds how many connections are open and how many are being opened; `connections` tells those that exist."""

    def __init__(self, most: int, most_opening: int, connections: Callable[[], Collection[Connection]]) -> None:
        self.opening = asyncio.Semaphore(most_opening)
        self._places = asyncio.Semaphore(most)
        self._connections = connections
        self._waiting = 0

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """One place, waited for as long as it takes; a connection in use never gives way."""
        self._waiting += 1
        try:
            self.make_room()
            await self._places.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()

    def make_room(self) -> None:
        """Retires the one idle for longest, if somebody waits, every place is taken and nobody is on the way out."""
        if not (self._waiting and self._places.locked()):
            return
        leaving = sum(connection.retired for connection in self._connections())
        idle = [c for c in self._connections() if c.was_ready and c.usable and not c.users]
        if leaving < self._waiting and idle:
            min(idle, key=lambda connection: connection.last_used).retire()
