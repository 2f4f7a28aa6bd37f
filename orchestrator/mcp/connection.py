"""One connection: the task that opens a session, serves it and closes it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import anyio

from orchestrator.common.redact import LogFilter, Secrets
from orchestrator.errors import ServerUnavailable, ToolrouteError
from orchestrator.mcp import faults
from orchestrator.mcp.config.launch import Launch
from orchestrator.mcp.config.parse import ServerLimits, ServerSpec
from orchestrator.mcp.listing.changes import Changes
from orchestrator.mcp.listing.offers import Offer, read_offer
from orchestrator.mcp.listing.skill_files import read_skill
from orchestrator.mcp.listing.tools import Listing, tools_page
from orchestrator.mcp.opening import Opening
from orchestrator.mcp.policy import Action, Lifetime
from orchestrator.mcp.server_requests import Asker, Host, ServerRequests
from orchestrator.mcp.session import Session
from orchestrator.mcp.signin import files as sign_ins
from orchestrator.mcp.transports.streams import Pace
from orchestrator.records.tool import Kind, Tool

if TYPE_CHECKING:
    from mcp import Client

    from orchestrator.mcp.calls import Call
    from orchestrator.mcp.session import Answer

OnListed = Callable[[str, tuple[Tool, ...]], Awaitable[None]]
"""Called with a server's name and its tools, after connecting and after each change notification."""

_PROBE_S = 2.0
"""Seconds for an answer after a call that was late. A server that gives none is replaced at the next call."""
_OFFER_SHARE = 0.6
"""The share of a server's time limit for its resources and prompts, so that there is time to store the tools."""
_LEAST_OFFER_S = 3.0
"""Seconds that they have at least, after a slow connection."""
_SKILL_READS = 2
"""The skills are listed again once: a file that still differs then has another fault."""


