"""A whole run: what it is asked, how its steps stand and end, and its result."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from annotated_types import Ge

from orchestrator.common.fields import Give, Probability, Seconds, check, member, settings
from orchestrator.errors import InvalidInput
from orchestrator.records.budget import BudgetReport, Limits
from orchestrator.records.call import Approve, ToolResult
from orchestrator.records.completion import Filled
from orchestrator.records.decision import Decision
from orchestrator.records.plan import MIN_CONFIDENCE, Plan
from orchestrator.records.request import Conversation, Limit, RouteHint, RouteRequest, Task, Tenant


class StepStatus(StrEnum):
    """The states of a step: the first four on the way, then its ends."""

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
    """The end of one step, with its result or the reason, and the tokens that were settled for it.

    `arguments` are those that it was called with, where a model filled some of them. Of a step that waits for approval
    they are those that it would be called with, and `digest` is theirs.
    """

    step: str
    tool: str
    status: StepStatus
    result: ToolResult | None = None
    reason: str = ""
    tokens: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state that a run hands on when it continues as new: nothing is routed, planned or called again.

    `asked` holds the digests of the calls that the `approvals` are about, `stream` the state of its workflow stream.
    """

    decision: Decision
    plan: Plan
    outcomes: tuple[StepOutcome, ...]
    settled: int
    warnings: tuple[str, ...] = ()
    extra_routes: tuple[Decision, ...] = ()
    approvals: dict[str, bool] = field(default_factory=dict)
    filled: dict[str, Filled] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    stream: dict[str, Any] | None = None


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A task to route, plan and carry out.

    `arguments` fill the steps' parameters by `name` or `step.name` (`s1.timezone`). Steps that `approve` names wait for
    the workflow's update `toolroute.approve`, at most `approval_timeout_s`; `approved` holds the digests of calls, by
    step, that were approved before. `steps_per_run` makes `toolroute.run` continue as new after that many steps (else
    when the server suggests); within your own workflow (`ToolRouter.run`) nothing does. `actor`: who asks, as the run's
    Outcome names them. Fields that RouteRequest has too mean the same.
    """

    task: Task
    tenant: Tenant = ""
    limit: Limit = 10
    conversation: Conversation = ()
    filters: dict[str, str] = field(default_factory=dict)
    route_hint: RouteHint = RouteHint.AUTO
    arguments: dict[str, Any] = field(default_factory=dict)
    limits: Annotated[Limits, Give("Limits(max_total_tokens=...)")] = field(default_factory=Limits)
    min_confidence: Probability = MIN_CONFIDENCE
    approve: Approve = Approve.CHANGES
    approval_timeout_s: Seconds = 24 * 3600.0
    parallel_steps: Annotated[int, Ge(1), Give("1 or more")] = 8
    call_timeout_s: Seconds = 120.0
    heartbeat_s: Seconds = 10.0
    steps_per_run: Annotated[int | None, Ge(1), Give("1 or more, or leave it out")] = None
    checkpoint: Checkpoint | None = None
    approved: dict[str, str] = field(default_factory=dict)
    actor: Annotated[str, Give("who asks, as a text")] = ""

    def __post_init__(self) -> None:
        if type(self.approve) is not Approve:
            object.__setattr__(self, "approve", member(Approve, "approve", self.approve))

    def validate(self) -> None:
        """Raise InvalidInput or UnknownTenant for what no run can be made of; the length of its texts is checked where
        they enter a history."""
        check(self)
        if not self.task.strip():
            raise InvalidInput("task is empty: say in words what is to be done")
        self.as_routed(self.task, self.tenant or "local").check_settings()  # A ToolRouter has a tenant of its own.
        self.limits.validate()

    def as_routed(self, task: str, tenant: str) -> RouteRequest:
        """Return what is routed for the run: its task, or what is left of it."""
        return RouteRequest(
            query=task,
            tenant=tenant,
            limit=self.limit,
            conversation=self.conversation,
            filters=self.filters,
            route_hint=self.route_hint,
        )


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's word on a step that waits for approval.

    `digest` is the one that the progress shows with the step's arguments, so that exactly this call is approved; a
    rejection needs none. `by` says who gave the word, for the history.
    """

    step: str
    digest: str = ""
    allowed: bool = True
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgress:
    """The state of one step, for a progress query: no results, so it stays small.

    While it waits for approval, `arguments` are those that its tool would be called with, and `digest` is theirs.
    """

    step: str
    task: str
    tool: str
    status: StepStatus
    reason: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMemo:
    """The memo of a run, under the workflow's name: whose it is, and the steps that wait for approval with their tools.

    No text of the task, no argument and no result: whoever may list workflows reads it.
    """

    tenant: str
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of a run. `phase` is routing, planning, running, answering, done, or failed for the `reason`."""

    phase: str
    steps: tuple[StepProgress, ...]
    budget: BudgetReport
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A whole run: the Decision, the Plan made from its matches, each step's outcome, the budget, the answer.

    `extra_routes` holds the one further Decision that a step outside the matches may have asked for; `warnings` are
    those of routing, of the plan, and of a model that had no part in the answer.
    """

    decision: Decision
    plan: Plan
    steps: tuple[StepOutcome, ...]
    budget: BudgetReport
    answer: str
    extra_routes: tuple[Decision, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """True where steps were tried and none was done: each failed, was lost, or follows one that was."""
        ends = {step.status for step in self.steps}
        wrong = {StepStatus.FAILED, StepStatus.OUTCOME_UNKNOWN}
        return bool(ends & wrong) and ends <= {*wrong, StepStatus.SKIPPED}

    def __repr__(self) -> str:
        ended = {step.step: str(step.status) for step in self.steps}
        return f"RunResult({self.decision.query[:60]!r}, {ended}, {self.answer[:60]!r})"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON contract of `toolroute run -o json`."""
        from pydantic_core import to_jsonable_python

        shown: dict[str, Any] = to_jsonable_python(self, exclude={"decision", "extra_routes"})
        routes = [decision.to_json(definitions=False) for decision in self.extra_routes]
        return {"decision": self.decision.to_json(definitions=False), **shown, "extra_routes": routes}
