"""Calling: what is asked of a tool's server, and what a tool answered."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from annotated_types import Ge

from orchestrator.common.fields import Give, Tokens, check
from orchestrator.common.tenant import check_tenant
from orchestrator.records.tool import Tool


class Approve(StrEnum):
    """The steps that wait for a person: those not known to only read, those that may destroy, all, or none."""

    CHANGES = "changes"
    DESTRUCTIVE = "destructive"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of one tool, for one tenant.

    `idempotency_key` is the same over attempts and resets (docs/how-to/temporal-operating.md).
    `max_result_tokens` cuts the result (and marks it) before it enters a history or a model's context; `deadline_s`
    bounds the whole call, connecting included. Where its server defines the tool otherwise by now, and `approve` has
    that wait for a person, it is not called (ToolChanged); without an `approve` it is, with a warning.
    """

    tenant: str
    tool: Tool
    arguments: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str = ""
    max_result_tokens: int = 8_000
    deadline_s: float | None = None
    approve: Approve | None = None

    @property
    def replayable(self) -> bool:
        """Tell whether it may be sent again when its answer was lost."""
        return self.tool.replayable


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """A call's tool as its server defines it now; None where that is as the call has it."""

    tool: Tool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """A tool's answer: its text, structured content where it gave some, and whether any of it was cut.

    `whole` is the reference of the uncut result where one is kept: `ToolRouter.page` reads it part by part, and as an
    argument of a call it stands for all of it.
    """

    text: str
    structured: Any = None
    is_error: bool = False
    truncated: bool = False
    tokens: int = 0
    warnings: tuple[str, ...] = ()
    whole: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request for a part of a whole result, from this character on, of at most these tokens."""

    tenant: str
    whole: str
    offset: Annotated[int, Ge(0), Give("0 or more")] = 0
    max_tokens: Tokens = 8_000

    def validate(self) -> None:
        """Raise UnknownTenant or InvalidInput for what names no part of a result."""
        check_tenant(self.tenant)
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """A part of a whole result, the characters that this has, and the offset of the next part; None at the end."""

    text: str
    characters: int
    next: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A request to list some of a tenant's configured servers and store their tools; all where none is named."""

    tenant: str
    servers: tuple[str, ...] = ()

    def validate(self) -> None:
        """Raise UnknownTenant for what names none; those shared by all may be listed, too."""
        check_tenant(self.tenant, shared=True)
