"""The records of acting: plans, calls, outcomes and the whole run. Frozen, like those of routing."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import NoneType
from typing import Any

from orchestrator.completions import NO_MODEL, Choice, Filled, Usage
from orchestrator.decision import Decision
from orchestrator.errors import InvalidInput
from orchestrator.forms import Form, check_forms
from orchestrator.limits import BudgetReport, Limits
from orchestrator.models import MAX_LIMIT, RouteHint, Tool, Turn
from orchestrator.tenants import check_tenant

MAX_STEPS = 20
"""Of a plan; the rest of a longer task is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One part of a task, bound to one tool of the Decision by its key.

    `tool` is empty when no match fits: such a step asks for the run's one extra route. `missing` names required
    arguments that nobody gave: the step ends `needs_input`; `late` names those that a model fills from what the steps
    before it said. `expected_tokens` is what it reserves of the budget and so what it may use, its `argument_tokens`
    among them; `why` tells how the tool and the arguments were found.
    """

    id: str
    task: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    expected_tokens: int = 8_000
    argument_tokens: int = 0
    why: str = ""
    late: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a plan is made from: the Decision, and arguments that the user gave by `name` or `step.name`.

    `salt` keeps the ids of equal plans of different workflows apart. With `first`, the Decision is a further one, for
    that plan's steps without a tool. A model reads the `conversation` before the task; `without_model` says why none
    is asked, where that is so. Under `min_confidence` nothing is planned, and under two thirds of it a part stays
    without a tool: calling asks for more than suggesting.
    """

    decision: Decision
    arguments: dict[str, Any] = field(default_factory=dict)
    salt: str = ""
    first: "Plan | None" = None
    min_confidence: float = 0.3
    conversation: tuple[Turn, ...] = ()
    without_model: str = ""

    def validate(self) -> None:
        """Raises InvalidInput for settings out of range."""
        _check_confidence(self)


