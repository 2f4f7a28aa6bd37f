"""Calls and other requests on an open session, each within its time limit. An error states if anything was sent."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from orchestrator.common.json_input import first_problem
from orchestrator.common.redact import Secrets
from orchestrator.errors import ServerUnavailable, ToolrouteError
from orchestrator.mcp import faults
from orchestrator.mcp.config.parse import ServerLimits, ServerSpec
from orchestrator.mcp.passed_messages import masked_model
from orchestrator.mcp.policy import Lifetime, progress_deadline
from orchestrator.mcp.server_requests import ASKER, ServerRequests
from orchestrator.mcp.transports.streams import Pace

if TYPE_CHECKING:
    from mcp import Client, MCPError
    from mcp.types import CallToolResult

    from orchestrator.mcp.calls import Call

    Answer = CallToolResult | MCPError | RuntimeError

T = TypeVar("T", bound=BaseModel)


class CallLost(Exception):
    """A call got no answer.

    Attributes:
        sent: The server may have run the call.
        timed_out: The server may still be running the call.
    """

    def __init__(self, reason: str, *, sent: bool, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.sent = sent
        self.timed_out = timed_out


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Session:
    """An open session with one server.

    Attributes:
        client: The library's client.
        spec: The server's entry.
        limits: Its time limits.
        tenant: The tenant whose sign-in is used.
        requests: Answers the server's questions.
        lifetime: The connection's lifetime.
        pace: The limit on the server's messages, which each call raises.
        wake: Has the owner of the connection look at its lifetime.
        hint: Returns the last output of the server's process.
    """

    client: "Client"
    spec: ServerSpec
    limits: ServerLimits
    tenant: str
    requests: ServerRequests
    lifetime: Lifetime
    pace: Pace
    wake: Callable[[], None]
    hint: Callable[[], str]
    log_level: str = field(default="", init=False)

    @property
    def is_handshake(self) -> bool:
        """True for a protocol before 2026-07-28, with which a server may ask its client at any time."""
        return self.client.session.initialize_result is not None

    @property
    def _secrets(self) -> Secrets:
        return self.requests.secrets

    async def call(self, call: "Call") -> "Answer":
        """Return the server's result, its own error, or a RuntimeError if its answer is unusable.

        Raises:
            CallLost: There was no answer.
        """
        from mcp import MCPError
        from pydantic import ValidationError

        from orchestrator.mcp.tasks import ALIVE

        if self.lifetime.death:
            raise CallLost(self.lifetime.death, sent=False)
        limit_s = call.seconds_left(self.limits.call_timeout_s)
        timeout = asyncio.timeout(limit_s)
        # A deadline of the caller stays, whatever the client behind it thinks or the server reports.
        patient = (
            self.requests.patient(timeout, limit_s) if call.deadline is None else nullcontext()
        )
        # A server may answer each call with many messages, and must not wait for its pace then.
        self.pace.allow_call()
        progressed = self._keep_alive(call, timeout, limit_s)
        ALIVE.set(progressed)
        try:
            async with timeout:
                with patient:
                    return await self.client.call_tool(
                        call.name,
                        call.arguments,
                        progress_callback=progressed,
                        meta=await self._meta(call.meta),
                    )
        except TimeoutError:
            # A slow tool is no reason to end a server's state: whether it still answers is asked apart.
            self._doubt()
            after = f"no answer within {round(limit_s, 2):g} s of being sent or of its last progress{self.hint()}"
            raise CallLost(after, sent=True, timed_out=True) from None
        except ValidationError as error:
            return RuntimeError(f"cannot be read ({self._secrets.redact(first_problem(error))})")
        except MCPError as error:
            self._raise_if_lost(error)
            return error
        except Exception as error:
            # The library lets through what its transports and parsers raise.
            raise CallLost(
                f"its answer cannot be read ({faults.in_words(error, self._secrets)})", sent=True
            ) from None

    def _keep_alive(self, call: "Call", timeout: asyncio.Timeout, limit_s: float) -> Any:
        """Return a callback that extends the time limit with each progress of the call."""
        loop = asyncio.get_running_loop()
        begun = loop.time()

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            if call.deadline is None and not timeout.expired() and not self.requests.waiting:
                timeout.reschedule(progress_deadline(loop.time(), begun, limit_s))
            if call.on_progress is not None:
                words = message and self._secrets.redact(message)
                await call.on_progress(progress, total, words)

        return progressed

    async def _meta(self, meta: Mapping[str, Any]) -> Any:
        """Return a call's meta with the log level that its client wants."""
        from mcp.types import LOG_LEVEL_META_KEY

        asker = ASKER.get()
        level = asker.log_level if asker else ""
        await self.set_log_level(level)
        return {**meta, LOG_LEVEL_META_KEY: level} if level else meta or None

    async def set_log_level(self, level: str) -> None:
        if level != self.log_level:
            self.log_level = level
            await self.requests.set_log_level(self.client, level)

    async def request(self, send: Callable[["Client"], Awaitable[T]]) -> T:
        """Send a request other than a call, and return its answer. The server's own error is raised without secrets."""
        from mcp import MCPError

        self.pace.allow_call()
        limit_s = self.limits.call_timeout_s
        try:
            async with asyncio.timeout(limit_s) as timeout:
                with self.requests.patient(timeout, limit_s):
                    return masked_model(await send(self.client), self._secrets)
        except TimeoutError:
            self._doubt()
            raise self._unavailable(f": no answer within {limit_s:g} s{self.hint()}") from None
        except MCPError as error:
            try:
                self._raise_if_lost(error)
            except CallLost as lost:
                raise self._unavailable(f": {lost}") from None
            data = self._secrets.redact_json(error.error.data)
            raise MCPError(error.code, self._secrets.redact(error.message), data) from None
        except ToolrouteError:
            raise
        except Exception as error:  # As in `call`.
            words = faults.in_words(error, self._secrets)
            raise self._unavailable(f": its answer cannot be read ({words})") from None

    def _raise_if_lost(self, error: "MCPError") -> None:
        from mcp.types import CONNECTION_CLOSED

        message = self._secrets.redact(error.message)
        if error.code == faults.DENIED:
            raise faults.credentials_refused(self.spec, self.tenant, message)
        if error.code == faults.BUSY:
            raise self._unavailable(f" is busy ({message}); it did not run the call")
        if error.code == faults.UNSENT:
            self.lifetime.die(message)
            self.wake()
            raise CallLost(message, sent=False)
        if self.spec.url and faults.is_unreadable(error):
            raise CallLost(f"{faults.UNREADABLE}{self.hint()}", sent=True)
        # Over stdio a server may use this code itself. There the end of its output shows the difference.
        closed = error.code == CONNECTION_CLOSED and (self.lifetime.death or self.spec.url)
        if closed or error.code == faults.LOST:
            self._doubt()
            raise CallLost(f"{self.lifetime.death or message}{self.hint()}", sent=True)

    def _doubt(self) -> None:
        self.lifetime.suspect = True
        self.wake()

    def _unavailable(self, why: str) -> ServerUnavailable:
        return ServerUnavailable(f"server {self.spec.name!r}{why}")
