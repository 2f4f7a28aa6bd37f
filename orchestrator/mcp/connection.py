"""One MCP session, and the task that opens, serves and closes it."""

import asyncio
import logging
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from orchestrator.common.json_input import first_problem
from orchestrator.common.redact import LogFilter, Secrets
from orchestrator.errors import ServerUnavailable, ToolrouteError
from orchestrator.mcp import faults
from orchestrator.mcp.config.launch import Launch
from orchestrator.mcp.config.parse import ServerLimits, ServerSpec
from orchestrator.mcp.listing.changes import Changes
from orchestrator.mcp.listing.offers import Offer, read_offer
from orchestrator.mcp.listing.tools import Listing, tools_page
from orchestrator.mcp.server_requests import ASKER, Asker, Host, ServerRequests
from orchestrator.mcp.transports.child import Child
from orchestrator.mcp.transports.runners import Work, mend_cache, npm_cache, work_of
from orchestrator.mcp.transports.streams import Pace, Watched, http, sse
from orchestrator.records.tool import Tool

if TYPE_CHECKING:
    from mcp import Client, MCPError
    from mcp.client._transport import TransportStreams
    from mcp.types import CallToolResult

    from orchestrator.mcp.calls import Call

    Answer = CallToolResult | MCPError | RuntimeError

T = TypeVar("T")
OnListed = Callable[[str, tuple[Tool, ...]], Awaitable[None]]
"""Called with a server's name and its tools, after connecting and after each change notification."""

_PROBE_S = 2.0
_SAMPLE_S, _PATIENCE, _WITH_SERVER = 2.0, 4, 2
_PROGRESS_TIMES = 60
"""A call that reports progress may take this many times its timeout, by default an hour."""

logger = logging.getLogger(__name__)


