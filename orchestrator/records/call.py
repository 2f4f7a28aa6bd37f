"""The records of a call: the request to a tool's server and the tool's answer."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orchestrator.common.fields import Give, Tokens, check
from orchestrator.common.tenant import check_tenant
from orchestrator.records.tool import Tool

ChangePolicy = Literal["strict", "safe", "open"]
"""The changed definitions that wait for acceptance: all, those that may do more than the accepted definition,
or none."""


class Approve(StrEnum):
    """The policy that decides which steps wait for a person.

    - `changes`: every step, except those of tools that are known to only read.
    - `destructive`: the same, but without tools with an annotation that denies destruction.
    - `always`: every step.
    - `never`: no step.

    With every policy but `never`, a tool waits while nobody has accepted a change of its definition.

    Examples:
        >>> from orchestrator import Approve, RunRequest
        >>> RunRequest(task="refund ch_3PqX", approve=Approve.ALWAYS).approve.value
        'always'
    """

    CHANGES = "changes"
    DESTRUCTIVE = "destructive"
    ALWAYS = "always"
    NEVER = "never"


if TYPE_CHECKING:  # A constructor also takes the names, and makes members of them.
    AnyApprove = Approve | Literal["changes", "destructive", "always", "never"]
else:
    AnyApprove = Approve


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of one tool, for one tenant.

    Attributes:
        tenant: The tenant for whom the tool is called.
        tool: The tool, with its definition as it was routed.
        arguments: The arguments by name.
        idempotency_key: The same text for every attempt of this call (docs/how-to/temporal-operating.md).
        max_result_tokens: The size, in tokens above 0, at which the result is cut and marked as cut.
        deadline_s: Seconds for the whole call, with the connection. Default: no limit.
        approve: The approval policy. If the server's definition of the tool has changed and the policy asks a person,
            the call raises ToolChanged. Without a policy the tool is called, and the result has a warning.
        attempts: The maximum number of attempts, without those that only waited for a turn. 0: as the retry policy.

    Examples:
        >>> from orchestrator import Tool, ToolCall
        >>> tool = Tool(server="time", name="get_current_time")
        >>> ToolCall(tenant="local", tool=tool, arguments={"timezone": "UTC"}).replayable
        False
    """

    tenant: str
    tool: Tool
    arguments: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str = ""
    max_result_tokens: Tokens = 8_000
    deadline_s: float | None = None
    approve: Approve | None = None
    attempts: int = 0

    @property
    def replayable(self) -> bool:
        """True if the call may be sent again after its answer was lost."""
        return self.tool.replayable

    def validate(self) -> None:
        """Check the fields.

        Raises:
            InvalidInput: `max_result_tokens` is not above 0.
        """
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The current definition of a call's tool on its server.

    Attributes:
        tool: The changed tool. None if the definition is unchanged.
    """

    tool: Tool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The answer of a tool.

    Attributes:
        text: The text of the answer.
        structured: The structured content, if the tool gave some.
        is_error: Whether the tool reported an error.
        truncated: Whether a part was cut off.
        tokens: The size of the text, in tokens.
        warnings: Warnings about this call.
        whole: The reference of the uncut result, if the worker keeps it. `ToolRouter.page` reads it part by part. As an
            argument of another call, the reference is replaced by the whole result.
        meta: The `_meta` of an MCP server's result. Empty if it is larger than 16 KiB.

    Examples:
        >>> from orchestrator import ToolResult
        >>> ToolResult(text="2026-11-28T08:00:00Z", tokens=12).truncated
        False
    """

    text: str
    structured: Any = None
    is_error: bool = False
    truncated: bool = False
    tokens: int = 0
    warnings: tuple[str, ...] = ()
    whole: str = ""
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request for one part of a whole result.

    Attributes:
        tenant: The tenant that owns the result.
        whole: The reference of the result (`ToolResult.whole`).
        offset: The number of characters to skip.
        max_tokens: The maximum size of the part, in tokens.
    """

    tenant: str
    whole: str
    offset: Annotated[int, Give("0 or more", ge=0)] = 0
    max_tokens: Tokens = 8_000

    def validate(self) -> None:
        """Check the fields.

        Raises:
            UnknownTenant: The tenant is missing or malformed.
            InvalidInput: The offset or the number of tokens is out of range.
        """
        check_tenant(self.tenant)
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """A part of a whole result.

    Attributes:
        text: The text of this part.
        characters: The length of the whole result, in characters.
        next: The offset of the next part. None if this part is the last.

    Examples:
        >>> from orchestrator import ResultPage
        >>> ResultPage(text="ab", characters=5, next=2).next
        2
    """

    text: str
    characters: int
    next: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A request to list a tenant's configured servers and to store their tools.

    Attributes:
        tenant: The tenant, or `shared` for the servers that all tenants share.
        servers: The names of the servers to list. Empty: all.
    """

    tenant: str
    servers: tuple[str, ...] = ()

    def validate(self) -> None:
        """Check the tenant.

        Raises:
            UnknownTenant: The tenant is missing or malformed.
        """
        check_tenant(self.tenant, shared=True)
