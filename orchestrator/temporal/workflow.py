"""The deterministic door: toolroute inside a user's own workflow. Imports records and arithmetic, no engine.

@workflow.run
async def run(self, task: str) -> str:
    router = ToolRouter(tenant="org:acme")
    decision = await router.route(task)          # the few tools that fit, and why
    plan = await router.plan(decision)           # steps from the same matches
    return (await router.run(task)).answer       # or all of it, behind the budget
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any, Unpack
from weakref import WeakKeyDictionary

from temporalio import workflow
from temporalio.common import RawValue

from orchestrator.errors import UnknownTool
from orchestrator.records import durable_names as names
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.completion import CompleteRequest, Completion
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.request import RouteRequest, Turn, turns_of
from orchestrator.records.run import Progress, RunRequest, RunResult
from orchestrator.temporal.call import (
    MODEL_RETRY,
    PATIENT,
    as_failure,
    as_failures,
    call_config,
    call_tool,
    check_given,
    check_kind,
)
from orchestrator.temporal.held import MAX_PLAN_BYTES
from orchestrator.temporal.keys import occurrence
from orchestrator.temporal.payload import read
from orchestrator.temporal.run import Run

__all__ = ["ToolRouter"]

Config = workflow.ActivityConfig
MODEL_CALL = Config(
    start_to_close_timeout=timedelta(minutes=5), heartbeat_timeout=timedelta(seconds=10), retry_policy=MODEL_RETRY
)
DEFAULT = Config(
    start_to_close_timeout=timedelta(seconds=60), heartbeat_timeout=timedelta(seconds=20), retry_policy=PATIENT
)


class ToolRouter:
    """Routes, plans and runs within the calling workflow, through the activities that `OrchestratorPlugin` registers.
    Workflows may share one: each execution, which has an event loop of its own, has its own runs.

    `tenant` is used where a request names none. `route_options`, `plan_options` and `call_options` are Temporal's own
    activity options (task_queue, start_to_close_timeout, retry_policy, ...); each call may override them by name. No
    retry policy sends a call again that may not be (docs/temporal.md).
    `plan_options` go for `complete` too: both may ask a language model, on a worker that has one.
    Failures are Temporal's: `ActivityError`, whose `cause.type` names a class of `orchestrator.errors`.
    """

    def __init__(
        self,
        tenant: str = "",
        *,
        route_options: Config | None = None,
        plan_options: Config | None = None,
        call_options: Config | None = None,
    ) -> None:
        self.tenant = tenant
        self._route: Config = {**DEFAULT, **(route_options or {})}
        self._plan: Config = {**MODEL_CALL, "retry_policy": PATIENT, **(plan_options or {})}
        self._complete: Config = {**MODEL_CALL, **(plan_options or {})}
        self._call: Config = {**(call_options or {})}
        self._runs: WeakKeyDictionary[asyncio.AbstractEventLoop, Run] = WeakKeyDictionary()

    async def route(
        self, request: RouteRequest | str, *, conversation: Sequence[Turn] = (), **options: Unpack[Config]
    ) -> Decision:
        """The Decision for a task: one activity, `toolroute.route`, on the worker that holds the catalogue.

        A bare text is routed for this router's tenant and within the conversation, its earlier turns oldest first.
        """
        check_kind("request", request, (str, RouteRequest), "the task as text, or a RouteRequest")
        if isinstance(request, str):
            request = RouteRequest(query=request, tenant=self.tenant, conversation=_turns(conversation))
        elif conversation:
            request = replace(request, conversation=_turns(conversation))
        check_given("the query with its conversation", asdict(request))
        config: Config = {**self._route, "summary": str(request.query)[:120], **options}
        return read(await workflow.execute_activity(names.ROUTE, request, result_type=RawValue, **config), Decision)

    async def plan(
        self,
        decision: Decision,
        *,
        arguments: Mapping[str, Any] | None = None,
        first: Plan | None = None,
        min_confidence: float = 0.3,
        conversation: Sequence[Turn] = (),
        without_model: str = "",
        **options: Unpack[Config],
    ) -> Plan:
        """Steps bound to the Decision's own matches; nothing is searched. `arguments` as in RunRequest.

        A worker's language model reads the `conversation` before the task, unless `without_model` says why none is to.
        """
        check_kind("decision", decision, Decision, "what `route` gave")
        check_kind("arguments", arguments or {}, Mapping, "an object of names and values")
        turns = _turns(conversation)
        for turn in turns:
            check_kind("a turn of the conversation", turn, Turn, "Turn(text=...)")
        check_given("the conversation before a plan", [turn.text for turn in turns])
        given = [dict(arguments or {}), [step.arguments for step in first.steps] if first else []]
        check_given("what the plan is given as arguments", given, MAX_PLAN_BYTES)
        request = PlanRequest(
            decision=decision,
            arguments=dict(arguments or {}),
            salt=occurrence("plan", decision.query),
            first=first,
            min_confidence=min_confidence,
            conversation=turns,
            without_model=without_model,
        )
        config: Config = {**self._plan, **options}
        return read(await workflow.execute_activity(names.PLAN, request, result_type=RawValue, **config), Plan)

    async def complete(self, request: CompleteRequest, **options: Unpack[Config]) -> Completion:
        """One call of the worker's language model: arguments out of results, or an answer out of them."""
        check_kind("request", request, CompleteRequest, "a CompleteRequest")
        check_given("the results for a model", request.results)
        config: Config = {**self._complete, "summary": str(request.purpose), **options}
        raw = await workflow.execute_activity(names.COMPLETE, request, result_type=RawValue, **config)
        return read(raw, Completion)

    async def call(
        self,
        decision: Decision,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        max_result_tokens: int = 8_000,
        **options: Unpack[Config],
    ) -> ToolResult:
        """Calls one of the Decision's tools, by `server:name`. The call's key is the same over all its attempts and a
        reset, and another one for an equal call and in what the workflow continues as."""
        check_kind("decision", decision, Decision, "what `route` gave")
        check_kind("arguments", arguments or {}, Mapping, "an object of names and values")
        found = decision.tool(tool)
        if found is None:
            offered = ", ".join(match.tool.key for match in decision.matches)
            raise as_failure(UnknownTool(f"{tool!r} is no match of this Decision; it has {offered or 'none'}"))
        call = ToolCall(
            tenant=decision.tenant,
            tool=found,
            arguments=dict(arguments or {}),
            idempotency_key=f"{workflow.info().workflow_id}:{occurrence('call', found.key, arguments)}",
            max_result_tokens=max_result_tokens,
        )
        return await call_tool(call, call_config(RunRequest(task=decision.query), {**self._call, **options}))

    async def run(self, request: RunRequest | str, **options: Unpack[Config]) -> RunResult:
        """Routes, plans and carries out a task behind the budget; `options` are those of the tool calls.

        Of runs at the same time `progress` and `approve` reach the latest: give each a ToolRouter of its own.
        """
        check_kind("request", request, (str, RunRequest), "the task as text, or a RunRequest")
        if isinstance(request, str):
            request = RunRequest(task=request, tenant=self.tenant)
        with as_failures():
            request.validate()  # here already: a Run reckons with the limits from its beginning
        run = self._runs[asyncio.get_running_loop()] = Run(request, self, {**self._call, **options})
        return await run.to_the_end()

    def progress(self) -> Progress | None:
        """Where the latest `run` stands, for a query handler of the calling workflow; None before the first."""
        run = self._runs.get(asyncio.get_running_loop())
        return run.progress() if run else None

    def approve(self, step: str, allowed: bool = True) -> None:
        """Lets a step that waits for approval go on, or not, from a signal handler of the calling workflow."""
        if run := self._runs.get(asyncio.get_running_loop()):
            run.approve(step, allowed)


def _turns(conversation: Sequence[Turn]) -> tuple[Turn, ...]:
    with as_failures():
        return turns_of(conversation)
