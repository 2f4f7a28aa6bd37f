"""Subscriptions to resources. Each keeps its server's connection open, for clients of any protocol version."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from mcp.client.subscriptions import ListenNotSupportedError
from mcp.types import EmptyResult, SubscribeRequest, SubscribeRequestParams

from orchestrator.mcp.connections import Connections

_CHECK_INTERVAL_S = 2.0
"""Seconds between two checks whether a connection still exists."""
_RENEW_AFTER_S = 5.0
"""Seconds before a lost subscription is renewed."""

logger = logging.getLogger(__name__)


class _Subscription:
    """The subscription to one resource, which all clients that want it share.

    `accepted` ends when the server has answered the first attempt, with its error if it refused.
    """

    def __init__(self, hold: Callable[["_Subscription"], Coroutine[Any, Any, None]]) -> None:
        self.clients = 0
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(hold(self))


class Subscriptions:
    """One tenant's subscriptions by server and URI."""

    def __init__(self, pool: Connections) -> None:
        self._pool = pool
        self._open: dict[tuple[str, str], _Subscription] = {}

    async def add(self, server: str, uri: str) -> None:
        """Subscribe one more client to a server's resource.

        Returns after the server accepted, and raises the server's error otherwise.
        """
        resource = server, uri
        subscription = self._open.get(resource)
        if subscription is None:
            subscription = self._open[resource] = _Subscription(partial(self._hold, resource))
        subscription.clients += 1
        try:
            await asyncio.shield(subscription.accepted)
        except BaseException:
            self._release(resource, subscription)
            raise

    def remove(self, server: str, uri: str) -> None:
        """Take one client's subscription back. The last one ends it at the server."""
        subscription = self._open.get((server, uri))
        if subscription is not None:
            self._release((server, uri), subscription)

    async def close(self) -> None:
        tasks = [subscription.task for subscription in self._open.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _release(self, resource: tuple[str, str], subscription: _Subscription) -> None:
        subscription.clients -= 1
        if subscription.clients == 0:
            subscription.task.cancel()
            self._forget(resource, subscription)

    def _forget(self, resource: tuple[str, str], subscription: _Subscription) -> None:
        """Let the next client subscribe again. Another subscription to the resource may have begun since then."""
        if self._open.get(resource) is subscription:
            del self._open[resource]

    async def _hold(self, resource: tuple[str, str], subscription: _Subscription) -> None:
        """Subscribe, and again whenever the connection was lost. Ends if the first attempt fails."""
        server, uri = resource
        accepted = subscription.accepted
        while True:
            try:
                async with (
                    self._pool.using(server) as connection,
                    _subscribed(connection.session.client, uri),
                ):
                    if not accepted.done():
                        accepted.set_result(None)
                    while connection.usable:  # noqa: ASYNC110
                        await asyncio.sleep(_CHECK_INTERVAL_S)
            except Exception as error:  # A server's transport may raise anything.
                if not accepted.done():
                    self._forget(resource, subscription)
                    accepted.set_exception(error)
                    return
                logger.info(
                    "server %s: a subscription ended and will be renewed: %s",
                    server,
                    type(error).__name__,
                )
            await asyncio.sleep(_RENEW_AFTER_S)


@asynccontextmanager
async def _subscribed(client: Any, uri: str) -> AsyncIterator[None]:
    """Subscribe in the way of the server's protocol. The connection's own handler passes the notices on."""
    try:
        async with client.listen(resource_subscriptions=[uri]):
            yield
    except ListenNotSupportedError:
        await client.session.send_request(
            SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult
        )
        yield
