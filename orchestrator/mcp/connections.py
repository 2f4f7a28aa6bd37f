"""The servers of one configuration: known at once, connected when a tool is called, called with one retry at most."""

import asyncio
import difflib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import BaseModel

from orchestrator import telemetry
from orchestrator.common.fields import named
from orchestrator.errors import InvalidConfig, ServerUnavailable, Unauthorised, UnknownTool
from orchestrator.mcp.calls import Call, Confirm
from orchestrator.mcp.config.parse import McpConfig, ServerLimits, ServerSpec
from orchestrator.mcp.connection import Connection, OnListed
from orchestrator.mcp.policy import Backoff, Resend, resend
from orchestrator.mcp.pool import Pool, retire
from orchestrator.mcp.results import Answered, as_tool_result
from orchestrator.mcp.server_requests import Host
from orchestrator.mcp.session import CallLost
from orchestrator.mcp.states import Server, ServerState
from orchestrator.records.call import ToolResult
from orchestrator.records.tool import Tool, as_chosen

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T", bound=BaseModel)
logger = logging.getLogger(__package__)

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
        host: Answers the questions of servers (elicitation, sampling). Without it, servers learn that nobody answers.

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

    @named
    def __init__(
        self,
        config: Config,
        *,
        tenant: str = "local",
        environ: Mapping[str, str] | None = None,
        connect_timeout_s: float = 25.0,
        install_timeout_s: float = 300.0,
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
        counts = {
            "max_open": max_open,
            "max_connecting": max_connecting,
            "max_installing": max_installing,
        }
        for name, value in {**times, **counts, "backoff_s": backoff_s}.items():
            if not value > 0:
                raise InvalidConfig(f"{name}={value!r}: give a number above 0")
        self.config = McpConfig.of(config)
        self._limits = ServerLimits.model_validate(times)
        self._backoff_s = backoff_s
        self._max_backoff_s = max_backoff_s
        self._on_listed = on_listed
        self._host = host
        self._pool = Pool(
            tenant=tenant,
            environ=environ,
            max_open=max_open,
            max_connecting=max_connecting,
            max_installing=max_installing,
            on_listed=on_listed,
            host=host,
        )
        self._servers = {name: self._new_server(spec) for name, spec in self.config.servers.items()}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Calls in progress end with OutcomeUnknown. No process and no task is left."""
        await self._pool.close()

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
        call = Call.of(
            tool,
            arguments or {},
            idempotency_key=idempotency_key,
            meta=meta,
            deadline_s=deadline_s,
            max_tokens=max_result_tokens,
            confirm=confirm,
        )
        return as_tool_result(await self.exchange(call))

    async def present(self, tool: Tool, *, deadline_s: float | None = None) -> Tool:
        """Return a tool with the server's present definition and the catalogue's additions.

        Raises the errors of `call`.
        """
        call = Call.of(tool, {}, deadline_s=deadline_s)
        async with self._pool.using(self._server(call.server), call.deadline) as connection:
            return as_chosen(await _live_tool(connection, call), tool)

    async def exchange(self, call: Call) -> Answered:
        """Do the work of `call` and return the server's own answer.

        A call that did not run, or may be repeated, is sent again.
        """
        # An unknown server must not appear in metrics and logs, so it fails here.
        self._server(call.server)
        with telemetry.calling(call.key) as seen:
            answer = await self._attempt(call, is_first=True)
            if answer.is_error:
                seen["error.type"] = telemetry.TOOL_ERROR
        return answer

    async def _attempt(self, call: Call, *, is_first: bool) -> Answered:
        server = self._server(call.server)  # Its entry may go meanwhile.
        try:
            answer = await self._sent(server, call)
        except Unauthorised as error:
            server.refuse(error)
            raise
        except CallLost as lost:
            fate = resend(
                sent=lost.sent,
                timed_out=lost.timed_out,
                replayable=call.replayable,
                is_first=is_first,
            )
            if fate is Resend.AGAIN:
                return await self._attempt(call, is_first=False)
            if fate is Resend.BY_CALLER:
                raise ServerUnavailable(
                    f"{call.key}: {lost}; it is safe to call it again"
                ) from None
            # A server that is only slow is still connected.
            if not lost.timed_out:
                self.warm([call.server])
            raise call.unknown_outcome(lost) from None
        server.refuse(None)
        return answer

    async def _sent(self, server: Server, call: Call) -> Answered:
        """Send a call once, by the tool's present name and after the caller has accepted its present definition."""
        async with self._pool.using(server, call.deadline) as connection:
            live = await _live_tool(connection, call)
            renamed = call.rename(live)
            changed = await asyncio.to_thread(call.compare, live)
            if call.confirm is not None:
                await call.confirm(live)
            connection.called = True
            result = await connection.call(call, live)
        return Answered(
            result=result,
            key=call.key,
            secrets=connection.secrets,
            max_tokens=call.max_tokens,
            warnings=(*renamed, *changed),
        )

    async def tools(self, server: str, *, fresh: bool = False) -> tuple[Tool, ...]:
        """Return a server's tools, connecting it if necessary. With `fresh` a connected server is listed again."""
        configured = self._server(server)
        was_open = configured.connection
        async with self._pool.using(configured, in_turn=True) as connection:
            if fresh and connection is was_open:
                return await connection.list_again()
            return tuple(connection.tools.values())

    async def list_after_calls(self, server: str) -> bool:
        """List a server again if it was called since its last listing, because a call may add tools.

        Returns True if it was listed.
        """
        managed = self._servers.get(server)
        if managed is None or managed.connection is None or not managed.connection.called:
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
            async with self._pool.using(self._server(server)) as connection:
                await connection.read_offer()

    async def request(self, server: str, send: Callable[["Client"], Awaitable[T]]) -> T:
        """Send a server another request than a call, connecting it if necessary. Its answer has no secrets."""
        async with self._pool.using(self._server(server)) as connection:
            return await connection.session.request(send)

    def using(self, server: str) -> AbstractAsyncContextManager[Connection]:
        """Yield a server's connection, which stays open during the context."""
        return self._pool.using(self._server(server))

    def set_log_level(self, level: str) -> None:
        """Ask each connected server for log messages from this level on, without waiting for the servers."""
        for connection in self._pool.ready:
            sending = connection.session.set_log_level(level)
            self._pool.run_in_background(_delivered(connection, sending))

    def roots_changed(self) -> None:
        """Tell each connected server that the client's roots have changed, without waiting for the servers."""
        for connection in self._pool.ready:
            sending = connection.requests.roots_changed(connection.session.client)
            self._pool.run_in_background(_delivered(connection, sending))

    def warm(self, servers: Iterable[str]) -> None:
        """Start to connect servers, and return at once. Unknown, open and failing servers are skipped."""
        for server in self._known(servers):
            self._pool.warm(server)

    def release(self, servers: Iterable[str]) -> None:
        """Close these connections as soon as they are unused. A later call connects again."""
        retire(self._known(servers))

    def refusals(self, servers: Iterable[str]) -> list[str]:
        """Return the reasons of the servers that refused the credentials at the last try.

        Servers with a newer sign-in are not included.
        """
        return [server.refused for server in self._known(servers) if server.refused]

    def restore(self, counts: Mapping[str, int], errors: Mapping[str, str] | None = None) -> None:
        """Take each server's stored number of tools and last error, unless the server was listed by this pool."""
        for name, server in self._servers.items():
            # What this pool has listed is newer than what is stored.
            if server.tools is None:
                server.tools = counts.get(name)
            if server.last_error is None and errors and name in errors:
                server.last_error = ServerUnavailable(errors[name])

    def renew(self, config: Config) -> None:
        """Take another configuration over: the connections of servers that it changes close when nobody uses them."""
        # A typing error in the file must not end a server that works.
        renewed = McpConfig.of(config).keeping(self.config)
        same = {
            name for name, spec in renewed.servers.items() if self.config.servers.get(name) == spec
        }
        self.release(self._servers.keys() - same)
        self._servers = {
            name: self._servers[name] if name in same else self._new_server(spec)
            for name, spec in renewed.servers.items()
        }
        self.config = renewed

    def states(self) -> tuple[ServerState, ...]:
        """Return every configured server's state, in the file's order."""
        now = asyncio.get_running_loop().time()
        return tuple(server.state(now) for server in self._servers.values())

    def phases(self) -> dict[str, str]:
        """Return the phase (waiting, installing, starting, handshake, listing) of each server that is connecting."""
        connecting = {name: server.open for name, server in self._servers.items()}
        return {
            name: connection.phase
            for name, connection in connecting.items()
            if connection is not None and not connection.was_ready
        }

    def _known(self, names: Iterable[str]) -> list[Server]:
        return [self._servers[name] for name in names if name in self._servers]

    def _server(self, name: str) -> Server:
        if name not in self._servers:
            raise UnknownTool(self.config.lacks(name))
        return self._servers[name]

    def _new_server(self, spec: ServerSpec) -> Server:
        limits = self._limits.model_copy(update=spec.limits.model_dump(exclude_defaults=True))
        return Server(spec, limits, Backoff(self._backoff_s, self._max_backoff_s))


async def _live_tool(connection: Connection, call: Call) -> Tool:
    """Return the server's present record of a tool. If it is not in the known listing, the server is listed again."""
    if call.name not in connection.tools:
        await connection.list_again()
    tool = connection.tools.get(call.name)
    if tool is not None:
        return tool
    for candidate in connection.tools.values():
        if candidate.has_replaced(call.key):
            return candidate
    near = difflib.get_close_matches(call.name, connection.tools, n=3, cutoff=0.5)
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    else:
        first = ", ".join(islice(connection.tools, 10)) or "none"
        hint = f"its tools ({len(connection.tools)}): {first}"
    raise UnknownTool(f"server {call.server!r} has no tool {call.name!r}; {hint}")


async def _delivered(connection: Connection, sending: Coroutine[Any, Any, None]) -> None:
    try:
        await sending
    except Exception as error:
        # Of any kind: the server may have ended meanwhile, in each of the library's ways.
        logger.debug(
            "server %s: a message was not delivered: %s", connection.spec.name, type(error).__name__
        )
