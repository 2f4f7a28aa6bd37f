"""The task that owns a connection: it alone enters and leaves the client, as the MCP library demands."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
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
from orchestrator.mcp.repairs import Repairs
from orchestrator.mcp.transports import http, stdio
from orchestrator.records.redact import LogFilter
from orchestrator.records.tool import Tool

if TYPE_CHECKING:
    from mcp import Client

OnChange = Callable[[str, tuple[Tool, ...]], Awaitable[None]]
"""Called with a server's name and its whole listing: after the server said that its tools changed, or at a connect."""

_PROBE_S = 2.0
_COALESCE_S = 0.05
_COALESCE_AT_MOST_S = 30.0
_SOON_S = 1.0
"""A notice so soon after a listing may be about the listing itself."""
_HEARING_S = 1.0
"""A server that is slow to say that it will tell of changes is listed before it has."""
_LISTEN_AGAIN_S = (0.5, 2.0, 10.0)
"""Pauses before a stream of notices is opened again, the last one over and over: proxies end such streams often."""
_TAKE_AGAIN_S = 1.0
_TAKE_AGAIN_AT_MOST_S = 60.0
_SILENT = logging.NullHandler()

logger = logging.getLogger(__name__)


class Owner:
    """Opens, serves and closes one connection.

    `slot` is held as long as the session is open, `connecting` only until it is ready or has failed.
    """

    def __init__(
        self,
        connection: Connection,
        slot: AbstractAsyncContextManager[None],
        connecting: AbstractAsyncContextManager[None],
        on_change: OnChange | None,
        on_connect: OnChange | None,
    ) -> None:
        self._connection, self._on_change, self._on_connect = connection, on_change, on_connect
        self._slot, self._connecting = slot, connecting
        self._scope = anyio.CancelScope()
        self._hearing, self._streaming = asyncio.Event(), asyncio.Event()
        self._greeted = self._unread = False
        self._name = connection.spec.name

    async def run(self, environ: Mapping[str, str] | None) -> None:
        """Raises nothing but its own cancellation: the connection's `error` and `death` tell how it went."""
        connection, launch = self._connection, Launch()
        connection.cancel_opening = self._scope.cancel
        deadline = asyncio.get_running_loop().call_later(connection.deadlines.connect_timeout_s, self._too_late)
        try:
            launch = connection.spec.launch(environ)
            connection.secrets = launch.secrets
            if connection.death:
                return
            with self._scope:
                async with self._slot:
                    # The wait for a place must not use up the server's own time.
                    deadline.cancel()
                    await self._open(launch)
        except ToolrouteError as error:
            connection.failed(error)
        except Exception as error:
            connection.failed(connect_error(connection.spec, launch, error, connection.hint()))
            connection.die(in_words(error, connection.secrets))
        finally:
            deadline.cancel()
            connection.failed(ServerUnavailable(f"server {self._name!r} was not connected: its task was cancelled"))

    def _too_late(self) -> None:
        """Tells the callers at the deadline; ending a process that hangs takes up to two seconds more."""
        connection = self._connection
        within = f"not connected within {connection.deadlines.connect_timeout_s:g} s"
        if not connection.opening:
            within += ", since no place among the open connections came free"
        connection.failed(ServerUnavailable(f"server {self._name!r}: {within}{connection.hint()}"))
        self._scope.cancel()

    async def _open(self, launch: Launch) -> None:
        connection = self._connection
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._connecting)
            # Loading the library takes a second once, longer on a busy machine: none of that is the server's time.
            import_module("mcp")
            deadline = asyncio.get_running_loop().call_later(connection.deadlines.connect_timeout_s, self._too_late)
            opening.callback(deadline.cancel)
            connection.opening = True
            with LogFilter(connection.secrets):
                await self._connect_and_serve(launch, opening)

    async def _connect_and_serve(self, launch: Launch, opening: AsyncExitStack) -> None:
        connection = self._connection
        async with self._session(launch) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, client)
            # What changes between the listing and the first notice that can arrive would be told to nobody.
            with anyio.move_on_after(_HEARING_S):
                await self._hearing.wait()
            connection.opened(client, await connection.listed(client))
            await opening.aclose()
            tasks.start_soon(self._tell_listing)
            tasks.start_soon(self._follow_listing)
            await self._until_done(client)
            tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def _session(self, launch: Launch) -> AsyncIterator["Client"]:
        """Some processes end over any first request but the older protocol's, and some leave it unanswered for 10 s:
        the former are started once more for that one, and what a server took is remembered. One that has not read it
        ended over something else."""
        connection = self._connection
        async with AsyncExitStack() as session:
            try:
                client = await session.enter_async_context(self._client(launch))
            except Exception as error:
                if connection.handshake or launch.url or self._unread or not is_end(error):
                    raise
                connection.start_over()
                client = await session.enter_async_context(self._client(launch))
            self._greeted = True
            connection.handshake = not launch.url and client.session.initialize_result is not None
            yield client

    @asynccontextmanager
    async def _client(self, launch: Launch) -> AsyncIterator["Client"]:
        from mcp import Client
        from mcp.types import Implementation

        for name in ("mcp", "client"):
            # Without a handler Python would print these libraries' tracebacks on the user's terminal.
            logging.getLogger(name).addHandler(_SILENT)
        repairs = Repairs(self._connection.left_out, launch.secrets)
        if launch.url:
            transport = http(launch, self._ended, self._streaming.set, repairs)
        else:
            transport = stdio(launch, self._connection.stderr, self._ended, self._left_unread, repairs)
        client = Client(
            transport,
            message_handler=self._on_message,
            client_info=Implementation(name="toolroute", version=version("toolroute")),
            cache=None,
            mode="legacy" if self._connection.handshake else "auto",
        )
        async with client:
            yield client

    def _ended(self) -> None:
        """Before it has greeted, the request under way fails, and the server may be started once more."""
        if self._greeted:
            self._connection.die("the server ended the connection")

    def _left_unread(self) -> None:
        self._unread = True

    async def _on_message(self, message: Any) -> None:
        from mcp.types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._connection.changed.set()
        elif isinstance(message, Exception):
            self._connection.junk_lines += 1

    async def _until_done(self, client: "Client") -> None:
        """Returns when the session is to close: dead, retired and unused, or idle for too long."""
        connection = self._connection
        while not connection.death:
            connection.wake.clear()
            if connection.suspect:
                connection.suspect = False
                await self._probe(client)
            # Calls do not wake this task, so that they cost nothing here: it looks again when the time may be up.
            idle_left = connection.deadlines.idle_ttl_s
            if not connection.users:
                idle_left += connection.last_used - anyio.current_time()
                if connection.retired or idle_left <= 0:
                    connection.retired = True
                    return
            with anyio.move_on_after(idle_left):
                await connection.wake.wait()

    async def _probe(self, client: "Client") -> None:
        """Keeps a server that still answers; one that does not takes no further calls."""
        with anyio.move_on_after(_PROBE_S) as waiting:
            try:
                await tools_page(client)
            except Exception as error:
                self._connection.die(in_words(error, self._connection.secrets))
        if waiting.cancelled_caught:
            self._connection.retired = True

    async def _tell_listing(self) -> None:
        """Beside the calls, which wait for none of it. What fails is done at the next connection."""
        try:
            if self._on_connect is not None:
                await self._on_connect(self._name, tuple(self._connection.tools.values()))
        except Exception as error:
            why = in_words(error, self._connection.secrets)
            logger.warning("server %s: the tools that it lists now were not taken over: %s", self._name, why)

    async def _follow_listing(self) -> None:
        """Lists again whenever the server says so; several notices in a row cost one listing, and more and more of them
        where each listing is followed by the next notice: some servers say so whenever they are asked. What could not
        be taken over (the store was away, the listing broken) is tried again: the server says it once."""
        pause, quiet, listed = _TAKE_AGAIN_S, _COALESCE_S, -math.inf
        known: tuple[Tool, ...] = ()
        most = _SOON_S
        while True:
            await self._connection.changed.wait()
            again = anyio.current_time() - listed < max(quiet, _SOON_S)
            quiet = min(2 * quiet, most) if again else _COALESCE_S
            await anyio.sleep(quiet)
            self._connection.changed.clear()
            try:
                tools = await self._connection.list_again()
                most, known = _COALESCE_AT_MOST_S if tools == known else _SOON_S, tools
                if self._on_change is not None:
                    await self._on_change(self._name, tools)
                pause, listed = _TAKE_AGAIN_S, anyio.current_time()
            except Exception as error:
                # The listing known so far stays: half of a new one would be worse.
                why = in_words(error, self._connection.secrets)
                told = "server %s: its changed tools were not taken over, tried again in %g s: %s"
                logger.warning(told, self._name, pause, why)
                await anyio.sleep(pause)
                pause = min(2 * pause, _TAKE_AGAIN_AT_MOST_S)
                self._connection.changed.set()

    async def _listen(self, client: "Client") -> None:
        """Subscribes to changes, where the protocol wants that (2026-07-28); older servers just send them, over HTTP
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
        """Notices arrive from here on; what changed since an earlier listing was told to nobody, so it is repeated."""
        self._hearing.set()
        if self._connection.was_ready:
            self._connection.changed.set()
