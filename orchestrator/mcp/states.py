"""The servers of a pool: what is remembered of each, and how it stands as a record for people and programs."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from orchestrator.errors import InvalidConfig, ToolrouteError
from orchestrator.mcp import sign_ins
from orchestrator.mcp.config import ServerLimits, ServerSpec
from orchestrator.mcp.connection import Connection


class Readiness(StrEnum):
    """Named in the file; its tools known; being connected; connected; or failed."""

    CONFIGURED = "configured"
    KNOWN = "known"
    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """One server as it stands. `tools` is None while unknown; times are in seconds; no secret in `last_error`."""

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
    """A configured server's place in the pool: its connection, and what is remembered between connections."""

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
        """Note that the server refused who asked; None: it does not."""
        self._refused = None if error is None else (error, sign_ins.stamp())

    @property
    def refused(self) -> str:
        """Why the server refused who asked at the last try; "" if it did not, or a sign-in has come since."""
        error, then = self._refused or (None, 0)
        return str(error) if error is not None and then == sign_ins.stamp() else ""

    @property
    def open(self) -> Connection | None:
        """The connection that a call may join: it is ready or will be."""
        return self.connection if self.connection and self.connection.usable else None

    def is_failing(self, now: float) -> bool:
        """Return whether it failed and is not to be tried again yet."""
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
