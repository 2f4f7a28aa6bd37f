"""The task that owns a connection: it alone enters and leaves the client, as the MCP library demands."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import anyio

from orchestrator.errors import ServerUnavailable, ToolrouteError
from orchestrator.mcp.connection import Connection
from orchestrator.mcp.faults import connect_error, in_words, is_end
from orchestrator.mcp.launch import Launch
from orchestrator.mcp.listing import tools_page
from orchestrator.mcp.transport import Stderr, Watched, http, stdio
from orchestrator.records.redact import LogFilter
from orchestrator.records.tool import Tool

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams

OnListed = Callable[[str, tuple[Tool, ...]], Awaitable[None]]
"""Called with a server's name and its whole listing: at a connect, and after the server said that it changed."""

_TURN_S = 3.0
"""A server that takes longer to connect lets the next one begin, so that those that hang delay no other for long."""
_PROBE_S = 2.0
_COALESCE_S, _COALESCE_AT_MOST_S = 0.05, 30.0
_SOON_S = 1.0
"""A notice so soon after a listing may be about the listing itself."""
_HEARING_S = 1.0
"""A server that is slow to say that it will report changes is listed before it has."""
_LISTEN_AGAIN_S = (0.5, 2.0, 10.0)
"""Pauses before a stream of notices is opened again, the last one over and over: proxies end such streams often."""
_TAKE_AGAIN_S, _TAKE_AGAIN_AT_MOST_S = 1.0, 60.0
_SILENT = logging.NullHandler()

logger = logging.getLogger(__name__)


