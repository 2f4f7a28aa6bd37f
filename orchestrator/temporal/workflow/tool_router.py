"""toolroute inside your own workflow. This module is deterministic and imports no search engine.

@workflow.run
async def run(self, task: str) -> str:
    router = ToolRouter(tenant="org:acme")
    decision = await router.route(task)          # the few tools that fit, with reasons
    plan = await router.plan(decision)           # steps from the same matches
    return (await router.run(task)).answer       # or everything in one call, within the budget
"""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Unpack, cast
from weakref import WeakKeyDictionary

from temporalio import workflow
from temporalio.contrib.workflow_streams import WorkflowStream

from orchestrator.common.fields import named
from orchestrator.errors import InvalidInput
from orchestrator.records import durable_names as names
from orchestrator.records.call import Approve
from orchestrator.records.run import Approval, Checkpoint, Progress, RunRequest, RunResult
from orchestrator.temporal.workflow.call import ActivityConfig
from orchestrator.temporal.workflow.handlers import Handlers
from orchestrator.temporal.workflow.run import Run
from orchestrator.temporal.workflow.stubs import ActivityStubs

__all__ = ["ToolRouter"]


class ToolRouter(ActivityStubs):
    """Routes, plans and runs tasks within your workflow, with the activities that `OrchestratorPlugin` registers.

    The options are Temporal's own activity options, such as `task_queue`, `start_to_close_timeout` and `retry_policy`.
    Each call may override them by name. No retry policy repeats a call that may not be repeated. A failed activity
    raises Temporal's `ActivityError`. Its `cause.type` is the name of a class of `orchestrator.errors`.

    Args:
        tenant: The tenant of requests that name none.
        route_options: The options of routing.
        semantic_options: The options of the semantic stage of a staged route, in addition to `route_options`.
        plan_options: The options of planning and of model calls.
        call_options: The options of tool calls.

    Examples:
        >>> from temporalio import workflow
        >>> from orchestrator import ToolRouter
        >>> @workflow.defn
        ... class Support:
        ...     @workflow.run
        ...     async def run(self, task: str) -> str:
        ...         router = ToolRouter(tenant="org:acme")
        ...         return (await router.run(task)).answer
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        # Workflows may share a router of their module. Each execution has its own event loop, and so its own run.
        self._runs: WeakKeyDictionary[asyncio.AbstractEventLoop, Run] = WeakKeyDictionary()

    @named
    async def run(
        self,
        request: RunRequest | str,
        *,
        approve: Approve | str | None = None,
        approval_timeout_s: float | None = None,
        stream: WorkflowStream | None = None,
        **options: Unpack[ActivityConfig],
    ) -> RunResult:
        """Route, plan and carry out a task within a budget.

        The workflow gets the query `toolroute.progress`, the update `toolroute.approve` and the memo of
        `toolroute.run`, so that `toolroute runs`, the pages of `toolroute ui` and clients can reach its steps. Your own
        handlers with these names stay. If one execution runs tasks of several tenants, only the runs of the first
        tenant are shown.

        Args:
            request: The task as a text, or a RunRequest.
            approve: The policy that decides which steps wait for a person. Default: as in the RunRequest.
            approval_timeout_s: Seconds that a step waits for approval. Default: as in the RunRequest.
            stream: A stream that your workflow made in its `@workflow.init`. It gets each change of the run's progress,
                under the topic `toolroute.progress`.
            options: Activity options of the tool calls.

        Raises:
            InvalidInput: The request cannot be run.
        """
        if isinstance(request, str):
            request = RunRequest(task=request, tenant=self.tenant)
        if approve is not None:
            # which the record makes it
            request = replace(request, approve=cast("Approve", approve))
        if approval_timeout_s is not None:
            request = replace(request, approval_timeout_s=approval_timeout_s)
        request.validate()
        run = self._runs[asyncio.get_running_loop()] = Run(request, self, {**self._call, **options})
        async with _shown(run, request.tenant or self.tenant, stream):
            ended = await run.advance()
        if isinstance(ended, Checkpoint):
            raise RuntimeError("the run stopped with a checkpoint, although nothing stops it")
        return ended

    def progress(self) -> Progress | None:
        """Return the progress of this router's latest `run`, for a query handler of yours. None: no run has started."""
        run = self._runs.get(asyncio.get_running_loop())
        return run.progress() if run else None

    @named
    def approve(self, step: str, allowed: bool = True, *, digest: str = "") -> bool:
        """Approve or reject a step that waits for approval, from a handler of your workflow.

        Args:
            step: The id of the step.
            allowed: True to approve, False to reject.
            digest: The digest that `progress` shows for the step.

        Returns:
            False if the answer does not count: no such step waits, or its arguments do not belong to the digest.
        """
        run = self._runs.get(asyncio.get_running_loop())
        if run is None:
            return False
        approval = Approval(step=step, digest=digest, allowed=allowed)
        try:
            run.check(approval)
        except InvalidInput:
            return False
        run.take(approval)
        return True


_HANDLERS: "WeakKeyDictionary[asyncio.AbstractEventLoop, Handlers]" = WeakKeyDictionary()
"""The handlers by execution. Each execution has its own event loop."""


def _shown(
    run: Run, tenant: str, stream: WorkflowStream | None
) -> AbstractAsyncContextManager[None]:
    """Show a run to clients outside the workflow.

    The patch has two purposes. An execution from a time before runs were shown stays deterministic in a replay. And the
    server's search attribute TemporalChangeVersion finds all other executions, of any workflow type.
    """
    loop = asyncio.get_running_loop()
    if not workflow.patched(names.RUN):
        return nullcontext()
    if (handlers := _HANDLERS.get(loop)) is None:
        handlers = _HANDLERS[loop] = Handlers(tenant)
        handlers.register()
    if handlers.tenant != tenant:
        return nullcontext()
    if stream is not None:
        handlers.publish(stream)
    return handlers.showing(run)
