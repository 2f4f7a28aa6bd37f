"""The records of a run: the request, the states and ends of its steps, and the result."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from orchestrator.common.fields import Give, Probability, Seconds, check, member, settings
from orchestrator.errors import InvalidInput
from orchestrator.records.budget import BudgetReport, Limits
from orchestrator.records.call import AnyApprove, Approve, ToolResult
from orchestrator.records.completion import Filled
from orchestrator.records.decision import MIN_CONFIDENCE, Decision
from orchestrator.records.plan import Plan
from orchestrator.records.request import (
    AnyHint,
    Conversation,
    Limit,
    RouteHint,
    RouteRequest,
    Task,
    Tenant,
)


class StepStatus(StrEnum):
    """The status of a step. The first four may change, the others are final.

    Examples:
        >>> from orchestrator import StepStatus
        >>> StepStatus("needs_approval") is StepStatus.NEEDS_APPROVAL
        True
    """

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

    @property
    def in_words(self) -> str:
        """The status as people read it, such as `needs approval`."""
        return self.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """The end of one step.

    Attributes:
        step: The id of the step.
        tool: The key of the tool.
        status: The final status.
        result: The tool's result, if it was called.
        reason: Why the step did not finish. Empty if it did.
        tokens: The tokens that were settled for the step.
        arguments: The arguments of the call, if a model filled some of them. For a step that waits for approval, the
            arguments that the call would have.
        digest: The digest of the call, for a step that waits for approval.
        decided_by: The name of the person who approved or rejected the call. Empty if nobody was asked.

    Examples:
        >>> from orchestrator import StepOutcome, StepStatus
        >>> StepOutcome(step="s1", tool="stripe:refund_charge", status=StepStatus.REFUSED, reason="rejected").tokens
        0
    """

    step: str
    tool: str
    status: StepStatus
    result: ToolResult | None = None
    reason: str = ""
    tokens: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    decided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state of a run that continues as new. Nothing is routed, planned or called again.

    Attributes:
        decision: The Decision of the run.
        plan: The plan of the run.
        outcomes: The ends of the finished steps.
        settled: The tokens that the steps have used.
        warnings: The earlier warnings.
        extra_routes: The further Decisions.
        approvals: The answers of people, by step.
        filled: The late arguments, by step.
        asked: The digests of the calls to which `approvals` belong, by step.
        stream: The state of the workflow stream.
        decided_by: The names of the people who approved or rejected calls, by step.

    Examples:
        >>> from orchestrator import RunRequest
        >>> RunRequest(task="refund ch_3PqX").checkpoint is None  # toolroute itself sets it
        True
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
    decided_by: dict[str, str] = field(default_factory=dict)


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A task to route, plan and carry out.

    The attributes that RouteRequest has too have the same meaning.

    Attributes:
        task: The task in words.
        tenant: The tenant. Only its tools may be called. A `ToolRouter` has its own tenant as default.
        limit: The maximum number of matches, 1 to 50.
        conversation: Earlier turns, oldest first.
        filters: Conditions that every match must meet.
        route_hint: The legs to run.
        arguments: Arguments for the steps, by `name` or `step.name` (for example `s1.timezone`).
        limits: The budget.
        min_confidence: The minimum confidence for a planned tool, 0 to 1.
        approve: The policy that decides which steps wait for the update `toolroute.approve`.
        approval_timeout_s: Seconds that a step waits for approval.
        parallel_steps: The maximum number of steps that run at the same time.
        call_timeout_s: Seconds for one call of a tool.
        heartbeat_s: Seconds between two heartbeats of a call.
        steps_per_run: The number of steps after which the workflow `toolroute.run` continues as new. Default: when the
            Temporal server suggests it. `ToolRouter.run` within your own workflow never does.
        checkpoint: The state of the run before it continued as new.
        approved: The digests of calls that were approved before, by step.
        actor: The person who asks, for the Outcome of the run.

    Examples:
        >>> from orchestrator import Limits, RunRequest
        >>> RunRequest(task="refund charge ch_3PqX", limits=Limits(max_total_tokens=20_000)).approve.value
        'changes'
    """

    task: Task
    tenant: Tenant = ""
    limit: Limit = 10
    conversation: Conversation = ()
    filters: dict[str, str] = field(default_factory=dict)
    route_hint: AnyHint = RouteHint.AUTO
    arguments: dict[str, Any] = field(default_factory=dict)
    limits: Annotated[Limits, Give("Limits(max_total_tokens=...)")] = field(default_factory=Limits)
    min_confidence: Probability = MIN_CONFIDENCE
    approve: AnyApprove = Approve.CHANGES
    approval_timeout_s: Seconds = 24 * 3600.0
    parallel_steps: Annotated[int, Give("1 or more", ge=1)] = 8
    call_timeout_s: Seconds = 120.0
    heartbeat_s: Seconds = 10.0
    steps_per_run: Annotated[int | None, Give("1 or more, or leave it out", ge=1)] = None
    checkpoint: Checkpoint | None = None
    approved: dict[str, str] = field(default_factory=dict)
    actor: Annotated[str, Give("the person who asks, as a text")] = ""

    def __post_init__(self) -> None:
        if type(self.approve) is not Approve:
            object.__setattr__(self, "approve", member(Approve, "approve", self.approve))

    def validate(self) -> None:
        """Check the request. The length of the texts is checked when they enter a history.

        Raises:
            InvalidInput: The task is empty, or a setting is out of range.
            UnknownTenant: The tenant is malformed.
        """
        check(self)
        if not self.task.strip():
            raise InvalidInput("task is empty: give the task in words")
        # A ToolRouter has its own tenant.
        self.as_routed(self.task, self.tenant or "local").check_settings()
        self.limits.validate()

    def as_routed(self, task: str, tenant: str) -> RouteRequest:
        """Return the RouteRequest for the task of the run, or for a part of it."""
        return RouteRequest(
            query=task,
            tenant=tenant,
            limit=self.limit,
            conversation=self.conversation,
            filters=self.filters,
            route_hint=self.route_hint,
            actor=self.actor,
        )


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's answer for a step that waits for approval.

    Attributes:
        step: The id of the step.
        digest: The digest in the progress, next to the step's arguments. It makes sure that exactly this call is
            approved. A rejection needs none.
        allowed: True to approve, False to reject.
        by: The name of the person, for the history.

    Examples:
        >>> from orchestrator import Approval
        >>> Approval(step="s1", digest="bdc3f89b9800", by="ana").allowed
        True
    """

    step: str
    digest: str = ""
    allowed: bool = True
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgress:
    """The current state of one step. It contains no results, so it stays small.

    Attributes:
        step: The id of the step.
        task: The text of the step.
        tool: The key of the tool.
        status: The status.
        reason: Why the step has this status.
        arguments: The arguments of the call, while the step waits for approval.
        digest: The digest of the call, while the step waits for approval.
        decided_by: The name of the person who approved or rejected the call. Empty if nobody was asked.

    Examples:
        >>> from orchestrator import StepProgress, StepStatus
        >>> StepProgress(step="s1", task="refund", tool="stripe:refund_charge", status=StepStatus.RUNNING).reason
        ''
    """

    step: str
    task: str
    tool: str
    status: StepStatus
    reason: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    decided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMemo:
    """The memo of a run's workflow.

    Everybody who may list workflows can read it, so it contains no text, no arguments and no results.

    Attributes:
        tenant: The tenant of the run.
        waiting: The steps that wait for approval, with their tools.
    """

    tenant: str
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The current state of a run.

    Attributes:
        phase: `routing`, `planning`, `running`, `answering`, `done` or `failed`.
        steps: The state of each step.
        budget: The budget.
        reason: Why the run failed.

    Examples:
        >>> from orchestrator import BudgetReport, Progress
        >>> budget = BudgetReport(
        ...     max_total_tokens=10_000, max_tokens_per_step=2_000, reserve_for_synthesis=4_000,
        ...     settled=0, reserved=0, remaining=6_000, steps_left=3,
        ... )
        >>> Progress(phase="routing", steps=(), budget=budget).reason
        ''
    """

    phase: str
    steps: tuple[StepProgress, ...]
    budget: BudgetReport
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run.

    Attributes:
        decision: The Decision for the whole task.
        plan: The plan.
        steps: The end of each step.
        budget: The budget at the end.
        answer: The answer.
        extra_routes: The Decision of the extra route, if a step had no tool among the matches.
        warnings: Warnings of routing, of planning and of the answer.

    Examples:
        >>> from orchestrator import OrchestratorPlugin, RunRequest, RunResult, ToolRouter
        >>> async def in_a_workflow(router: ToolRouter) -> RunResult:
        ...     return await router.run(RunRequest(task="refund charge ch_3PqX"))
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
        """True if steps were tried and none succeeded: each failed, lost its answer, or depends on such a step."""
        ends = {step.status for step in self.steps}
        wrong = {StepStatus.FAILED, StepStatus.OUTCOME_UNKNOWN}
        return bool(ends & wrong) and ends <= {*wrong, StepStatus.SKIPPED}

    def __repr__(self) -> str:
        ended = {step.step: str(step.status) for step in self.steps}
        return f"RunResult({self.decision.query[:60]!r}, {ended}, {self.answer[:60]!r})"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that `toolroute run -o json` prints."""
        from pydantic_core import to_jsonable_python

        record: dict[str, Any] = to_jsonable_python(self, exclude={"decision", "extra_routes"})
        routes = [decision.to_json(definitions=False) for decision in self.extra_routes]
        return {
            "decision": self.decision.to_json(definitions=False),
            **record,
            "extra_routes": routes,
        }
