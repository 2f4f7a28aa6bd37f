"""One MCP session as its callers see it; `owner.py` opens and closes it in a task of its own."""

import asyncio
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.catalogue.reading import first_problem
from orchestrator.errors import ServerUnavailable, ToolrouteError, Unauthorised
from orchestrator.mcp import http_guard
from orchestrator.mcp.config import ServerSpec
from orchestrator.mcp.faults import LONGEST, in_words
from orchestrator.mcp.listing import Inventory, list_tools, take_inventory
from orchestrator.mcp.repairs import LeftOut
from orchestrator.mcp.transports import Stderr
from orchestrator.records.redact import Secrets
from orchestrator.records.tool import Tool

if TYPE_CHECKING:
    from mcp import Client, MCPError
    from mcp.types import CallToolResult

    from orchestrator.mcp.calls import OnProgress, Patience

    Answer = CallToolResult | MCPError | RuntimeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """One server's deadlines and idle time, in seconds."""

    connect_timeout_s: float
    call_timeout_s: float
    idle_ttl_s: float


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

    def __init__(self, spec: ServerSpec, deadlines: Deadlines, on_settled: Callable[["Connection"], None]) -> None:
        self.spec, self.deadlines = spec, deadlines
        self.settled = asyncio.Event()
        self.error: ToolrouteError | None = None
        self.death = ""
        self.tools: dict[str, Tool] = {}
        self.secrets = Secrets()
        self.users = 0
        self.last_used = math.inf
        self.retired = False
        self.suspect = False
        self.opening = False
        self.handshake = False
        self.wake, self.changed = asyncio.Event(), asyncio.Event()
        self.stderr, self.left_out = Stderr(), LeftOut(spec.name)
        self.junk_lines = 0
        self.cancel_opening: Callable[[], None] | None = None
        self._client: Client | None = None
        self._on_settled = on_settled

    @property
    def usable(self) -> bool:
        """Whether a call may join: it is ready or will be, and is not on its way out."""
        return not (self.retired or self.death or self.error)

    @property
    def was_ready(self) -> bool:
        return self._client is not None

    @property
    def client(self) -> "Client":
        if self._client is None:
            raise ServerUnavailable(f"server {self.spec.name!r} is not connected")
        return self._client

    def enter(self) -> None:
        self.users += 1

    def leave(self) -> None:
        self.users -= 1
        self.last_used = asyncio.get_running_loop().time()
        if self.retired:
            self.wake.set()

    def opened(self, client: "Client", tools: tuple[Tool, ...]) -> None:
        """Ready: everyone who waits may call. Too late when it has failed already."""
        if self.settled.is_set():
            return
        self.tools = {tool.name: tool for tool in tools}
        self.last_used = asyncio.get_running_loop().time()
        self._client = client
        self._settle()

    def failed(self, error: ToolrouteError) -> None:
        """Not to be had: everyone who waits gets the error. Only the first outcome counts."""
        if not self.settled.is_set():
            self.error = error
            self._settle()

    async def until_settled(self, deadline: float | None) -> None:
        """Waits until it is ready or has failed; ServerUnavailable when the deadline, in the loop's time, passes."""
        try:
            async with asyncio.timeout_at(deadline):
                await self.settled.wait()
        except TimeoutError:
            name = self.spec.name
            raise ServerUnavailable(f"server {name!r} was not connected within the deadline") from None

    def _settle(self) -> None:
        self.opening = False
        self._on_settled(self)
        self.settled.set()

    def start_over(self) -> None:
        """The server is started once more, for the older protocol's handshake; what the first one said is forgotten."""
        self.handshake = True
        self.stderr, self.junk_lines = Stderr(), 0

    def retire(self) -> None:
        """Takes no new calls; closes when the last one has ended."""
        self.retired = True
        self.wake.set()

    def close(self) -> None:
        """Closes now, whatever runs."""
        self.die("it was closed")
        self.failed(ServerUnavailable(f"server {self.spec.name!r}: these connections were closed"))
        if not self.was_ready and self.cancel_opening is not None:
            self.cancel_opening()

    def die(self, reason: str) -> None:
        self.death = self.death or reason
        self.wake.set()

    def doubt(self) -> None:
        """Has the owner ask whether the server still answers."""
        self.suspect = True
        self.wake.set()

    def hint(self) -> str:
        """What the server said elsewhere, for messages; without secrets."""
        lines = "1 line that is" if self.junk_lines == 1 else f"{self.junk_lines:,} lines that are"
        junk = f"; it wrote {lines} not MCP to its output" if self.junk_lines else ""
        tail = self.stderr.tail(self.secrets.scrub)
        return f"{junk}; its last words: {tail}" if tail else junk

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        patience: "Patience",
        on_progress: "OnProgress | None" = None,
    ) -> "Answer":
        """The server's result, or the error that stands for one (a RuntimeError: it ran, but its answer ...); raises
        CallLost where there was no answer."""
        from mcp import MCPError
        from pydantic import ValidationError

        if self._client is None or self.death:
            raise CallLost(self.death or "it is not connected", sent=False)
        begin = asyncio.get_running_loop().time()
        limit = asyncio.timeout(patience.silent_s)
        try:
            async with limit:
                return await self._client.call_tool(
                    name,
                    dict(arguments),
                    progress_callback=self._told(limit, patience, on_progress),
                    meta=dict(meta) or None,  # type: ignore[arg-type]
                )
        except TimeoutError:
            # A slow tool is no reason to end a server's state: whether it still answers is asked apart.
            self.doubt()
            told = f"no answer within {round((limit.when() or begin) - begin, 2):g} s of being sent{self.hint()}"
            raise CallLost(told, sent=True, timed_out=True) from None
        except ValidationError as error:
            return RuntimeError(f"cannot be read ({self.secrets.scrub(first_problem(error))})")
        except MCPError as error:
            self._raise_if_lost(error)
            return error
        except RuntimeError as error:
            # The library's word for a result that does not match the tool's own output schema.
            said, _, _ = str(error).partition("\n")  # What follows are the schema and the answer.
            return RuntimeError(f"breaks its own output schema: {self.secrets.scrub(said)[:LONGEST]}")
        except Exception as error:
            raise CallLost(f"its answer cannot be read ({in_words(error, self.secrets)})", sent=True) from None

    def _told(self, limit: asyncio.Timeout, patience: "Patience", on_progress: "OnProgress | None") -> "OnProgress":
        """A server that tells its progress is at work: its time begins anew."""
        clock = asyncio.get_running_loop().time
        last = clock() + patience.whole_s

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            with suppress(RuntimeError):  # The call is over.
                limit.reschedule(min(clock() + patience.silent_s, last))
            if on_progress is not None:
                await on_progress(progress, total, message and self.secrets.scrub_result(message))

        return tell

    def _raise_if_lost(self, error: "MCPError") -> None:
        from mcp.types import CONNECTION_CLOSED

        message = self.secrets.scrub(error.message)
        if remedy := http_guard.REMEDIES.get(error.code):
            raise Unauthorised(f"server {self.spec.name!r} refused the credentials ({message}): {remedy}")
        if error.code == http_guard.BUSY:
            raise ServerUnavailable(f"server {self.spec.name!r} is busy ({message}); it did not run the call")
        if error.code in (http_guard.UNSENT, http_guard.SESSION_GONE):
            self.die(message)
            raise CallLost(message, sent=False)
        # Over stdio a server may use this code itself; there the end of its output tells the two apart.
        closed = error.code == CONNECTION_CLOSED and (self.death or self.spec.transport == "http")
        if closed or error.code == http_guard.LOST:
            self.doubt()
            raise CallLost(f"{self.death or message}{self.hint()}", sent=True)

    async def listed(self, client: "Client") -> tuple[Tool, ...]:
        return await list_tools(client, self.spec, self.secrets, self.left_out)

    async def list_again(self) -> tuple[Tool, ...]:
        """Asks the server for its tools now."""
        async with asyncio.timeout(self.deadlines.connect_timeout_s):
            tools = await self.listed(self.client)
        self.tools = {tool.name: tool for tool in tools}
        return tools

    async def inventory(self) -> Inventory:
        """The tools as last listed, and counts of what else the server has."""
        return await take_inventory(self.client, self.spec.name, tuple(self.tools.values()))
