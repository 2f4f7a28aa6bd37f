"""The state of each server in a pool, and its record for people and programs."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from orchestrator.errors import InvalidConfig, ToolrouteError
from orchestrator.mcp.config.parse import ServerLimits, ServerSpec
from orchestrator.mcp.connection import Connection
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
        rounded = {name: round(value, 1) if isinstance(value, float) else value for name, value in asdict(self).items()}
        return {**rounded, "state": str(self.state)}


class Server:
    """A configured server in the pool: its connection, and the data that is kept between connections."""

    def __init__(self, spec: ServerSpec, limits: ServerLimits) -> None:
        self.spec, self.limits = spec, limits
        self.connection: Connection | None = None
        self.tools: int | None = None
        self.handshake = False
        self.failures = 0
        self.pause = self.retry_at = 0.0
        self.last_error: ToolrouteError | None = InvalidConfig(spec.problem) if spec.problem else None
        self._refused: tuple[ToolrouteError, int] | None = None

    def refuse(self, error: ToolrouteError | None) -> None:
        """Record that the server refused the credentials, or, with None, that it accepted them."""
        self._refused = None if error is None else (error, sign_ins.stamp())

    @property
    def refused(self) -> str:
        """The reason why the server refused the credentials at the last try, or "" if it did not or a newer sign-in
        exists.
        """
        error, then = self._refused or (None, 0)
        return str(error) if error is not None and then == sign_ins.stamp() else ""

    @property
    def open(self) -> Connection | None:
        """The connection that a call may join: it is ready or will be."""
        return self.connection if self.connection and self.connection.usable else None

    def is_failing(self, now: float) -> bool:
        """Return True if the server failed and its waiting time before the next try has not passed."""
        return self.failures > 0 and now < self.retry_at

    def state(self, now: float) -> ServerState:
        connection, joined = self.connection, self.open
        if joined:
            state = Readiness.READY if joined.was_ready else Readiness.CONNECTING
        elif self.failures or self.spec.problem:
            state = Readiness.FAILED
        else:
            state = Readiness.KNOWN if self.tools is not None else Readiness.CONFIGURED
        return ServerState(
            server=self.spec.name,
            state=state,
            transport=self.spec.transport,
            tools=self.tools,
            calls_in_flight=connection.users if connection else 0,
            idle_s=now - joined.last_used if joined and state is Readiness.READY and not joined.users else None,
            last_error=str(self.last_error or ""),
            retry_in_s=max(0.0, self.retry_at - now) if state is Readiness.FAILED else None,
        )
