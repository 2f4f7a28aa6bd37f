"""The deterministic door: toolroute inside a user's own workflow. Imports records and arithmetic, no engine.

@workflow.run
async def run(self, task: str) -> str:
    router = ToolRouter(tenant="org:acme")
    decision = await router.route(task)          # the few tools that fit, and why
    plan = await router.plan(decision)           # steps from the same matches
    return (await router.run(task)).answer       # or all of it, behind the budget
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
from orchestrator.temporal.call import Config
from orchestrator.temporal.handlers import Handlers
from orchestrator.temporal.run import Run
from orchestrator.temporal.stubs import ActivityStubs

__all__ = ["ToolRouter"]


class ToolRouter(ActivityStubs):
    """Routes, plans and runs within the calling workflow, through the activities that `OrchestratorPlugin` registers.

    `tenant` is used where a request names none. `route_options`, `semantic_options` (over those, for that stage of a
    staged route), `plan_options` (for `complete` too) and `call_options` are Temporal's own activity options
    (task_queue, start_to_close_timeout, retry_policy, ...); each call may override them by name. No retry
    policy sends a call again that may not be repeated.
    Activities fail with Temporal's `ActivityError`, whose `cause.type` names a class of `orchestrator.errors`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        # Workflows may share a router of their module: each execution has an event loop, and so a run, of its own.
        self._runs: WeakKeyDictionary[asyncio.AbstractEventLoop, Run] = WeakKeyDictionary()

    @named
    async def run(
        self,
        request: RunRequest | str,
        *,
        approve: Approve | str | None = None,
        stream: WorkflowStream | None = None,
        **options: Unpack[Config],
    ) -> RunResult:
        """Route, plan and carry out a task behind the budget; `options` are those of the tool calls.

        `approve` says which steps wait for a person, as in RunRequest: by default all that are not known to only read.
        The calling workflow gets the query `toolroute.progress`, the update `toolroute.approve` and the memo of
        `toolroute.run`, so that `toolroute runs`, the pages and a client reach its steps. Handlers of these names that
        it defines itself stay. Of several tenants in one execution, the runs of the first are shown; a `stream` that
        the workflow made in its `@workflow.init` gets their changes under the topic `toolroute.progress`.
        """
        if isinstance(request, str):
            request = RunRequest(task=request, tenant=self.tenant)
        if approve is not None:
            request = replace(request, approve=cast("Approve", approve))  # which the record makes it
        request.validate()
        run = self._runs[asyncio.get_running_loop()] = Run(request, self, {**self._call, **options})
        async with _shown(run, request.tenant or self.tenant, stream):
            ended = await run.advance()
        if isinstance(ended, Checkpoint):
            raise RuntimeError("a run that nothing stops stopped")
        return ended

    def progress(self) -> Progress | None:
        """Return where this router's latest `run` stands, for a query handler of yours; None before the first."""
        run = self._runs.get(asyncio.get_running_loop())
        return run.progress() if run else None

    def approve(self, step: str, allowed: bool = True, *, digest: str = "") -> bool:
        """Let a step that waits for approval go on, or not, from a handler of the calling workflow.

        Returns False for a word that does not count: no such step waits, or the arguments that it would be called with
        are not those of the `digest` (as `progress` shows it).
        """
        run, word = self._runs.get(asyncio.get_running_loop()), Approval(step=step, digest=digest, allowed=allowed)
        if run is None:
            return False
        try:
            run.check(word)
        except InvalidInput:
            return False
        run.take(word)
        return True


_HANDLERS: "WeakKeyDictionary[asyncio.AbstractEventLoop, Handlers]" = WeakKeyDictionary()
"""By execution: each has an event loop of its own."""


def _shown(run: Run, tenant: str, stream: WorkflowStream | None) -> AbstractAsyncContextManager[None]:
    """Show a run to those outside the calling workflow.

    The patch has two uses: an execution that is replayed from a time before it was shown is not shown, and the server's
    search attribute TemporalChangeVersion finds the others, whatever their type, without an attribute of ours.
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
