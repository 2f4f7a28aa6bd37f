"""Subscriptions to resources. Each keeps its server's connection open, for clients of any protocol version."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.client.subscriptions import ListenNotSupportedError
from mcp.types import EmptyResult, SubscribeRequest, SubscribeRequestParams

from orchestrator.mcp.connections import Connections

_LOOK_S = 2.0
"""Seconds between two checks whether a connection still exists."""
_AGAIN_S = 5.0
"""Seconds before a lost subscription is renewed."""

logger = logging.getLogger(__name__)


class Subscriptions:
    """One tenant's subscriptions, each with the number of clients that want it."""

    def __init__(self, pool: Connections) -> None:
        self._pool, self._wanted = pool, Counter[tuple[str, str]]()
        self._following: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def add(self, server: str, uri: str) -> None:
        """Subscribe to a server's resource. Returns after the server accepted, and raises the server's error
        otherwise.
        """
        self._wanted[server, uri] += 1
        if (server, uri) not in self._following:
            accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._following[server, uri] = asyncio.create_task(self._follow(server, uri, accepted))
            try:
                await accepted
            except BaseException:
                self.remove(server, uri)
                raise

    def remove(self, server: str, uri: str) -> None:
        self._wanted[server, uri] -= 1
        if self._wanted[server, uri] <= 0:
            del self._wanted[server, uri]
            if (task := self._following.pop((server, uri), None)) is not None:
                task.cancel()

    async def close(self) -> None:
        tasks = [*self._following.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, server: str, uri: str, accepted: "asyncio.Future[None]") -> None:
        while True:
            try:
                async with self._pool.using(server) as connection, _subscribed(connection.client, uri):
                    if not accepted.done():
                        accepted.set_result(None)
                    while connection.usable:  # noqa: ASYNC110
                        await asyncio.sleep(_LOOK_S)
            except Exception as error:
                if not accepted.done():
                    accepted.set_exception(error)
                    return
                logger.info("server %s: a subscription ended and will be renewed: %s", server, type(error).__name__)
            await asyncio.sleep(_AGAIN_S)


@asynccontextmanager
async def _subscribed(client: Any, uri: str) -> AsyncIterator[None]:
    """Subscribe in the way of the server's protocol. The connection's own handler passes the notices on."""
    try:
        async with client.listen(resource_subscriptions=[uri]):
            yield
    except ListenNotSupportedError:
        await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)
        yield
