"""The pool: one connection for each server, opened on first use, shared by all callers, and closed when idle."""

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio

from orchestrator import telemetry
from orchestrator.errors import InvalidConfig, ServerUnavailable, Unauthorised
from orchestrator.mcp.connection import Connection, OnListed
from orchestrator.mcp.extra import require_mcp
from orchestrator.mcp.policy import surplus
from orchestrator.mcp.server_requests import ASKER, Asker, Host
from orchestrator.mcp.signin import files as sign_ins
from orchestrator.mcp.states import Server

_TURN_S = 2.0
"""Seconds that a server that hangs at its start delays the next one."""

logger = logging.getLogger(__package__)


class Pool:
    """Opens, shares and closes connections.

    Args:
        tenant: The tenant whose sign-ins are used.
        environ: The variables for `${NAME}` in entries.
        max_open: The maximum number of open connections.
        max_connecting: The maximum number of servers that connect at the same time.
        max_installing: The maximum number of servers that install at the same time.
        on_listed: Is called with the listing of a server after it has connected.
        host: Answers the questions of servers.
    """

    def __init__(
        self,
        *,
        tenant: str,
        environ: Mapping[str, str] | None,
        max_open: int,
        max_connecting: int,
        max_installing: int,
        on_listed: OnListed | None,
        host: Host | None,
    ) -> None:
        self.closed = False
        self._tenant = tenant
        self._environ = environ
        self._max_open = max_open
        self._connecting = asyncio.Semaphore(max_connecting)
        self._installing = asyncio.Semaphore(max_installing)
        self._on_listed = on_listed
        self._host = host
        self._owners: dict[asyncio.Task[None], Connection] = {}
        self._background: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> list[Connection]:
        """The connections that are ready and accept callers."""
        return [
            connection
            for connection in self._owners.values()
            if connection.was_ready and connection.usable
        ]

    async def close(self) -> None:
        """Close every connection. No process and no task is left."""
        self.closed = True
        for connection in self._owners.values():
            connection.close()
        # Each owner ends within a limited time. A cancelled caller waits for it, or a process would be left behind.
        ended = asyncio.gather(*self._owners, *self._background, return_exceptions=True)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            await ended
            raise

    @asynccontextmanager
    async def using(
        self, server: Server, deadline: float | None = None, *, in_turn: bool = False
    ) -> AsyncIterator[Connection]:
        """Yield a ready connection that stays open during the context. All callers that arrive while it opens share it.

        Args:
            server: The server.
            deadline: The deadline in the event loop's time, or None.
            in_turn: Start to connect only when few other servers are starting.
        """
        connection, asker = await self._join(server, deadline, in_turn)
        # Servers ask this client at any time, which the newer protocol does not allow.
        if self._is_too_new(connection):
            server.handshake = True
            connection.retire()
            connection.leave(asker)
            connection, asker = await self._join(server, deadline, in_turn)
        try:
            yield connection
        finally:
            connection.leave(asker)
            self._close_surplus()

    async def _join(
        self, server: Server, deadline: float | None, in_turn: bool, *, again: bool = True
    ) -> tuple[Connection, Asker | None]:
        """Wait until a connection is ready, as one of its callers.

        If a sign-in was written since the connection began, it connects once more. Not more often, because a connection
        writes sign-ins as well: a renewed token and the scope that its server wants.
        """
        connection = self._present_or_new(server, in_turn)
        asker = connection.join()
        try:
            await connection.until_settled(deadline)
        except Unauthorised:
            connection.leave(asker)
            if not again or connection.sign_ins == sign_ins.stamp():
                raise
            return await self._join(server, deadline, in_turn, again=False)
        except BaseException:
            connection.leave(asker)
            raise
        return connection, asker

    def _is_too_new(self, connection: Connection) -> bool:
        """Return True if the caller's client has a protocol in which servers ask at any time, and the connection has
        the protocol of 2026, in which they cannot.
        """
        asker = ASKER.get()
        return asker is not None and not asker.is_modern and not connection.session.is_handshake

    def warm(self, server: Server) -> None:
        """Start to connect a server, unless it is open or failing."""
        now = asyncio.get_running_loop().time()
        if not (self.closed or server.open or server.backoff.is_waiting(now)):
            self._start(server, in_turn=True)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that ends with the pool."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _close_surplus(self) -> None:
        for connection in surplus(self.ready, self._max_open):
            connection.retire()

    def _present_or_new(self, server: Server, in_turn: bool) -> Connection:
        """Return the connection, to be joined at once: nothing may close it between finding and using it."""
        now = asyncio.get_running_loop().time()
        if self.closed:
            raise ServerUnavailable("these connections are closed")
        if not server.open and server.backoff.is_waiting(now) and server.last_error is not None:
            retry = f"failures: {server.backoff.failures}; next try in {server.backoff.retry_at - now:.1f} s"
            raise type(server.last_error)(f"{server.last_error} ({retry})")
        connection = server.open or self._start(server, in_turn)
        if not in_turn:
            connection.begin()
        return connection

    def _start(self, server: Server, in_turn: bool) -> Connection:
        require_mcp()
        connection = Connection(
            server.spec,
            server.limits,
            partial(self._on_settled, server),
            tenant=self._tenant,
            handshake=server.handshake or (self._host is not None and self._host.needs_handshake()),
            host=self._host,
        )
        server.connection = connection
        # A context of its own: the connection outlives the caller.
        owner = asyncio.get_running_loop().create_task(
            connection.run(self._environ, self._on_listed),
            name=f"toolroute connection {server.spec.name}",
            context=contextvars.Context(),
        )
        self._owners[owner] = connection
        owner.add_done_callback(partial(self._on_ended, server))
        if in_turn:
            self.run_in_background(self._begin_in_turn(connection))
        return connection

    async def _begin_in_turn(self, connection: Connection) -> None:
        """Let a server start when few others do: if many started at a time, all of them would be late.

        A package runner keeps its turn until the server is there, as an install keeps the machine busy.
        """
        runner = connection.spec.runner
        async with self._installing if runner else self._connecting:
            connection.begin()
            with anyio.move_on_after(None if runner else _TURN_S):
                await connection.settled.wait()

    def _on_settled(self, server: Server, connection: Connection) -> None:
        """Record the result of connecting before the waiting callers continue."""
        server.handshake = connection.needs_handshake
        if connection.was_ready or not self.closed:
            telemetry.connected(server.spec.name, connection.error)
            logger.info("server %s: %s", server.spec.name, connection.outcome)
        if connection.was_ready:
            server.backoff.succeed()
            server.last_error = None
            server.tools = len(connection.tools)
            self._close_surplus()
        elif not self.closed:
            self._note_failure(server, connection)

    def _note_failure(self, server: Server, connection: Connection) -> None:
        error = connection.error
        logger.debug("server %s: %s", server.spec.name, error)
        server.last_error = error
        server.refuse(error if isinstance(error, Unauthorised) else None)
        # A broken entry costs nothing to look at again, and it may just have been mended. A sign-in may have come.
        may_be_mended = isinstance(error, InvalidConfig | Unauthorised)
        server.backoff.fail(asyncio.get_running_loop().time(), may_be_mended=may_be_mended)

    def _on_ended(self, server: Server, owner: asyncio.Task[None]) -> None:
        connection = self._owners.pop(owner)
        if connection.was_ready:
            telemetry.disconnected(server.spec.name)
            logger.info("server %s: closed", server.spec.name)
            server.tools = len(connection.tools)
            lifetime = connection.lifetime
            if lifetime.death and not lifetime.retired and not self.closed:
                server.last_error = ServerUnavailable(
                    f"server {server.spec.name!r}: {lifetime.death}"
                )
        if server.connection is connection:
            server.connection = None


def retire(servers: Iterable[Server]) -> None:
    """Close the connections of these servers as soon as they are unused. A later call connects again."""
    for server in servers:
        if server.connection is not None:
            server.connection.retire()