class Connection:
    """A connection to one server.

    It settles once, as ready or failed (`error`). It ends once, and leaves no process and no task. No lock is needed,
    because no method awaits between a check and the change that depends on it.

    Args:
        spec: The server's entry.
        limits: Its time limits.
        on_settled: Is called before the callers that wait for the connection continue.
        tenant: The tenant whose sign-in is used.
        handshake: Use the protocol before 2026-07-28 at once.
        host: Answers the server's questions.

    Attributes:
        tools: The server's tools by name.
        called: Whether a tool was called since the tools were listed.
        sign_ins: The stamp of the sign-ins that were there at its start.
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
        self.spec = spec
        self.tools: dict[str, Tool] = {}
        self.called = False
        self.error: ToolrouteError | None = None
        self.sign_ins = sign_ins.stamp()
        self.requests = ServerRequests(spec.name, host)
        self.lifetime = Lifetime(limits.idle_ttl_s)
        self.settled = asyncio.Event()
        self._limits = limits
        self._tenant = tenant
        self._on_settled = on_settled
        self._begun = asyncio.Event()
        self._wake = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._pace = Pace()
        self._opening = Opening(spec, tenant=tenant, handshake=handshake, pace=self._pace)
        self._changes = Changes(spec.name)
        self._listing = Listing(spec)
        self._offer: Offer | None = None
        self._session: Session | None = None
        self._connecting_s = 0.0
        """The seconds in which it connected. The installation by a package runner does not count."""

    @property
    def secrets(self) -> Secrets:
        return self._listing.secrets

    @property
    def usable(self) -> bool:
        """True while a caller may join: it is ready or will be, and is not on its way out."""
        return self.lifetime.usable and self.error is None

    @property
    def was_ready(self) -> bool:
        return self._session is not None

    @property
    def needs_handshake(self) -> bool:
        """True if the server needed the protocol before 2026-07-28."""
        return self.was_ready and self._opening.handshake

    @property
    def session(self) -> Session:
        """The open session. Raises ServerUnavailable if the connection was never ready."""
        if self._session is None:
            raise self._unavailable(" is not connected")
        return self._session

    @property
    def outcome(self) -> str:
        """A phrase for the result of connecting, without any text from the server."""
        if self.error is not None:
            return f"not connected ({type(self.error).__name__})"
        return f"connected, {len(self.tools)} {'tool' if len(self.tools) == 1 else 'tools'}"

    @property
    def phase(self) -> str:
        """The current phase of connecting."""
        return self._opening.phase if self._begun.is_set() else "waiting"

    def begin(self) -> None:
        """Start the connecting, which waits until this is called."""
        self._begun.set()

    async def until_settled(self, deadline: float | None) -> None:
        """Wait until the connection is ready. Raises its error, or ServerUnavailable at the deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                await self.settled.wait()
        except TimeoutError:
            raise self._unavailable(" was not connected within the deadline") from None
        if self.error is not None:
            raise type(self.error)(*self.error.args)

    def join(self) -> Asker | None:
        """Register a caller. Returns its client, if any, which the server may ask until the call ends."""
        self.lifetime.users += 1
        return self.requests.join()

    def leave(self, asker: Asker | None = None) -> None:
        if asker is not None:
            self.requests.askers.remove(asker)
        self.lifetime.leave(asyncio.get_running_loop().time())
        if self.lifetime.retired:
            self._wake.set()

    def retire(self) -> None:
        """Accept no new calls, and close after the last call."""
        self.lifetime.retired = True
        self._wake.set()

    def close(self) -> None:
        """Close now. Calls in progress are interrupted."""
        self._die("it was closed")
        self._settle(error=self._unavailable(": these connections were closed"))
        if not self.was_ready:
            self._scope.cancel()

    def _die(self, reason: str) -> None:
        self.lifetime.die(reason)
        self._wake.set()

    def doubt(self) -> None:
        """Have it found out whether the server still answers."""
        self.lifetime.suspect = True
        self._wake.set()

    def _settle(self, session: Session | None = None, error: ToolrouteError | None = None) -> None:
        """Release all waiting callers, or give them the error. Only the first result counts."""
        if self.settled.is_set():
            return
        self._session = session
        self.error = error
        self.lifetime.last_used = asyncio.get_running_loop().time()
        self._on_settled(self)
        self.settled.set()

    def _unavailable(self, why: str) -> ServerUnavailable:
        return ServerUnavailable(f"server {self.spec.name!r}{why}")

    def _hint(self) -> str:
        return self._opening.child.last_words(self.secrets)

    async def list_again(self) -> tuple[Tool, ...]:
        """List the server's tools now. Raises ServerUnavailable if that fails."""
        try:
            async with asyncio.timeout(self._limits.connect_timeout_s):
                return await self._list(self.session.client)
        except ToolrouteError:
            raise
        except Exception as error:
            # The library lets through what its transports and parsers raise.
            raise self._unavailable(
                f" did not list its tools: {faults.in_words(error, self.secrets)}"
            ) from None

    async def _list(self, client: "Client") -> tuple[Tool, ...]:
        self.called = False
        tools = await self._listing.tools(client)
        self.tools = {tool.name: tool for tool in tools}
        return tools

    async def call(self, call: "Call", live: Tool) -> "Answer":
        """Call a tool, or read a file of a skill.

        Args:
            call: The call.
            live: The tool or the skill.
        """
        if live.kind is Kind.SKILL:
            return await self._read_skill(live.name, str(call.arguments.get("file") or ""))
        return await self.session.call(call)

    async def _read_skill(self, name: str, path: str) -> "Answer":
        """Read a file of a skill, and list the skills again if the file is newer than its entry."""
        from mcp import MCPError

        for _ in range(_SKILL_READS):
            skill = self._listing.skills.get(name)
            if skill is None:
                return RuntimeError("cannot be read (its server has this skill no more)")
            try:
                result = await read_skill(self.session, skill, path)
            except MCPError as error:
                return error
            if result is not None:
                return result
            await self.list_again()
        return RuntimeError(
            "cannot be used (the file differs from the digest that its server states)"
        )

    async def read_offer(self) -> Offer:
        """Ask the server for its offer now, and pass it on if it has changed.

        A server has one time limit for its connection and its first offer.
        """
        limit_s = self._limits.connect_timeout_s
        left_s = min(_OFFER_SHARE * limit_s, limit_s - self._connecting_s)
        self._connecting_s = 0.0
        async with asyncio.timeout(max(_LEAST_OFFER_S, left_s)):
            offer = await read_offer(
                self.session.client,
                self._listing.extras,
                self._listing.skills.values(),
                self.secrets,
                self._listing.warn_once,
            )
        if self.requests.host is not None and offer != self._offer:
            await self.requests.host.on_offer(self.spec.name, offer)
        self._offer = offer
        return offer

    async def run(self, environ: Mapping[str, str] | None, on_listed: OnListed | None) -> None:
        """Open the session, serve it and close it. `error` and the lifetime's `death` have the result."""
        launch = Launch()
        try:
            launch = self.spec.launch(environ)
            self._listing.secrets = self.requests.secrets = launch.secrets
            if not self.lifetime.death:
                with self._scope, LogFilter(launch.secrets):
                    await self._serve(launch, on_listed)
        except ToolrouteError as error:
            self._settle(error=error)
        except Exception as error:
            # Of any kind: the transports raise groups of their libraries' errors.
            self._settle(error=self._error(launch, error))
            self._die(faults.in_words(error, self.secrets))
        finally:
            self._settle(error=self._unavailable(": its task was cancelled"))

    def _error(self, launch: Launch, error: Exception) -> ToolrouteError:
        if self._opening.child.flaw:
            return self._unavailable(f": {self._opening.child.flaw}{self._hint()}")
        # A runner that has ended by itself may have started the server or not.
        phase = (
            f"{launch.runner}: installing or starting" if self.phase == "installing" else self.phase
        )
        hint = self._hint() if phase == "connecting" else f" ({phase}){self._hint()}"
        return faults.connect_error(self.spec, self._tenant, launch, error, hint)

    async def _serve(self, launch: Launch, on_listed: OnListed | None) -> None:
        await self._begun.wait()
        # Loading the library takes a second once, longer on a busy machine: none of that is the server's time.
        import_module("mcp")
        began = anyio.current_time()
        late_start = asyncio.create_task(self._end_late_start(launch.runner))
        try:
            async with (
                self._opening.session(
                    launch, self.requests, self._changes, self._listing, self._ended
                ) as client,
                anyio.create_task_group() as tasks,
            ):
                tools = await self._list(client)
                if not launch.runner:
                    self._connecting_s = anyio.current_time() - began
                self._settle(self._session_of(client))
                late_start.cancel()
                tasks.start_soon(self._changes.listen, client, bool(self.spec.url), self.doubt)
                pass_on = partial(_ignore if on_listed is None else on_listed, self.spec.name)
                tasks.start_soon(
                    self._changes.follow_tools,
                    tools,
                    pass_on,
                    self.list_again,
                    self.secrets,
                    lambda: self._listing.fresh_s,
                )
                if self.requests.host is not None:
                    tasks.start_soon(self._changes.follow_offer, self.read_offer, self.secrets)
                await self._until_done(client)
                tasks.cancel_scope.cancel()
        finally:
            late_start.cancel()

    def _session_of(self, client: "Client") -> Session:
        return Session(
            client=client,
            spec=self.spec,
            limits=self._limits,
            tenant=self._tenant,
            requests=self.requests,
            lifetime=self.lifetime,
            pace=self._pace,
            wake=self._wake.set,
            hint=self._hint,
        )

    async def _end_late_start(self, runner: str) -> None:
        """Answer the callers at the deadline. Ending a hanging process takes up to two more seconds.

        A package runner installs the server first, which has a longer limit.
        """
        if runner:
            limit_s = self._limits.install_timeout_s
            setting = "install_timeout_s"
        else:
            limit_s = self._limits.connect_timeout_s
            setting = "connect_timeout_s"
        await anyio.sleep(limit_s)
        by = f" by {runner}" if runner else ""
        why = f": not connected{by} within {limit_s:g} s ({self.phase}){self._hint()}"
        remedy = f'to wait longer, raise {setting} under "toolroute" in its entry'
        self._settle(error=self._unavailable(f"{why}; {remedy}"))
        self._scope.cancel()

    def _ended(self) -> None:
        self._die(self._opening.child.flaw or "the server ended the connection")

    async def _until_done(self, client: "Client") -> None:
        """Return when the session is to close."""
        while True:
            self._wake.clear()
            step = self.lifetime.next_step(anyio.current_time())
            if step.action is Action.CLOSE:
                self.lifetime.retired = not self.lifetime.death
                return
            if step.action is Action.PROBE:
                self.lifetime.suspect = False
                await self._probe(client)
                continue
            # Calls do not wake this task, so that they cost nothing here: it looks again when the time may be up.
            with anyio.move_on_after(step.seconds):
                await self._wake.wait()

    async def _probe(self, client: "Client") -> None:
        """Keep a server that still answers. Otherwise it receives no further calls."""
        try:
            await asyncio.wait_for(tools_page(client), _PROBE_S)
        except TimeoutError:
            self.lifetime.retired = True
        except Exception as error:  # As in `list_again`.
            self._die(faults.in_words(error, self.secrets))


async def _ignore(*_: object) -> None: ...