class Owner:
    """Opens, serves and closes one connection. `turns` bounds how many connect at a time."""

    def __init__(self, connection: Connection, turns: asyncio.Semaphore, on_listed: OnListed | None) -> None:
        self._connection, self._turns, self._on_listed = connection, turns, on_listed
        self._scope = anyio.CancelScope()
        self._hearing, self._streaming = asyncio.Event(), asyncio.Event()
        self._greeted = False
        self._name = connection.spec.name

    async def run(self, environ: Mapping[str, str] | None) -> None:
        """Raise nothing but its own cancellation: the connection's `error` and `death` say how it went."""
        connection, launch = self._connection, Launch()
        connection.cancel_opening = self._scope.cancel
        try:
            launch = connection.spec.launch(environ)
            connection.listing.secrets = launch.secrets
            if not connection.death:
                with self._scope, LogFilter(launch.secrets):
                    await self._open(launch)
        except ToolrouteError as error:
            connection.failed(error)
        except Exception as error:
            connection.failed(connect_error(connection.spec, launch, error, connection.hint()))
            connection.die(in_words(error, connection.secrets))
        finally:
            connection.failed(ServerUnavailable(f"server {self._name!r} was not connected: its task was cancelled"))

    async def _open(self, launch: Launch) -> None:
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as opening:
            await self._turns.acquire()
            turn = [self._turns.release]  # Ends when it is ready or has failed, and in any case after a while.
            opening.callback(lambda: turn and turn.pop()())
            opening.callback(loop.call_later(_TURN_S, lambda: turn and turn.pop()()).cancel)
            # Loading the library takes a second once, longer on a busy machine: none of that is the server's time.
            import_module("mcp")
            opening.callback(loop.call_later(self._connection.spec.connect_timeout_s, self._too_late).cancel)
            async with self._session(launch) as client, anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen, client)
                # What changes between the listing and the first notice that can arrive would reach nobody.
                with anyio.move_on_after(_HEARING_S):
                    await self._hearing.wait()
                self._connection.opened(client, await self._connection.listing.tools(client))
                await opening.aclose()
                tasks.start_soon(self._follow_listing)
                await self._until_done(client)
                tasks.cancel_scope.cancel()

    def _too_late(self) -> None:
        """Answer the callers at the deadline; ending a process that hangs takes up to two seconds more."""
        connection = self._connection
        within = f"not connected within {connection.spec.connect_timeout_s:g} s"
        connection.failed(ServerUnavailable(f"server {self._name!r}: {within}{connection.hint()}"))
        self._scope.cancel()

    @asynccontextmanager
    async def _session(self, launch: Launch) -> AsyncIterator["Client"]:
        """Some processes end over any first request but the older protocol's, and some leave it unanswered for 10 s:
        the former are started once more for that one, and what a server took is remembered."""
        connection = self._connection
        async with AsyncExitStack() as session:
            try:
                client = await session.enter_async_context(self._client(launch))
            except Exception as error:
                if connection.handshake or launch.url or not is_end(error):
                    raise
                connection.handshake, connection.stderr = True, Stderr()
                client = await session.enter_async_context(self._client(launch))
            self._greeted = True
            connection.handshake = not launch.url and client.session.initialize_result is not None
            yield client

    def _client(self, launch: Launch) -> "Client":
        from mcp import Client
        from mcp.types import Implementation

        for name in ("mcp", "client"):
            # Without a handler Python would print these libraries' tracebacks on the user's terminal.
            logging.getLogger(name).addHandler(_SILENT)
        return Client(
            self._watched(launch),
            message_handler=self._on_message,
            client_info=Implementation(name="toolroute", version=version("toolroute")),
            cache=None,
            mode="legacy" if self._connection.handshake else "auto",
        )

    @asynccontextmanager
    async def _watched(self, launch: Launch) -> AsyncIterator["TransportStreams"]:
        transport = http(launch, self._streaming.set) if launch.url else stdio(launch, self._connection.stderr)
        async with transport as (read, write):
            yield Watched(read, self._connection.listing.mend, self._ended), write

    def _ended(self) -> None:
        """Note a server's end. Before it has greeted, the request under way fails, and it may be started once more."""
        if self._greeted:
            self._connection.die("the server ended the connection")

    async def _on_message(self, message: Any) -> None:
        from mcp.types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._connection.changed.set()

    async def _until_done(self, client: "Client") -> None:
        """Return when the session is to close: dead, retired and unused, or idle for too long."""
        connection = self._connection
        while not connection.death:
            connection.wake.clear()
            if connection.suspect:
                connection.suspect = False
                await self._probe(client)
            # Calls do not wake this task, so that they cost nothing here: it looks again when the time may be up.
            idle_left = connection.spec.idle_ttl_s
            if not connection.users:
                idle_left += connection.last_used - anyio.current_time()
                if connection.retired or idle_left <= 0:
                    connection.retired = True
                    return
            with anyio.move_on_after(idle_left):
                await connection.wake.wait()

    async def _probe(self, client: "Client") -> None:
        """Keep a server that still answers; one that does not takes no further calls."""
        with anyio.move_on_after(_PROBE_S) as waiting:
            try:
                await tools_page(client)
            except Exception as error:
                self._connection.die(in_words(error, self._connection.secrets))
        if waiting.cancelled_caught:
            self._connection.retired = True

    async def _follow_listing(self) -> None:
        """Pass on what the server lists, now and whenever it says that this changed.

        Several notices in a row cost one listing, and more and more of them where each listing is followed by the next
        notice: some servers say so whenever they are asked. What could not be taken over (the store was away, the
        listing broken) is tried again: the server says it once.
        """
        connection, known = self._connection, tuple(self._connection.tools.values())
        pause, quiet, most, listed = _TAKE_AGAIN_S, _COALESCE_S, _SOON_S, -math.inf
        while True:
            try:
                if self._on_listed is not None:
                    await self._on_listed(self._name, known)
                pause = _TAKE_AGAIN_S
                await connection.changed.wait()
                again = anyio.current_time() - listed < max(quiet, _SOON_S)
                quiet = min(2 * quiet, most) if again else _COALESCE_S
                await anyio.sleep(quiet)
                connection.changed.clear()
                tools = await connection.list_again()
                most, known, listed = _COALESCE_AT_MOST_S if tools == known else _SOON_S, tools, anyio.current_time()
            except Exception as error:
                # The listing known so far stays: half of a new one would be worse.
                why = in_words(error, connection.secrets)
                text = "server %s: what it lists now was not taken over, tried again in %g s: %s"
                logger.warning(text, self._name, pause, why)
                await anyio.sleep(pause)
                pause = min(2 * pause, _TAKE_AGAIN_AT_MOST_S)
                connection.changed.set()

    async def _listen(self, client: "Client") -> None:
        """Subscribe to changes, where the protocol wants that (2026-07-28); older servers just send them, over HTTP
        once their stream is open."""
        from mcp.client.subscriptions import ListenNotSupportedError

        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            self._hears()
            return
        for pause in chain(_LISTEN_AGAIN_S, repeat(_LISTEN_AGAIN_S[-1])):
            try:
                async with client.listen(tools_list_changed=True) as events:
                    self._hears()
                    async for _ in events:
                        self._connection.changed.set()
            except ListenNotSupportedError:
                if self._connection.spec.transport == "http":
                    await self._streaming.wait()
                self._hears()
                return
            except Exception as error:
                logger.debug("server %s: no notice of changes: %s", self._name, type(error).__name__)
                self._hearing.set()
            await anyio.sleep(pause)
            # A server that is gone is found out here.
            self._connection.doubt()

    def _hears(self) -> None:
        """Repeat an earlier listing: notices arrive from here on, and what changed since then reached nobody."""
        self._hearing.set()
        if self._connection.was_ready:
            self._connection.changed.set()
