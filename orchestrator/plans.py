"""The records of acting: plans, calls, outcomes and the whole run. Frozen, like those of routing."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orchestrator.decision import Decision
from orchestrator.models import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One part of a task, bound to one tool of the Decision by its key.

    `missing` names required arguments that nobody gave: such a step ends `needs_input`. `allowance` is what the step
    may use at most, `expected_tokens` what it reserves; both in tokens.
    """

    id: str
    task: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    allowance: int = 16_000
    expected_tokens: int = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The task cut into steps. `model` names the model that made it, `none` for the deterministic planner."""

    id: str
    task: str
    steps: tuple[Step, ...]
    model: str = "none"
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of one tool, for one tenant. `idempotency_key` is `workflow:plan:step`, the same over attempts.

    `max_result_tokens` cuts the result (and marks it) before it enters a history or a model's context.
    """

    tenant: str
    tool: Tool
    arguments: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str = ""
    max_result_tokens: int = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool answered: its text, structured content where it gave some, and whether the text was cut."""

    text: str
    structured: Any = None
    is_error: bool = False
    truncated: bool = False
    tokens: int = 0


class StepStatus(StrEnum):
    """How a step ended."""

    DONE = "done"
    FAILED = "failed"
    NEEDS_INPUT = "needs_input"
    NEEDS_APPROVAL = "needs_approval"
    REFUSED = "refused"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    OUTCOME_UNKNOWN = "outcome_unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """How one step ended, with its result or the reason, and the tokens that were settled for it."""

    step: str
    tool: str
    status: StepStatus
    result: ToolResult | None = None
    reason: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """A run's budget in tokens: used = settled + reserved; remaining = max_total - used - reserve."""

    max_total_tokens: int
    max_tokens_per_step: int
    reserve_for_synthesis: int
    settled: int
    reserved: int
    remaining: int
    steps_left: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A whole run: the Decision, the Plan made from its matches, each step's outcome, the budget, the answer."""

    decision: Decision
    plan: Plan
    steps: tuple[StepOutcome, ...]
    budget: BudgetReport
    answer: str
