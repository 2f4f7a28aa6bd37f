"""One MCP session as its callers see it; `owner.py` opens and closes it in a task of its own."""

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrator.catalogue.reading import first_problem
from orchestrator.errors import ServerUnavailable, ToolrouteError
from orchestrator.mcp import faults
from orchestrator.mcp.config import ServerSpec
from orchestrator.mcp.faults import credentials_refused, in_words
from orchestrator.mcp.listing import Listing
from orchestrator.mcp.transport import Stderr
from orchestrator.records.redact import Secrets
from orchestrator.records.tool import Tool

if TYPE_CHECKING:
    from mcp import Client, MCPError
    from mcp.types import CallToolResult

    from orchestrator.mcp.calls import Call

    Answer = CallToolResult | MCPError | RuntimeError


class CallLost(Exception):
    """No answer to a call. `sent`: the server may have run it; `timed_out`: it may run still."""

    def __init__(self, reason: str, *, sent: bool, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.sent, self.timed_out = sent, timed_out


class Connection:
    """Settles once, as ready or failed (`error`); ends once, after which no process and no task of it is left.

    Nothing here awaits between a check and the change that it allows, so no lock is needed. With `handshake` the server
    is asked as the protocol was before 2026-07-28 right away, since it took that before.
    """

    def __init__(self, spec: ServerSpec, on_settled: Callable[["Connection"], None], *, handshake: bool) -> None:
        self.spec, self.handshake = spec, handshake
        self.settled = asyncio.Event()
        self.error: ToolrouteError | None = None
        self.death = ""
        self.tools: dict[str, Tool] = {}
        self.users = 0
        self.last_used = math.inf
        self.retired = self.suspect = False
        self.wake, self.changed = asyncio.Event(), asyncio.Event()
        self.listing, self.stderr = Listing(spec), Stderr()
        self.cancel_opening: Callable[[], None] | None = None
        self._client: Client | None = None
        self._on_settled = on_settled

    @property
    def secrets(self) -> Secrets:
        return self.listing.secrets

    @property
    def usable(self) -> bool:
        """True while a call may join: it is ready or will be, and is not on its way out."""
        return not (self.retired or self.death or self.error)

    @property
    def was_ready(self) -> bool:
        return self._client is not None

    @property
    def client(self) -> "Client":
        if self._client is None:
            raise ServerUnavailable(f"server {self.spec.name!r} is not connected")
        return self._client

    def leave(self) -> None:
        self.users -= 1
        self.last_used = asyncio.get_running_loop().time()
        if self.retired:
            self.wake.set()

    def opened(self, client: "Client", tools: tuple[Tool, ...]) -> None:
        """Let everyone who waits call. Too late when it has failed already."""
        if not self.settled.is_set():
            self.tools = {tool.name: tool for tool in tools}
            self.last_used = asyncio.get_running_loop().time()
            self._client = client
            self._settle()

    def failed(self, error: ToolrouteError) -> None:
        """Give everyone who waits the error. Only the first outcome counts."""
        if not self.settled.is_set():
            self.error = error
            self._settle()

    def _settle(self) -> None:
        self._on_settled(self)
        self.settled.set()

    async def until_settled(self, deadline: float | None) -> None:
        """Wait until it is ready; raise why it failed, or that the deadline, in the loop's time, passed."""
        try:
            async with asyncio.timeout_at(deadline):
                await self.settled.wait()
        except TimeoutError:
            name = self.spec.name
            raise ServerUnavailable(f"server {name!r} was not connected within the deadline") from None
        if self.error is not None:
            raise type(self.error)(*self.error.args)

    def retire(self) -> None:
        """Take no new calls; close when the last one has ended."""
        self.retired = True
        self.wake.set()

    def close(self) -> None:
        """Close now, whatever runs."""
        self.die("it was closed")
        self.failed(ServerUnavailable(f"server {self.spec.name!r}: these connections were closed"))
        if not self.was_ready and self.cancel_opening is not None:
            self.cancel_opening()

    def die(self, reason: str) -> None:
        self.death = self.death or reason
        self.wake.set()

    def doubt(self) -> None:
        """Have the owner ask whether the server still answers."""
        self.suspect = True
        self.wake.set()

    def hint(self) -> str:
        """Return what the server said on its standard error, for messages; without secrets."""
        tail = self.stderr.tail(self.secrets)
        return f"; last stderr output: {tail}" if tail else ""

    async def call(self, call: "Call") -> "Answer":
        """Return the server's result, or the error that stands for one (a RuntimeError: it ran, but its answer ...);
        CallLost where there was no answer."""
        from mcp import MCPError
        from pydantic import ValidationError

        if self._client is None or self.death:
            raise CallLost(self.death or "it is not connected", sent=False)
        limit_s = call.seconds_left(self.spec.call_timeout_s)
        progress = call.progress(self.secrets)
        try:
            async with asyncio.timeout(limit_s):
                return await self._client.call_tool(
                    call.name,
                    call.arguments,
                    progress_callback=progress,
                    meta=call.meta or None,  # type: ignore[arg-type]
                )
        except TimeoutError:
            # A slow tool is no reason to end a server's state: whether it still answers is asked apart.
            self.doubt()
            after = f"no answer within {round(limit_s, 2):g} s of being sent{self.hint()}"
            raise CallLost(after, sent=True, timed_out=True) from None
        except ValidationError as error:
            return RuntimeError(f"cannot be read ({self.secrets.redact(first_problem(error))})")
        except MCPError as error:
            self._raise_if_lost(error)
            return error
        except Exception as error:
            raise CallLost(f"its answer cannot be read ({in_words(error, self.secrets)})", sent=True) from None

    def _raise_if_lost(self, error: "MCPError") -> None:
        from mcp.types import CONNECTION_CLOSED

        message = self.secrets.redact(error.message)
        if error.code in faults.REMEDIES:
            raise credentials_refused(self.spec.name, message, error.code)
        if error.code == faults.BUSY:
            raise ServerUnavailable(f"server {self.spec.name!r} is busy ({message}); it did not run the call")
        if error.code in (faults.UNSENT, faults.SESSION_GONE):
            self.die(message)
            raise CallLost(message, sent=False)
        # Over stdio a server may use this code itself; there the end of its output tells the two apart.
        closed = error.code == CONNECTION_CLOSED and (self.death or self.spec.transport == "http")
        if closed or error.code == faults.LOST:
            self.doubt()
            raise CallLost(f"{self.death or message}{self.hint()}", sent=True)

    async def list_again(self) -> tuple[Tool, ...]:
        """Ask the server for its tools now; ServerUnavailable where it fails."""
        try:
            async with asyncio.timeout(self.spec.connect_timeout_s):
                tools = await self.listing.tools(self.client)
        except ToolrouteError:
            raise
        except Exception as error:
            why = in_words(error, self.secrets)
            raise ServerUnavailable(f"server {self.spec.name!r} did not list its tools: {why}") from None
        self.tools = {tool.name: tool for tool in tools}
        return tools
