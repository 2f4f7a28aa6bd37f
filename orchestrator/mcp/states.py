"""The state of each server in a pool, and its record for people and programs."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from orchestrator.errors import InvalidConfig, ToolrouteError
from orchestrator.mcp.config.parse import ServerLimits, ServerSpec
from orchestrator.mcp.connection import Connection
from orchestrator.mcp.policy import Backoff
from orchestrator.mcp.signin import files as sign_ins


class Readiness(StrEnum):
    """The phases of a server: configured, its tools known, connecting, connected, or failed."""

    CONFIGURED = "configured"
    KNOWN = "known"
    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The state of one server.

    Attributes:
        tools: The number of its tools, or None if unknown.
        last_error: The last error, without secrets.
    """

    server: str
    state: Readiness
    transport: str
    tools: int | None = None
    calls_in_flight: int = 0
    idle_s: float | None = None
    last_error: str = ""
    retry_in_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        for name in ("idle_s", "retry_in_s"):
            if fields[name] is not None:
                fields[name] = round(fields[name], 1)
        return {**fields, "state": str(self.state)}


class Server:
    """A configured server in the pool: its connection, and the data that is kept between connections.

    Attributes:
        connection: The present connection, which may be on its way out.
        tools: The number of its tools, or None if unknown.
        handshake: Use the protocol before 2026-07-28: the server, or a client behind toolroute, needs it.
        backoff: The pause after failures.
        last_error: The last error, without secrets.
    """

    def __init__(self, spec: ServerSpec, limits: ServerLimits, backoff: Backoff) -> None:
        self.spec = spec
        self.limits = limits
        self.backoff = backoff
        self.connection: Connection | None = None
        self.tools: int | None = None
        self.handshake = False
        self.last_error: ToolrouteError | None = (
            InvalidConfig(spec.problem) if spec.problem else None
        )
        self._refusal: ToolrouteError | None = None
        self._refused_at = 0

    def refuse(self, error: ToolrouteError | None) -> None:
        """Record that the server refused the credentials, or, with None, that it accepted them."""
        self._refusal = error
        self._refused_at = sign_ins.stamp()

    @property
    def refused(self) -> str:
        """The reason why the server refused the credentials at the last try.

        It is "" if the server did not, or if a newer sign-in exists.
        """
        if self._refusal is None or self._refused_at != sign_ins.stamp():
            return ""
        return str(self._refusal)

    @property
    def open(self) -> Connection | None:
        """The connection that a call may join: it is ready or will be."""
        return self.connection if self.connection and self.connection.usable else None

    def state(self, now: float) -> ServerState:
        lifetime = self.connection.lifetime if self.connection else None
        readiness = self._readiness
        is_idle = lifetime is not None and readiness is Readiness.READY and not lifetime.users
        return ServerState(
            server=self.spec.name,
            state=readiness,
            transport=self.spec.transport,
            tools=self.tools,
            calls_in_flight=lifetime.users if lifetime else 0,
            idle_s=now - lifetime.last_used if lifetime and is_idle else None,
            last_error=str(self.last_error or ""),
            retry_in_s=self._retry_in_s(now),
        )

    def _retry_in_s(self, now: float) -> float | None:
        if self._readiness is not Readiness.FAILED:
            return None
        return max(0.0, self.backoff.retry_at - now)

    @property
    def _readiness(self) -> Readiness:
        if self.open:
            return Readiness.READY if self.open.was_ready else Readiness.CONNECTING
        if self.backoff.failures or self.spec.problem:
            return Readiness.FAILED
        return Readiness.CONFIGURED if self.tools is None else Readiness.KNOWN
