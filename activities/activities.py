"""The activities of a worker: routing, planning, completing, calling, recording and syncing.

Routing is one activity for all stages by default, because each further activity costs about 10 ms. The activities of
single stages are in `stages.py`. Planning is one activity, so that a better planner does not break the histories of
existing plans. Calls are never local activities, because those run again after a crash. Of a model call, only the
result enters the history, never the endpoint, the key or the prompt.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.attempts import Attempt
from orchestrator.activities.stages import StageActivities
from orchestrator.activities.working import time_limit, working
from orchestrator.errors import (
    InvalidConfig,
    OutcomeUnknown,
    ServerUnavailable,
    ToolChanged,
    ToolrouteError,
    Unavailable,
)
from orchestrator.llm.complete import complete
from orchestrator.llm.plan import make_plan
from orchestrator.records import durable_names as names
from orchestrator.records.call import (
    ChangePolicy,
    PageRequest,
    Present,
    ResultPage,
    SyncRequest,
    ToolCall,
    ToolResult,
)
from orchestrator.records.completion import CompleteRequest, Completion
from orchestrator.records.outcome import RecordRequest
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Tool, as_chosen
from orchestrator.telemetry import TOOL_ERROR
from orchestrator.temporal.worker.resources import Resources
from orchestrator.temporal.worker.turns import NoTurn
from orchestrator.temporal.workflow.payload import MAX_PLAN_BYTES, check_size, written
from orchestrator.trust.approval_rules import needs_approval
from orchestrator.trust.definition_changes import as_judged

MODEL_TRIES = 3
"""The number of attempts for a model that does not answer. After them the plan is made without it."""


class Activities:
    """The activities of a worker, over its resources. Bad input fails without a retry."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    def all(self) -> list[Callable[..., Any]]:
        """Return the activities that a worker registers."""
        return [
            self.route,
            *StageActivities(self.resources).all(),
            self.plan,
            self.complete,
            self.call_tool,
            self.check_call,
            self.read_result,
            self.record_outcome,
            self.sync_catalogue,
        ]

    @activity.defn(name=names.ROUTE)
    async def route(self, payload: RawValue) -> RawValue:
        """Return the Decision for a RouteRequest."""
        async with working(payload, RouteRequest) as request:
            # A worker serves many tenants, so a request without a tenant is an error.
            request.validate()
            router = await self.resources.router_awaiting_listing(request.tenant)
            decision = await router.route(request)
            return written(await self.resources.limited(decision))

    @activity.defn(name=names.PLAN)
    async def plan(self, payload: RawValue) -> Plan:
        """Return steps bound to the matches of a PlanRequest's Decision. Nothing is searched."""
        async with working(payload, PlanRequest) as request:
            # A worker that dies with each attempt would otherwise keep the run from its plan.
            if activity.info().attempt > MODEL_TRIES:
                lost = f"{MODEL_TRIES} attempts lost their worker or ran out of time"
                request = replace(request, without_model=lost)
            planned = await make_plan(
                self.resources.models(), request, give_up=_gives_up, within_s=time_limit()
            )
            check_size(
                "the arguments of the plan's steps",
                [step.arguments for step in planned.steps],
                MAX_PLAN_BYTES,
            )
            return planned

    @activity.defn(name=names.COMPLETE)
    async def complete(self, payload: RawValue) -> Completion:
        """Return the model's completion for a CompleteRequest."""
        async with working(payload, CompleteRequest) as request:
            models = self.resources.models()
            if models is None:
                raise InvalidConfig(
                    "this worker has no language model: set TOOLROUTE_MODEL, or give the plugin models=..."
                )
            return await complete(models, request, self.resources.results.text)

    @activity.defn(name=names.CALL_TOOL)
    async def call_tool(self, payload: RawValue) -> ToolResult:
        """Return the tool's answer, cut to its tokens. A tool's own error is an answer, too.

        A call that may not be repeated is sent at most once, independent of the caller's retry policy.
        """
        async with working(payload, ToolCall) as call:
            with self.resources.audited(call, activity.info().workflow_id or "") as line:
                answer = await self._called(call)
                line |= {
                    "result": TOOL_ERROR if answer.is_error else "ok",
                    "bytes": len(answer.text),
                }
                return answer

    async def _called(self, call: ToolCall) -> ToolResult:
        attempt = Attempt.current()
        began = time.monotonic()
        if attempt.sent_before and not call.replayable:
            raise _sent_already(call)
        if call.attempts and attempt.number > call.attempts:
            raise _no_attempt_left(call)
        deadline_s = call.deadline_s or time_limit()
        router = await self.resources.router()
        confirm = partial(
            _confirm, call, self.resources.changes(), attempt, is_of_operator=not router.stores
        )
        try:
            return await self.resources.execute(
                replace(call, deadline_s=deadline_s),
                confirm,
                activity.info().task_queue,
                must_run=attempt.maximum > 0,
            )
        except NoTurn:
            raise
        except Unavailable as error:
            late = deadline_s is not None and time.monotonic() - began >= deadline_s
            if late and attempt.number > 1:  # A tool that is too slow twice will be so again.
                error.retry = False
            attempt.note_unsent()
            raise

    @activity.defn(name=names.CHECK_CALL)
    async def check_call(self, payload: RawValue) -> Present:
        """Return how the server of a ToolCall defines the tool now.

        It runs before an approval and before a child workflow.

        It fails if the arguments do not fit the tool, or if no executor exists for it.
        """
        async with working(payload, ToolCall) as call:
            tool = await self.resources.present(
                replace(call, deadline_s=call.deadline_s or time_limit())
            )
            return Present(tool=None if tool.hash == call.tool.hash else tool)

    @activity.defn(name=names.READ_RESULT)
    async def read_result(self, payload: RawValue) -> ResultPage:
        """Return a part of a whole result, for the tenant of a PageRequest."""
        async with working(payload, PageRequest) as request:
            request.validate()
            return await self.resources.results.page(request)

    @activity.defn(name=names.RECORD_OUTCOME)
    async def record_outcome(self, payload: RawValue) -> None:
        """Record the Outcome of a RecordRequest. It may run again at any time."""
        async with working(payload, RecordRequest) as request:
            router = await self.resources.router()
            await router.record(
                request.query,
                used=request.used,
                tenant=request.tenant,
                ok=request.ok,
                actor=request.actor,
                at=request.at,
                source=request.source,
                name=request.name,
                chosen=request.chosen,
            )

    @activity.defn(name=names.SYNC_CATALOGUE)
    async def sync_catalogue(self, payload: RawValue) -> dict[str, Any]:
        """Return the report that `toolroute tools sync -o json` prints, for a SyncRequest.

        It may run again at any time.
        """
        async with working(payload, SyncRequest) as request:
            request.validate()
            # As JSON, because a schedule's result is read by people and by other languages.
            return (await self.resources.sync(request)).to_json()


