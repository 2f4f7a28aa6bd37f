"""The stubs of toolroute's activities, for workflows. This module is deterministic, and the worker does the work."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Unpack

from temporalio import workflow

from orchestrator.common.fields import named, settings
from orchestrator.errors import InvalidInput, UnknownTool
from orchestrator.records import durable_names as names
from orchestrator.records.call import PageRequest, ResultPage, ToolCall, ToolResult
from orchestrator.records.completion import CompleteRequest, Completion
from orchestrator.records.decision import MIN_CONFIDENCE, Decision
from orchestrator.records.outcome import OutcomeSource, RecordRequest, uses_of
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.request import RouteRequest, Turn, turns_of
from orchestrator.records.run import RunRequest
from orchestrator.temporal.workflow.call import (
    MODEL_RETRY,
    PATIENT,
    ActivityConfig,
    call_tool,
    execute,
    fair,
    occurrence,
    require_valid_retries,
)
from orchestrator.temporal.workflow.payload import MAX_PLAN_BYTES, check_size, read
from orchestrator.temporal.workflow.staged import route_staged

MODEL_CALL = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=5),
    heartbeat_timeout=timedelta(seconds=10),
    retry_policy=MODEL_RETRY,
)
"""The options of a model call. A long answer takes minutes, and the heartbeats show that its worker lives."""
RECORDING = ActivityConfig(
    start_to_close_timeout=timedelta(seconds=10),
    schedule_to_close_timeout=timedelta(seconds=30),
    retry_policy=MODEL_RETRY,
)
"""The options of recording an Outcome. A run's answer waits no longer than this for it."""
DEFAULT = ActivityConfig(
    start_to_close_timeout=timedelta(seconds=60),
    heartbeat_timeout=timedelta(seconds=20),
    retry_policy=PATIENT,
)
"""The options of routing. A first route of a tenant reads its tools and builds their index, which takes seconds."""


def call_config(request: RunRequest, chosen: ActivityConfig | None = None) -> ActivityConfig:
    """Return a run's timeouts for its calls, overridden by the options of the `ToolRouter`."""
    return {
        "start_to_close_timeout": timedelta(seconds=request.call_timeout_s),
        "heartbeat_timeout": timedelta(seconds=request.heartbeat_s),
        **(chosen or {}),
    }


@named
def require_options(**options: Unpack[ActivityConfig]) -> None:
    """Raise an error for an activity option with a wrong name or type."""


