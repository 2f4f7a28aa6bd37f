"""The lazy pool: every server is known, one is connected when its tool is called, idle ones close."""

import asyncio
import contextvars
import difflib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio

from orchestrator import telemetry
from orchestrator.common.redact import Secrets
from orchestrator.errors import InvalidConfig, ServerUnavailable, Unauthorised, UnknownTool
from orchestrator.mcp.calls import Call, Confirm
from orchestrator.mcp.config.parse import McpConfig, ServerLimits, ServerSpec
from orchestrator.mcp.connection import CallLost, Connection, OnListed
from orchestrator.mcp.extra import check_extra
from orchestrator.mcp.results import Answered, as_tool_result
from orchestrator.mcp.server_requests import Host
from orchestrator.mcp.states import Server, ServerState
from orchestrator.records.call import ToolResult
from orchestrator.records.tool import Tool, as_chosen

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")
logger = logging.getLogger(__package__)

_TURN_S = 2.0
"""Seconds that a server that hangs at its start delays the next one."""

Config = McpConfig | Mapping[str, Any] | str | Path


class Connections:
    """Connections to the servers of one `mcpServers` configuration, for one tenant and one event loop.

    A server is connected when one of its tools is called or when it is `warm`ed. The limits of a server's entry in the
    file, under "toolroute", take precedence over the arguments.

    Args:
        config: An McpConfig, its JSON as a dict, or the path of a file.
        tenant: The tenant whose sign-ins are used.
        environ: The variables for `${NAME}` in the configuration. Default: `os.environ`.
        connect_timeout_s: Seconds for a server to start and connect.
        install_timeout_s: Seconds for a package runner such as `npx` or `uvx` to install a server.
        call_timeout_s: Seconds for one call.
        idle_ttl_s: Seconds after which an unused connection closes.
        max_open: The maximum number of open connections. The connections that are unused for longest close first. A
            connection in use never closes.
        max_connecting: The maximum number of servers that connect at the same time.
        max_installing: The maximum number of servers that install at the same time.
        backoff_s: Seconds until a server that failed is tried again. The time doubles with each failure.
        max_backoff_s: The longest such time, in seconds.
        on_listed: Is called with the listing of a server after it has connected.
        host: Answers the questions of servers (elicitation, sampling). Without it, servers learn that nobody can
            answer.

    Raises:
        InvalidConfig: A limit is not above 0.

    Examples:
        >>> import asyncio
        >>> from orchestrator import Connections
        >>> async def time_in(zone: str) -> str:
        ...     async with Connections("examples/mcp.json") as servers:
        ...         return (await servers.call("time:get_current_time", {"timezone": zone})).text
        >>> async def names() -> list[str]:
        ...     async with Connections("examples/mcp.json") as servers:
        ...         return [state.server for state in servers.states()]
        >>> "time" in asyncio.run(names())
        True
    """

    def __init__(
        self,
        config: Config,
        *,
        tenant: str = "local",
        environ: Mapping[str, str] | None = None,
        connect_timeout_s: float = 30.0,
        install_timeout_s: float = 600.0,
        call_timeout_s: float = 60.0,
        idle_ttl_s: float = 300.0,
        max_open: int = 16,
        max_connecting: int = 4,
        max_installing: int = 3,
        backoff_s: float = 1.0,
        max_backoff_s: float = 60.0,
        on_listed: OnListed | None = None,
        host: Host | None = None,
    ) -> None:
        times = {
            "connect_timeout_s": connect_timeout_s,
            "install_timeout_s": install_timeout_s,
            "call_timeout_s": call_timeout_s,
            "idle_ttl_s": idle_ttl_s,
        }
        counts = {"max_open": max_open, "max_connecting": max_connecting, "max_installing": max_installing}
        for name, value in {**times, **counts, "backoff_s": backoff_s}.items():
            if not value > 0:
                raise InvalidConfig(f"{name}={value!r}: give a number above 0")
        self._limits = ServerLimits.model_validate(times)
        self.config = McpConfig.of(config)
        self._servers = {name: self._server_of(spec) for name, spec in self.config.servers.items()}
        self._tenant, self._environ = tenant, environ
        self._backoff_s, self._max_backoff_s = backoff_s, max(backoff_s, max_backoff_s)
        self._on_listed, self._host = on_listed, host
        self._owners: dict[asyncio.Task[None], Connection] = {}
        self._max_open, self._turns = max_open, asyncio.Semaphore(max_connecting)
        self._installing = asyncio.Semaphore(max_installing)
        self._background: set[asyncio.Task[None]] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Calls in progress end with OutcomeUnknown. No process and no task is left."""
        self._closed = True
        for connection in self._owners.values():
            connection.close()
        # Each owner ends within a limited time. A cancelled caller waits for it, or a process would be left behind.
        ended = asyncio.gather(*self._owners, *self._background, return_exceptions=True)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            await ended
            raise

    async def call(
        self,
        tool: Tool | str,
        arguments: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        deadline_s: float | None = None,
        max_result_tokens: int | None = None,
        confirm: Confirm | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        """Call a tool, connecting its server if necessary.

        If the server's definition differs from the given Tool, the tool is called if the arguments still fit, and the
        result has a warning. A tool's own error is a result with `is_error`.

        Args:
            tool: The tool's key or record.
            arguments: The arguments by name.
            idempotency_key: A key for servers that recognise repeated calls.
            deadline_s: Seconds for the whole call, instead of the server's timeout.
            max_result_tokens: Cut the result after this many tokens.
            confirm: Receives the server's present definition before the call, and raises if the call is not allowed.
            meta: The `_meta` for the server, for example `{"traceparent": "00-..."}`.

        Raises:
            UnknownTool: No server has this tool.
            InvalidArguments: The arguments do not fit the tool's schema.
            Unauthorised: The server requires a sign-in.
            ServerUnavailable: Nothing was sent, or the tool only reads.
            OutcomeUnknown: The call was sent, and there was no answer.
        """
        call = Call.of(tool, arguments or {}, idempotency_key, meta)
        call.confirm = confirm
        if deadline_s is not None:
            call.deadline = asyncio.get_running_loop().time() + deadline_s
        if max_result_tokens is not None:
            call.max_tokens = max_result_tokens
        return as_tool_result(await self._exchange(call))

    async def present(self, tool: Tool, *, deadline_s: float | None = None) -> Tool:
        """Return a tool with the server's present definition and the catalogue's additions. Raises the errors of
        `call`.
        """
        call = Call.of(tool, {})
        if deadline_s is not None:
            call.deadline = asyncio.get_running_loop().time() + deadline_s
        async with self.using(call.server, call.deadline) as connection:
            return as_chosen(await self._live_tool(connection, call), tool)

    async def _exchange(self, call: Call) -> Answered:
        """Do the work of `call` and return the server's own answer. A call that did not run, or may be repeated, is
        sent again.
        """
        self._server(call.server)  # An unknown server must not appear in metrics and logs, so it fails here.
        with telemetry.calling(call.key) as seen:
            answered = await self._attempt(call)
            if answered.is_error:
                seen["error.type"] = telemetry.TOOL_ERROR
        return answered

    async def _attempt(self, call: Call, *, again: bool = True) -> Answered:
        server = self._server(call.server)  # Its entry may go meanwhile.
        try:
            async with self.using(call.server, call.deadline) as connection:
                live = await self._live_tool(connection, call)
                warnings = (*call.rename(live), *await asyncio.to_thread(call.compare, live))
                if call.confirm is not None:
                    await call.confirm(live)
                answer = await connection.call(call)
        except Unauthorised as error:
            server.refuse(error)
            raise
        except CallLost as lost:
            if lost.sent and not call.replayable:
                if not lost.timed_out:
                    self.warm([call.server])
                raise call.unknown_outcome(lost) from None
            if lost.timed_out or not again:
                raise ServerUnavailable(f"{call.key}: {lost}; it is safe to call it again") from None
            return await self._attempt(call, again=False)
        server.refuse(None)
        return Answered(
            answer=answer, key=call.key, secrets=connection.secrets, max_tokens=call.max_tokens, warnings=warnings
        )

    async def _live_tool(self, connection: Connection, call: Call) -> Tool:
        """Return the server's present record. If the tool is missing in the known listing, the server is listed once
        more.
        """
        if call.name not in connection.tools:
            await connection.list_again()
        renamed = (tool for tool in connection.tools.values() if tool.has_replaced(call.key))
        if (tool := connection.tools.get(call.name) or next(renamed, None)) is not None:
            return tool
        near = difflib.get_close_matches(call.name, connection.tools, n=3, cutoff=0.5)
        first = ", ".join(islice(connection.tools, 10)) or "none"
        hint = f"did you mean {' or '.join(near)}?" if near else f"its tools ({len(connection.tools)}): {first}"
        raise UnknownTool(f"server {call.server!r} has no tool {call.name!r}; {hint}")

    async def tools(self, server: str, *, fresh: bool = False) -> tuple[Tool, ...]:
        """Return a server's tools, connecting it if necessary. With `fresh` a connected server is listed again."""
        was_open = self._server(server).connection
        async with self.using(server, in_turn=True) as connection:
            if fresh and connection is was_open:
                return await connection.list_again()
            return tuple(connection.tools.values())

    async def list_after_calls(self, server: str) -> bool:
        """List a server again if it was called since its last listing, because a call may add tools. Returns True if
        it was listed.
        """
        connection = self._servers[server].connection if server in self._servers else None
        if connection is None or not connection.called:
            return False
        await self.list_again(server)
        return True

    async def list_again(self, server: str) -> tuple[Tool, ...]:
        """List a server now, and pass the listing on."""
        tools = await self.tools(server, fresh=True)
        if self._on_listed is not None:
            await self._on_listed(server, tools)
        return tools

    async def offer(self, server: str) -> None:
        """Ask a server for its resources and prompts, and pass them to the host. Without a host nothing is asked."""
        if self._host is not None:
            async with self.using(server) as connection:
                await connection.read_offer()

    async def request(self, server: str, send: Callable[["Client"], Awaitable[T]]) -> tuple[T, Secrets]:
        """Send a server another request than a call, connecting it if necessary. Returns its answer and its secrets."""
        async with self.using(server) as connection:
            return await connection.request(send), connection.secrets

    def tell_open(self, tell: Callable[[Connection], Coroutine[Any, Any, None]]) -> None:
        """Send a message to each server that is ready, without waiting for the servers."""
        for connection in self._owners.values():
            if connection.was_ready and connection.usable:
                task = asyncio.create_task(_told(connection, tell))
                self._background.add(task)
                task.add_done_callback(self._background.discard)

    def warm(self, servers: Iterable[str]) -> None:
        """Start to connect servers, and return at once. Unknown, open and failing servers are skipped."""
        now = asyncio.get_running_loop().time()
        for server in filter(None, map(self._servers.get, servers)):
            if not (self._closed or server.open or server.is_failing(now)):
                self._start(server, in_turn=True)

    def let_go(self, servers: Iterable[str]) -> None:
        """Close these connections as soon as they are unused. A later call connects again."""
        for name in servers:
            if (connection := self._servers[name].connection) is not None:
                connection.retire()

    def refused(self, servers: Iterable[str]) -> list[str]:
        """Return the servers that refused the credentials at the last try, with the reason.

        Servers with a newer sign-in are not included.
        """
        return [said for server in filter(None, map(self._servers.get, servers)) if (said := server.refused)]

    def know(self, counts: Mapping[str, int], errors: Mapping[str, str] | None = None) -> None:
        """Take each server's stored number of tools and last error, unless the server was listed by this pool."""
        for name, server in self._servers.items():
            if server.tools is None:
                server.tools = counts.get(name)
            if server.last_error is None and errors and name in errors:
                server.last_error = ServerUnavailable(errors[name])

    def renew(self, config: Config) -> None:
        """Take another configuration over: the connections of servers that it changes close when nobody uses them."""
        now = McpConfig.of(config).keeping(self.config)
        same = {name for name, spec in now.servers.items() if self.config.servers.get(name) == spec}
        self.let_go(self._servers.keys() - same)
        self._servers = {
            name: self._servers[name] if name in same else self._server_of(spec) for name, spec in now.servers.items()
        }
        self.config = now

    def _server_of(self, spec: ServerSpec) -> Server:
        return Server(spec, self._limits.model_copy(update=spec.limits.model_dump(exclude_defaults=True)))

    def states(self) -> tuple[ServerState, ...]:
        """Return every configured server's state, in the file's order."""
        now = asyncio.get_running_loop().time()
        return tuple(server.state(now) for server in self._servers.values())

    def phases(self) -> dict[str, str]:
        """Return the phase (waiting, installing, starting, handshake, listing) of each server that is connecting."""
        return {
            name: connection.phase
            for name, server in self._servers.items()
            if (connection := server.open) and not connection.was_ready
        }

    @asynccontextmanager
    async def using(
        self, server: str, deadline: float | None = None, *, in_turn: bool = False
    ) -> AsyncIterator[Connection]:
        """Yield a ready connection that stays open meanwhile. All callers that arrive while it opens share it.

        Args:
            server: The server's name.
            deadline: The deadline in the event loop's time, or None.
            in_turn: Start to connect only when few other servers are starting.
        """
        connection = self._opening(self._server(server), in_turn)
        asker = connection.join()
        try:
            await connection.until_settled(deadline)
            yield connection
        finally:
            connection.leave(asker)
            self._make_room()

    def _make_room(self) -> None:
        """Retire the connections idle for longest, beyond the most."""
        ready = [connection for connection in self._owners.values() if connection.was_ready and connection.usable]
        if len(ready) > self._max_open:
            idle = sorted((c for c in ready if not c.users), key=lambda connection: connection.last_used)
            for connection in idle[: len(ready) - self._max_open]:
                connection.retire()

    def _opening(self, server: Server, in_turn: bool) -> Connection:
        """Return the connection, to be joined at once: nothing may close it between finding and using it."""
        now = asyncio.get_running_loop().time()
        if self._closed:
            raise ServerUnavailable("these connections are closed")
        if not server.open and server.is_failing(now) and server.last_error is not None:
            retry = f"failures: {server.failures}; next try in {server.retry_at - now:.1f} s"
            raise type(server.last_error)(f"{server.last_error} ({retry})")
        connection = server.open or self._start(server, in_turn)
        if not in_turn:
            connection.begin()
        return connection

    def _start(self, server: Server, in_turn: bool) -> Connection:
        check_extra()
        settled = partial(self._on_settled, server)
        connection = server.connection = Connection(
            server.spec,
            server.limits,
            settled,
            tenant=self._tenant,
            handshake=server.handshake,
            host=self._host,
        )
        # A context of its own: the connection outlives the caller.
        task = asyncio.get_running_loop().create_task(
            connection.run(self._environ, self._on_listed),
            name=f"toolroute connection {server.spec.name}",
            context=contextvars.Context(),
        )
        self._owners[task] = connection
        task.add_done_callback(partial(self._on_ended, server))
        if in_turn:
            waiting = asyncio.create_task(self._begin_in_turn(connection))
            self._background.add(waiting)
            waiting.add_done_callback(self._background.discard)
        return connection

    async def _begin_in_turn(self, connection: Connection) -> None:
        """Let a server start when few others do: if many started at a time, all of them would be late.

        A package runner keeps its turn until the server is there, as an install keeps the machine busy.
        """
        runner = connection.spec.runner
        async with self._installing if runner else self._turns:
            connection.begin()
            with anyio.move_on_after(None if runner else _TURN_S):
                await connection.settled.wait()

    def _on_settled(self, server: Server, connection: Connection) -> None:
        """Record the result of connecting before the waiting callers continue."""
        server.handshake = connection.was_ready and connection.handshake
        if connection.was_ready or not self._closed:
            telemetry.connected(server.spec.name, connection.error)
            logger.info("server %s: %s", server.spec.name, connection.outcome)
            if connection.error is not None:
                logger.debug("server %s: %s", server.spec.name, connection.error)
        if connection.was_ready:
            server.failures, server.pause, server.last_error, server.tools = 0, 0.0, None, len(connection.tools)
            self._make_room()
        elif not self._closed:
            server.failures += 1
            server.last_error = connection.error
            server.refuse(connection.error if isinstance(connection.error, Unauthorised) else None)
            server.pause = min(2 * server.pause or self._backoff_s, self._max_backoff_s)
            # A broken entry costs nothing to look at again, and it may just have been mended. A sign-in may have come.
            pause = 0.0 if isinstance(connection.error, InvalidConfig | Unauthorised) else server.pause
            server.retry_at = asyncio.get_running_loop().time() + pause

    def _on_ended(self, server: Server, owner: asyncio.Task[None]) -> None:
        connection = self._owners.pop(owner)
        if connection.was_ready:
            telemetry.disconnected(server.spec.name)
            logger.info("server %s: closed", server.spec.name)
            server.tools = len(connection.tools)
            if connection.death and not connection.retired and not self._closed:
                server.last_error = ServerUnavailable(f"server {server.spec.name!r}: {connection.death}")
        if server.connection is connection:
            server.connection = None

    def _server(self, name: str) -> Server:
        if name not in self._servers:
            raise UnknownTool(self.config.lacks(name))
        return self._servers[name]


async def _told(connection: Connection, tell: Callable[[Connection], Coroutine[Any, Any, None]]) -> None:
    try:
        await tell(connection)
    except Exception as error:  # Of any kind: the server may have ended meanwhile, in each of the library's ways.
        logger.debug("server %s: a message was not delivered: %s", connection.spec.name, type(error).__name__)