def _gives_up(error: ToolrouteError) -> bool:
    """Return True if this was the last attempt that waits for the model."""
    info = activity.info()
    most = (info.retry_policy.maximum_attempts if info.retry_policy else 0) or MODEL_TRIES
    return not error.retry or info.attempt >= min(MODEL_TRIES, most)


async def _confirm(
    call: ToolCall, policy: ChangePolicy, attempt: Attempt, live: Tool, *, is_of_operator: bool
) -> None:
    """Raise an error if the call may not be sent to the tool as its server defines it now."""
    current = as_chosen(live, call.tool)
    if attempt.sent_before and not current.replayable:
        raise _sent_already(call)
    if call.approve is None or current.hash == call.tool.hash:
        return
    is_other = current.key != call.tool.key
    judged = as_judged(call.tool, current, policy, is_of_operator=is_of_operator)
    if (is_other and call.approve != "never") or needs_approval(judged, call.approve):
        raise ToolChanged(
            f"{call.tool.key}: the server has changed the tool's definition, and a person must approve it"
        )


def _sent_already(call: ToolCall) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{call.tool.key}: an earlier attempt was lost; the call is not sent again", final=True
    )


def _no_attempt_left(call: ToolCall) -> ServerUnavailable:
    """Return the error of a call whose last attempt ended without an answer, for example because its worker died."""
    error = ServerUnavailable(
        f"{call.tool.key}: none of {call.attempts} attempts brought an answer"
    )
    error.retry = False
    return error