class CallLost(Exception):
    """A call got no answer.

    Attributes:
        sent: The server may have run the call.
        timed_out: The server may still be running the call.
    """

    def __init__(self, reason: str, *, sent: bool, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.sent, self.timed_out = sent, timed_out


class Connection:
    """A connection to one server.

    It settles once, as ready or failed (`error`). It ends once, and leaves no process and no task. No lock is needed,
    because no method awaits between a check and the change that depends on it. With `handshake` the protocol before
    2026-07-28 is used at once, because the server needed it last time.
    """

    def __init__(
        self,
        spec: ServerSpec,
        limits: ServerLimits,
        on_settled: Callable[["Connection"], None],
        *,
        tenant: str,
        handshake: bool,
        host: Host | None = None,
    ) -> None:
        self.spec, self.limits, self.tenant, self.handshake = spec, limits, tenant, handshake
        self.error: ToolrouteError | None = None
        self.death = ""
        self.tools: dict[str, Tool] = {}
        self.offer: Offer | None = None
        self.requests = ServerRequests(spec.name, host)
        self.log_level = ""
        self.users = 0
        self.called = False  # Since its tools were listed.
        self.last_used = math.inf
        self.retired = self.suspect = False
        self._on_settled, self.settled, self._begun = on_settled, asyncio.Event(), asyncio.Event()
        self._wake, self._changes = asyncio.Event(), Changes(spec.name)
        self._pace, self._listing = Pace(), Listing(spec)
        self._child = Child(self._pace)
        self._scope = anyio.CancelScope()
        self._greeted, self._sse = False, spec.transport == "sse"
        self._work: Work | None = None
        self._client: Client | None = None

    @property
    def secrets(self) -> Secrets:
        return self._listing.secrets

    @property
    def usable(self) -> bool:
        """True while a call may join: it is ready or will be, and is not on its way out."""
        return not (self.retired or self.death or self.error)

    @property
    def was_ready(self) -> bool:
        return self._client is not None

    @property
    def outcome(self) -> str:
        """A phrase for the result of connecting, without any text from the server."""
        if self.error is not None:
            return f"not connected ({type(self.error).__name__})"
        return f"connected, {len(self.tools)} {'tool' if len(self.tools) == 1 else 'tools'}"

    @property
    def phase(self) -> str:
        """The current phase of connecting."""
        if not self._begun.is_set():
            return "waiting"
        if self._greeted:
            return "listing"
        if self.spec.transport != "stdio":
            return "connecting"
        if self._child.answered:
            return "handshake"
        # A package runner is alone until it starts the server.
        alone = self.spec.runner and (self._work is None or self._work.processes < _WITH_SERVER)
        return "installing" if alone else "starting"

    @property
    def client(self) -> "Client":
        if self._client is None:
            raise self._unavailable(" is not connected")
        return self._client

    def begin(self) -> None:
        """Start the connecting, which waits until this is called."""
        self._begun.set()

    async def until_settled(self, deadline: float | None) -> None:
        """Wait until the connection is ready. Raises its error, or a timeout at the deadline (in the event loop's
        time).
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self.settled.wait()
        except TimeoutError:
            raise self._unavailable(" was not connected within the deadline") from None
        if self.error is not None:
            raise type(self.error)(*self.error.args)

    def join(self) -> Asker | None:
        """Register a caller. Returns its client, if any, which the server may ask until the call ends."""
        self.users += 1
        return self.requests.join()

    def leave(self, asker: Asker | None = None) -> None:
        self.users -= 1
        if asker is not None:
            self.requests.askers.remove(asker)
        self.last_used = asyncio.get_running_loop().time()
        if self.retired:
            self._wake.set()

    def retire(self) -> None:
        """Accept no new calls, and close after the last call."""
        self.retired = True
        self._wake.set()

    def close(self) -> None:
        """Close now. Calls in progress are interrupted."""
        self._die("it was closed")
        self._settle(error=self._unavailable(": these connections were closed"))
        if not self.was_ready:
            self._scope.cancel()

    def doubt(self) -> None:
        """Have it asked whether the server still answers."""
        self.suspect = True
        self._wake.set()

    def _die(self, reason: str) -> None:
        self.death = self.death or reason
        self._wake.set()

    def _settle(self, client: "Client | None" = None, error: ToolrouteError | None = None) -> None:
        """Release all waiting callers, or give them the error. Only the first result counts."""
        if not self.settled.is_set():
            self._client, self.error = client, error
            self.last_used = asyncio.get_running_loop().time()
            self._on_settled(self)
            self.settled.set()

    def _unavailable(self, why: str) -> ServerUnavailable:
        return ServerUnavailable(f"server {self.spec.name!r}{why}")

    def _hint(self) -> str:
        return self._child.last_words(self.secrets)

    async def call(self, call: "Call") -> "Answer":
        """Return the server's result, its own error, or a RuntimeError if its answer is unusable.

        Raises:
            CallLost: There was no answer.
        """
        from mcp import MCPError
        from pydantic import ValidationError

        if self._client is None or self.death:
            raise CallLost(self.death or "it is not connected", sent=False)
        limit_s = call.seconds_left(self.limits.call_timeout_s)
        within, pass_on = asyncio.timeout(limit_s), call.progress(self.secrets)
        patient = self.requests.patient(within, limit_s) if call.deadline is None else nullcontext()
        longest = asyncio.get_running_loop().time() + _PROGRESS_TIMES * limit_s

        async def keep_alive(progress: float, total: float | None, message: str | None) -> None:
            if call.deadline is None and not within.expired() and not self.requests.waiting:
                within.reschedule(min(longest, asyncio.get_running_loop().time() + limit_s))
            if pass_on is not None:
                await pass_on(progress, total, message)

        self._pace.allow_call()
        self.called = True
        try:
            async with within:
                with patient:
                    meta = await self._meta(call.meta)
                    return await self._client.call_tool(
                        call.name, call.arguments, progress_callback=keep_alive, meta=meta
                    )
        except TimeoutError:
            # A slow tool is no reason to end a server's state: whether it still answers is asked apart.
            self.doubt()
            after = f"no answer within {round(limit_s, 2):g} s of being sent or of its last progress{self._hint()}"
            raise CallLost(after, sent=True, timed_out=True) from None
        except ValidationError as error:
            return RuntimeError(f"cannot be read ({self.secrets.redact(first_problem(error))})")
        except MCPError as error:
            self._raise_if_lost(error)
            return error
        except Exception as error:
            raise CallLost(f"its answer cannot be read ({faults.in_words(error, self.secrets)})", sent=True) from None

    async def _meta(self, meta: Mapping[str, Any]) -> Any:
        """Return a call's meta with the log level that its client wants."""
        from mcp.types import LOG_LEVEL_META_KEY

        level = asker.log_level if (asker := ASKER.get()) else ""
        await self.set_log_level(level)
        return {**meta, **({LOG_LEVEL_META_KEY: level} if level else {})} or None

    async def set_log_level(self, level: str) -> None:
        if level != self.log_level:
            self.log_level = level
            await self.requests.set_log_level(self.client, level)

    async def request(self, send: Callable[["Client"], Awaitable[T]]) -> T:
        """Send a request other than a call, and return its answer. The server's own error is raised without secrets."""
        from mcp import MCPError

        self._pace.allow_call()
        limit_s = self.limits.call_timeout_s
        try:
            async with asyncio.timeout(limit_s) as within:
                with self.requests.patient(within, limit_s):
                    return await send(self.client)
        except TimeoutError:
            self.doubt()
            raise self._unavailable(f": no answer within {limit_s:g} s{self._hint()}") from None
        except MCPError as error:
            try:
                self._raise_if_lost(error)
            except CallLost as lost:
                raise self._unavailable(f": {lost}") from None
            data = self.secrets.redact_json(error.error.data)
            raise MCPError(error.code, self.secrets.redact(error.message), data) from None
        except ToolrouteError:
            raise
        except Exception as error:
            raise self._unavailable(f": its answer cannot be read ({faults.in_words(error, self.secrets)})") from None

    def _raise_if_lost(self, error: "MCPError") -> None:
        from mcp.types import CONNECTION_CLOSED

        message = self.secrets.redact(error.message)
        if error.code == faults.DENIED:
            raise faults.credentials_refused(self.spec, self.tenant, message)
        if error.code == faults.BUSY:
            raise self._unavailable(f" is busy ({message}); it did not run the call")
        if error.code == faults.UNSENT:
            self._die(message)
            raise CallLost(message, sent=False)
        # Over stdio a server may use this code itself. There the end of its output shows the difference.
        closed = error.code == CONNECTION_CLOSED and (self.death or self.spec.url)
        if closed or error.code == faults.LOST:
            self.doubt()
            raise CallLost(f"{self.death or message}{self._hint()}", sent=True)

    async def list_again(self) -> tuple[Tool, ...]:
        """List the server's tools now. Raises ServerUnavailable if that fails."""
        try:
            async with asyncio.timeout(self.limits.connect_timeout_s):
                return await self._list(self.client)
        except ToolrouteError:
            raise
        except Exception as error:
            raise self._unavailable(f" did not list its tools: {faults.in_words(error, self.secrets)}") from None

    async def _list(self, client: "Client") -> tuple[Tool, ...]:
        self.called = False
        tools = await self._listing.tools(client)
        self.tools = {tool.name: tool for tool in tools}
        return tools

    async def read_offer(self) -> Offer:
        """Ask the server for its offer now, and pass it on where it differs from the one known here."""
        async with asyncio.timeout(self.limits.connect_timeout_s):
            offer = await read_offer(self.client, self._listing.extras, self.secrets)
        if self.requests.host is not None and offer != self.offer:
            await self.requests.host.on_offer(self.spec.name, offer)
        self.offer = offer
        return offer

    async def run(self, environ: Mapping[str, str] | None, on_listed: OnListed | None) -> None:
        """Open the session, serve it and close it. `error` and `death` have the result."""
        launch = Launch()
        try:
            launch = self.spec.launch(environ)
            self._listing.secrets = self.requests.secrets = launch.secrets
            if not self.death:
                with self._scope, LogFilter(launch.secrets):
                    await self._open(launch, on_listed)
        except ToolrouteError as error:
            self._settle(error=error)
        except Exception as error:
            if self._child.flaw:
                self._settle(error=self._unavailable(f": {self._child.flaw}{self._hint()}"))
            # A runner that has ended by itself may have started the server or not.
            phase = f"{launch.runner}: installing or starting" if self.phase == "installing" else self.phase
            hint = f"{'' if phase == 'connecting' else f' ({phase})'}{self._hint()}"
            self._settle(error=faults.connect_error(self.spec, self.tenant, launch, error, hint))
            self._die(faults.in_words(error, self.secrets))
        finally:
            self._settle(error=self._unavailable(": its task was cancelled"))

    async def _open(self, launch: Launch, on_listed: OnListed | None) -> None:
        await self._begun.wait()
        # Loading the library takes a second once, longer on a busy machine: none of that is the server's time.
        import_module("mcp")
        too_late = asyncio.create_task(self._end_late_start(launch.runner))
        try:
            async with self._session(launch) as client, anyio.create_task_group() as tasks:
                tools = await self._list(client)
                self._settle(client)
                too_late.cancel()
                tasks.start_soon(self._changes.listen, client, bool(self.spec.url), self.doubt)
                pass_on = partial(_ignore if on_listed is None else on_listed, self.spec.name)
                tasks.start_soon(self._changes.follow_tools, tools, pass_on, self.list_again, self.secrets)
                if self.requests.host is not None:
                    tasks.start_soon(self._changes.follow_offer, self.read_offer, self.secrets)
                await self._until_done(client)
                tasks.cancel_scope.cancel()
        finally:
            too_late.cancel()

    async def _end_late_start(self, runner: str) -> None:
        """Answer the callers at the deadline. Ending a hanging process takes up to two more seconds.

        The work of a package runner has a separate limit. A runner that waits, as npx does for the lock of a killed npx
        (65 s), has four times the server's limit.
        """
        connect_s, install_s = self.limits.connect_timeout_s, self.limits.install_timeout_s
        if not runner:
            await anyio.sleep(connect_s)
            self._too_late(f"not connected within {connect_s:g} s ({self.phase})", "connect_timeout_s")
            return
        begun = worked = anyio.current_time()
        while (now := anyio.current_time()) < begun + install_s:
            before, self._work = self._work, await asyncio.to_thread(work_of, self._child.pid)
            patience_s = connect_s if self.phase != "installing" else _PATIENCE * connect_s
            if self._work is None or self._work.since(before):
                worked = now
            elif now - worked >= patience_s:
                did = f"{runner} did nothing for {patience_s:g} s ({self.phase})"
                self._too_late(f"not connected: {did}", "connect_timeout_s")
                return
            await anyio.sleep(min(_SAMPLE_S, connect_s / 2))
        self._too_late(f"not connected by {runner} within {install_s:g} s ({self.phase})", "install_timeout_s")

    def _too_late(self, why: str, limit: str) -> None:
        remedy = f'; to wait longer, raise {limit} under "toolroute" in its entry'
        self._settle(error=self._unavailable(f": {why}{self._hint()}{remedy}"))
        self._scope.cancel()

    @asynccontextmanager
    async def _session(self, launch: Launch) -> AsyncIterator["Client"]:
        """Open a session, falling back to an older protocol or transport.

        If a process exits at the first request, it is started once more with the older protocol, and this is
        remembered. A process whose package runner failed is also started once more. If a URL refuses the first message,
        the older SSE transport is tried.
        """
        async with AsyncExitStack() as session:
            try:
                client = await session.enter_async_context(self._new_client(launch))
            except Exception as error:
                if not self._has_older_way(launch, error):
                    raise
                try:
                    client = await session.enter_async_context(self._new_client(launch))
                except Exception as second:
                    # The URL accepts neither transport. Its answer to the newer one is the better error.
                    raise error if self._sse and not faults.is_denied(second) else second from None
            self._greeted = True
            self.handshake = not launch.url and client.session.initialize_result is not None
            yield client

    def _has_older_way(self, launch: Launch, error: Exception) -> bool:
        """Switch to an older way of opening a session, if the error indicates that the server needs it."""
        if launch.url:
            older = not self._sse and faults.is_refused(error)
            self._sse = self._sse or older
        else:
            again = not self.handshake or launch.runner
            older = bool(again) and not self._child.flaw and faults.is_end(error)
            if older:
                cache = npm_cache({**os.environ, **launch.env})
                if launch.runner and (mended := mend_cache(self._child.said, cache)):
                    logger.warning(
                        "server %s: %s was installed incompletely and is installed again", self.spec.name, mended
                    )
                self.handshake, self._child = True, Child(self._pace)
        return older

    def _new_client(self, launch: Launch) -> "Client":
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
            **self.requests.callbacks(),
            mode="legacy" if self.handshake or self._sse else "auto",
        )

    @asynccontextmanager
    async def _watched(self, launch: Launch) -> AsyncIterator["TransportStreams"]:
        async with self._transport(launch) as (read, write):
            yield Watched(read, self._pace, self._listing.mend, self._ended), write

    def _transport(self, launch: Launch) -> "AbstractAsyncContextManager[TransportStreams]":
        if not launch.url:
            return self._child.streams(launch)
        from orchestrator.mcp.signin.oauth import SignedIn

        auth = SignedIn(self.tenant, self.spec, launch) if launch.signs_in else None
        return (sse if self._sse else http)(launch, self._changes.streaming.set, auth)

    def _ended(self) -> None:
        """Note a server's end. Before it has greeted, the request under way fails, and it may be started once more."""
        if self._greeted:
            self._die(self._child.flaw or "the server ended the connection")

    async def _on_message(self, message: Any) -> None:
        self._changes.note(message)
        await self.requests.note(message)

    async def _until_done(self, client: "Client") -> None:
        """Return when the session is to close: dead, retired and unused, or idle for too long."""
        while not self.death:
            self._wake.clear()
            if self.suspect:
                self.suspect = False
                await self._probe(client)
            # Calls do not wake this task, so that they cost nothing here: it looks again when the time may be up.
            idle_left = self.limits.idle_ttl_s
            if not self.users:
                idle_left += self.last_used - anyio.current_time()
                if self.retired or idle_left <= 0:
                    self.retired = True
                    return
            with anyio.move_on_after(idle_left):
                await self._wake.wait()

    async def _probe(self, client: "Client") -> None:
        """Keep a server that still answers. Otherwise it receives no further calls."""
        try:
            await asyncio.wait_for(tools_page(client), _PROBE_S)
        except TimeoutError:
            self.retired = True
        except Exception as error:
            self._die(faults.in_words(error, self.secrets))


async def _ignore(*_: Any) -> None: ...


_SILENT = logging.NullHandler()
