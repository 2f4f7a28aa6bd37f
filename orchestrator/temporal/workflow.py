"""The deterministic door: toolroute inside a user's own workflow. Imports records and arithmetic, no engine.

@workflow.run
async def run(self, task: str) -> str:
    router = ToolRouter(tenant="org:acme")
    decision = await router.route(task)          # the few tools that fit, and why
    plan = await router.plan(decision)           # steps from the same matches
    return (await router.run(task)).answer       # or all of it, behind the budget
"""

import asyncio
from dataclasses import replace
from typing import Unpack, cast
from weakref import WeakKeyDictionary

from orchestrator.errors import InvalidInput
from orchestrator.records.run import Approval, Approve, Checkpoint, Progress, RunRequest, RunResult
from orchestrator.temporal.call import Config
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

    async def run(
        self, request: RunRequest | str, *, approve: Approve | str | None = None, **options: Unpack[Config]
    ) -> RunResult:
        """Route, plan and carry out a task behind the budget; `options` are those of the tool calls.

        `approve` says which steps wait for `approve()`, as in RunRequest: by default all that are not known to only
        read. Of runs at the same time `progress` and `approve` reach the latest: give each a ToolRouter of its own.
        """
        if isinstance(request, str):
            request = RunRequest(task=request, tenant=self.tenant)
        if approve is not None:
            request = replace(request, approve=cast("Approve", approve))  # which the record makes it
        request.validate()
        run = self._runs[asyncio.get_running_loop()] = Run(request, self, {**self._call, **options})
        ended = await run.advance()
        if isinstance(ended, Checkpoint):
            raise RuntimeError("a run that nothing stops stopped")
        return ended

    def progress(self) -> Progress | None:
        """Return where the latest `run` stands, for a query handler of the calling workflow; None before the first."""
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