@settings
@dataclass(eq=False, repr=False)
class ActivityStubs:
    """Calls toolroute's activities from a workflow, each kind with its options. See `ToolRouter`."""

    tenant: str = ""
    _: KW_ONLY
    route_options: ActivityConfig | None = None
    semantic_options: ActivityConfig | None = None
    plan_options: ActivityConfig | None = None
    call_options: ActivityConfig | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.tenant, str):
            raise InvalidInput(f"tenant={self.tenant!r:.80}: give a text")
        # Temporal refuses a wrong name or type with a TypeError, and the workflow would then hang.
        for name in ("route_options", "semantic_options", "plan_options", "call_options"):
            options = getattr(self, name) or {}
            if not isinstance(options, Mapping):
                raise InvalidInput(f"{name}={options!r:.80}: give a mapping of activity options")
            require_options(**options)
            require_valid_retries(options)
        plan_options = self.plan_options or ActivityConfig()
        self._route: ActivityConfig = {**DEFAULT, **(self.route_options or {})}
        self._semantic = self.semantic_options or ActivityConfig()
        self._plan: ActivityConfig = {**MODEL_CALL, "retry_policy": PATIENT, **plan_options}
        self._complete: ActivityConfig = {**MODEL_CALL, **plan_options}
        self._call = self.call_options or ActivityConfig()

    @named
    async def route(
        self,
        request: RouteRequest | str,
        *,
        conversation: Sequence[Turn] = (),
        staged: bool = False,
        **options: Unpack[ActivityConfig],
    ) -> Decision:
        """Return the Decision for a task.

        The activity `toolroute.route` runs on a worker that has the catalogue.

        Args:
            request: The task as a text, for this router's tenant, or a RouteRequest.
            conversation: Earlier turns, oldest first.
            staged: Run one activity for each stage, so that the history shows the stages. The Decision is the same.
            options: Activity options, over those of the router.
        """
        if isinstance(request, str):
            request = RouteRequest(query=request, tenant=self.tenant)
        if conversation:
            request = replace(request, conversation=turns_of(conversation))
        check_size("the query with its conversation", asdict(request))
        config: ActivityConfig = {**self._route, "summary": str(request.query)[:120], **options}
        if staged:
            return read(
                await route_staged(request, fair(request.tenant, config), self._semantic), Decision
            )
        return await execute(names.ROUTE, request, Decision, fair(request.tenant, config))

    @named
    async def plan(
        self,
        decision: Decision,
        *,
        arguments: Mapping[str, Any] | None = None,
        first: Plan | None = None,
        min_confidence: float = MIN_CONFIDENCE,
        conversation: Sequence[Turn] = (),
        without_model: str = "",
        max_tokens: int | None = None,
        **options: Unpack[ActivityConfig],
    ) -> Plan:
        """Return a plan with steps for the Decision's matches. Nothing is searched.

        Args:
            decision: The Decision.
            arguments: Arguments for the steps, by `name` or `step.name`.
            first: An earlier plan. The Decision is then a further one, for the steps of that plan without a tool.
            min_confidence: The minimum confidence for a planned tool, 0 to 1.
            conversation: Earlier turns, oldest first. A language model reads them before the task.
            without_model: The reason why no model is to be asked. Empty: a model is asked, if the worker has one.
            max_tokens: Tokens for all requests to the model, with its answers. Default: no limit.
            options: Activity options, over those of the router.
        """
        request = PlanRequest(
            decision=decision,
            arguments=dict(arguments or {}),
            salt=occurrence("plan", decision.query),
            first=first,
            min_confidence=min_confidence,
            conversation=turns_of(conversation),
            without_model=without_model,
            max_tokens=max_tokens,
        )
        check_size("the conversation", [turn.text for turn in request.conversation])
        earlier = [step.arguments for step in first.steps] if first else []
        check_size("the arguments for a plan", [request.arguments, earlier], MAX_PLAN_BYTES)
        return await execute(
            names.PLAN, request, Plan, fair(decision.tenant, {**self._plan, **options})
        )

    @named
    async def complete(
        self, request: CompleteRequest, **options: Unpack[ActivityConfig]
    ) -> Completion:
        """Return an answer of the worker's language model: arguments or a text, made from results.

        Args:
            request: The request.
            options: Activity options, over those of the router.
        """
        check_size("the results for a model", request.results)
        config: ActivityConfig = {**self._complete, "summary": str(request.purpose), **options}
        return await execute(names.COMPLETE, request, Completion, fair(request.tenant, config))

    @named
    async def call(
        self,
        decision: Decision,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        max_result_tokens: int = 8_000,
        **options: Unpack[ActivityConfig],
    ) -> ToolResult:
        """Call one of the Decision's tools.

        The call's idempotency key is the same for all its attempts and after a reset. Another call with the same
        arguments gets another key.

        Args:
            decision: The Decision.
            tool: The key of the tool, `server:name`.
            arguments: The arguments by name.
            max_result_tokens: The size, in tokens above 0, at which the result is cut.
            options: Activity options, over those of the router.

        Raises:
            UnknownTool: The tool is not a match of the Decision.
            InvalidInput: `max_result_tokens` is not above 0.
        """
        match = decision.tool(tool)
        if match is None:
            offered = ", ".join(match.tool.key for match in decision.matches)
            raise UnknownTool(
                f"tool {tool!r} is not a match of this Decision; its matches are: {offered or 'none'}"
            )
        call = ToolCall(
            tenant=decision.tenant,
            tool=match,
            arguments=dict(arguments or {}),
            idempotency_key=f"{workflow.info().workflow_id}:{occurrence('call', match.key, arguments)}",
            max_result_tokens=max_result_tokens,
        )
        call.validate()
        return await call_tool(
            call, call_config(RunRequest(task=decision.query), self._call), options
        )

    @named
    async def record(
        self,
        decision: Decision,
        used: Sequence[Any],
        *,
        ok: bool = True,
        actor: str = "",
        name: str = "",
        source: OutcomeSource = "api",
        chosen: bool = True,
        **options: Unpack[ActivityConfig],
    ) -> None:
        """Remember the tools that a task used, so that later similar tasks find them. `run` does this itself.

        A worker that routes keeps the Outcome, on the task queue of `route_options`.

        Args:
            decision: The Decision for the task.
            used: The tools, in any form that `Router.record` takes.
            ok: Whether the task succeeded.
            actor: The person who asked.
            name: An id for this task. A task that is recorded again under its id counts once. Default: the workflow's
                id with a number, so attempts and resets count once.
            source: The part of the program that records.
            chosen: Whether a person or a model chose the tools, not routing alone.
            options: Activity options.
        """
        if decision.leans:
            return
        request = RecordRequest(
            tenant=decision.tenant or self.tenant,
            query=decision.query,
            used=uses_of(used),
            ok=ok,
            actor=actor,
            at=workflow.now().timestamp(),
            source=source,
            name=name or f"{workflow.info().workflow_id}:{occurrence('record', decision.query)}",
            chosen=chosen,
        )
        where: ActivityConfig = {"task_queue": self._route.get("task_queue")}
        config = fair(request.tenant, {**RECORDING, **where, **options})
        await workflow.execute_activity(names.RECORD_OUTCOME, request, **config)

    @named
    async def page(
        self,
        result: ToolResult,
        offset: int = 0,
        *,
        max_tokens: int = 8_000,
        tenant: str = "",
        **options: Unpack[ActivityConfig],
    ) -> ResultPage:
        """Return a part of a result that was cut. `next` of the page is the offset of the part after it.

        Args:
            result: The result.
            offset: The number of characters to skip.
            max_tokens: The maximum size of the part, in tokens.
            tenant: The tenant of the call. Default: this router's tenant.
            options: Activity options, over those of the router.

        Raises:
            InvalidInput: The worker keeps no whole result for it.
        """
        if not result.whole:
            raise InvalidInput(
                "the result has no further pages: only a result with a reference in `whole` has further pages"
            )
        request = PageRequest(
            tenant=tenant or self.tenant, whole=result.whole, offset=offset, max_tokens=max_tokens
        )
        return await execute(
            names.READ_RESULT, request, ResultPage, fair(request.tenant, {**self._route, **options})
        )