def _check_confidence(request: "PlanRequest | RunRequest") -> None:
    form = "a probability, 0 to 1"
    check_forms(request, {"min_confidence": ((int, float), form)})
    if not 0 <= request.min_confidence <= 1:
        raise InvalidInput(f"min_confidence={request.min_confidence!r}: give {form}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The task cut into steps. `model` names the model that made it, `none` for the deterministic planner.

    `choice` is the model's own, and holds the answer where no tool is needed; `usage` is what both took; `warnings` say
    why a model that was named had no part in it, which given arguments no step takes, and what of the task is left out.
    """

    id: str
    task: str
    steps: tuple[Step, ...]
    model: str = NO_MODEL
    reasons: tuple[str, ...] = ()
    choice: Choice | None = None
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()

    @property
    def unbound(self) -> tuple[Step, ...]:
        """Steps that no match of the Decision fits."""
        return tuple(step for step in self.steps if not step.tool)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of one tool, for one tenant. `idempotency_key` is the same over attempts and resets (docs/temporal.md).

    `max_result_tokens` cuts the result (and marks it) before it enters a history or a model's context; `deadline_s`
    bounds the whole call, connecting included.
    """

    tenant: str
    tool: Tool
    arguments: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str = ""
    max_result_tokens: int = 8_000
    deadline_s: float | None = None

    @property
    def replayable(self) -> bool:
        """Whether it may be sent again when its answer was lost: by the tool's hints, or because it honours the key.

        A tool that does so has the label `idempotency` = `key`.
        """
        return self.tool.annotations.replayable or self.tool.labels.get("idempotency") == "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool answered: its text, structured content where it gave some, and whether the text was cut."""

    text: str
    structured: Any = None
    is_error: bool = False
    truncated: bool = False
    tokens: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """Which of a tenant's configured servers to list and store anew; all where none is named."""

    tenant: str
    servers: tuple[str, ...] = ()

    def validate(self) -> None:
        """Raises UnknownTenant for what names none; those shared by all may be listed, too."""
        check_tenant(self.tenant, shared=True)


class StepStatus(StrEnum):
    """How a step stands: the first four on the way, then how it ended."""

    PENDING = "pending"
    WAITING = "waiting"
    NEEDS_APPROVAL = "needs_approval"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    NEEDS_INPUT = "needs_input"
    REFUSED = "refused"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    OUTCOME_UNKNOWN = "outcome_unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """How one step ended, with its result or the reason, and the tokens that were settled for it.

    `arguments` are those that it was called with, where a model filled some of them.
    """

    step: str
    tool: str
    status: StepStatus
    result: ToolResult | None = None
    reason: str = ""
    tokens: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a run hands on when it continues as new: nothing is routed, planned or called again."""

    decision: Decision
    plan: Plan
    outcomes: tuple[StepOutcome, ...]
    settled: int
    warnings: tuple[str, ...] = ()
    extra_routes: tuple[Decision, ...] = ()
    approvals: dict[str, bool] = field(default_factory=dict)
    filled: dict[str, Filled] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    overruled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A task to route, plan and carry out.

    `arguments` fill the steps' parameters by `name` or `step.name` (`s1.timezone`). With `approve_destructive`, steps
    whose tool may destroy something wait for the workflow's `approve` signal, at most `approval_timeout_s`, with all
    their arguments to be seen in its progress: an approval that comes before that counts for nothing.
    `steps_per_run` makes `toolroute.run` continue as new after so many steps (else when the server suggests it); within
    your own workflow (`ToolRouter.run`) nothing does.
    What RouteRequest has, too, means the same.
    """

    task: str
    tenant: str = ""
    limit: int = 10
    conversation: tuple[Turn, ...] = ()
    filters: dict[str, str] = field(default_factory=dict)
    route_hint: RouteHint = RouteHint.AUTO
    arguments: dict[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    min_confidence: float = 0.3
    approve_destructive: bool = False
    approval_timeout_s: float = 24 * 3600.0
    parallel_steps: int = 8
    call_timeout_s: float = 120.0
    heartbeat_s: float = 10.0
    steps_per_run: int | None = None
    checkpoint: Checkpoint | None = None
    coverage: float | None = None

    def validate(self) -> None:
        """Raises InvalidInput or UnknownTenant for what no run can be made of; how long the task may be is checked when
        it is routed."""
        check_forms(self, _FORMS)
        if not self.task.strip():
            raise InvalidInput("task is empty: say in words what is to be done")
        if not 1 <= self.limit <= MAX_LIMIT:
            raise InvalidInput(f"limit={self.limit!r}: give 1 to {MAX_LIMIT}")
        if self.tenant:  # A ToolRouter has one of its own.
            check_tenant(self.tenant)
        self.limits.validate()
        _check_confidence(self)
        if self.parallel_steps < 1:
            raise InvalidInput(f"parallel_steps={self.parallel_steps!r}: give 1 or more")
        for name in ("call_timeout_s", "heartbeat_s", "approval_timeout_s"):
            if not SHORTEST_S <= getattr(self, name) <= _MOST_S:
                raise InvalidInput(f"{name}={getattr(self, name)!r}: give {_SECONDS}")
        if self.steps_per_run is not None and self.steps_per_run < 1:
            raise InvalidInput(f"steps_per_run={self.steps_per_run!r}: give 1 or more, or leave it out")


SHORTEST_S, _MOST_S = 0.001, 10_000_000_000
"""Temporal counts in milliseconds; far beyond the most, a timer that cannot be set would leave a workflow stuck."""
_SECONDS = f"seconds, from {SHORTEST_S} to {_MOST_S:,}"
_FORMS: dict[str, Form] = {
    "task": ((str,), "the task as a text"),
    "tenant": ((str,), "org:ID or user:ID"),
    "limit": ((int,), f"1 to {MAX_LIMIT}"),
    "limits": ((Limits,), "Limits(max_total_tokens=...)"),
    "parallel_steps": ((int,), "1 or more"),
    "call_timeout_s": ((int, float), _SECONDS),
    "heartbeat_s": ((int, float), _SECONDS),
    "approval_timeout_s": ((int, float), _SECONDS),
    "steps_per_run": ((int, NoneType), "1 or more, or leave it out"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgress:
    """Where one step stands, for a progress query: no results, so it stays small.

    While it waits for approval, `arguments` are those that its tool would be called with.
    """

    step: str
    task: str
    tool: str
    status: StepStatus
    reason: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run stands. `phase` is routing, planning, running, answering, done, or failed for the `reason`."""

    phase: str
    steps: tuple[StepProgress, ...]
    budget: BudgetReport
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A whole run: the Decision, the Plan made from its matches, each step's outcome, the budget, the answer.

    `extra_routes` holds the one further Decision that a step outside the matches may have asked for; `warnings` are
    those of routing, of the plan, of approvals that did nothing, and of a model that had no part in the answer.
    """

    decision: Decision
    plan: Plan
    steps: tuple[StepOutcome, ...]
    budget: BudgetReport
    answer: str
    extra_routes: tuple[Decision, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `toolroute run -o json`."""
        return {
            "decision": self.decision.to_json(),
            "plan": asdict(self.plan),
            "steps": [asdict(step) for step in self.steps],
            "budget": asdict(self.budget),
            "answer": self.answer,
            "extra_routes": [decision.to_json() for decision in self.extra_routes],
            "warnings": list(self.warnings),
        }
