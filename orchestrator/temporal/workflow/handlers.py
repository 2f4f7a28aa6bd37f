"""The query, the update and the memo of a workflow, for `toolroute runs`, the pages and clients.

This module is deterministic.

`ToolRouter.run` adds them to the calling workflow, so that a run inside your own workflow can be approved like
a run of `toolroute.run`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey
from temporalio.contrib.workflow_streams import WorkflowStream, WorkflowTopicHandle

from orchestrator.common.lines import inline
from orchestrator.errors import InvalidInput
from orchestrator.records import durable_names as names
from orchestrator.records.run import Approval, Progress, RunMemo
from orchestrator.temporal.workflow.payload import NOTHING, read_input
from orchestrator.temporal.workflow.run import Run

_TENANT = SearchAttributeKey.for_keyword(names.TENANT_ATTRIBUTE)
_WAITING = SearchAttributeKey.for_bool(names.WAITING_ATTRIBUTE)


class Handlers:
    """Shows the runs of one execution, all of one tenant, and takes people's answers about their steps.

    The memo (RunMemo) and the current details have the state of the steps, without arguments. Details that the workflow
    sets itself stay.
    """

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self._runs: tuple[Run, ...] = ()
        self._shown: Progress | None = None
        self._details = ""
        self._topic: WorkflowTopicHandle[Progress] | None = None

    def publish(self, stream: WorkflowStream) -> None:
        """Also publish each change to a stream, under the topic `toolroute.progress`."""
        self._topic = stream.topic(names.PROGRESS, type=Progress)

    def register(self, run: Run | None = None) -> None:
        """Register the query and the update, unless the workflow has handlers with these names.

        They start with this run.
        """
        self._runs = (run,) if run else ()
        if workflow.get_query_handler(names.PROGRESS) is None:
            workflow.set_query_handler(names.PROGRESS, self.progress)
        if workflow.get_update_handler(names.APPROVE) is None:
            workflow.set_update_handler(names.APPROVE, self.approve, validator=self.check)

    @asynccontextmanager
    async def showing(self, run: Run) -> AsyncIterator[None]:
        """Keep the memo and the details up to date while this run and others continue."""
        self._runs = (
            *(earlier for earlier in self._runs if earlier.under_way and earlier is not run),
            run,
        )
        showing = asyncio.create_task(self._show())
        try:
            yield
        finally:
            showing.cancel()
            # False while the execution of a stopped worker is collected.
            if workflow.in_workflow():
                self._show_now()

    def progress(self) -> Progress:
        """Return the phase and the budget of the latest run, and the steps of all current runs. It also answers after
        the end.
        """
        states = [run.progress() for run in self._runs]
        steps = [step for state in states for step in state.steps]
        return replace(states[-1], steps=tuple(steps))

    def approve(self, payload: RawValue = NOTHING) -> None:
        """Approve or reject a step with the arguments of a digest."""
        approval = read_input(payload, Approval)
        self._waiting(approval).take(approval)

    def check(self, payload: RawValue = NOTHING) -> None:
        """Refuse an answer that names no waiting step, or that approves without a digest."""
        approval = read_input(payload, Approval)
        if approval.allowed and not approval.digest:
            raise InvalidInput(
                "digest='': give the digest that the run's progress shows next to the step's arguments"
            )
        self._waiting(approval)

    def _waiting(self, approval: Approval) -> Run:
        """Return the run with the step that waits for this answer.

        Raises:
            InvalidInput: No step waits for it, or several do.
        """
        refused: list[InvalidInput] = []
        runs = list[Run]()
        for run in self._runs:
            try:
                run.check(approval)
                runs.append(run)
            except InvalidInput as error:
                refused.append(error)
        if not runs:
            raise refused[-1]
        if len(runs) > 1 and not approval.digest:
            raise InvalidInput(
                f"digest='': a step {approval.step!r} waits in several runs: give the digest of one of them"
            )
        return runs[-1]

    async def _show(self) -> None:
        while True:
            await workflow.wait_condition(lambda: self.progress() != self._shown)
            self._show_now()

    def _show_now(self) -> None:
        before = self._shown
        progress = self.progress()
        self._shown = progress
        changed = _changed(progress, before)
        if self._topic is not None and changed is not None:
            self._topic.publish(changed)
        if workflow.get_current_details() == self._details:
            self._details = _details(progress)
            workflow.set_current_details(self._details)
        waiting = tuple(f"{step.step} {step.tool}" for step in progress.steps if step.digest)
        memo = RunMemo(tenant=self.tenant, waiting=waiting)
        if memo != workflow.memo_value(names.RUN, None, type_hint=RunMemo):
            workflow.upsert_memo({names.RUN: memo})
        _show_waiting(bool(waiting))


def _details(progress: Progress) -> str:
    """Return the state of the steps as Markdown, for Temporal's web UI."""
    lines = [f"**{progress.phase}**"]
    for step in progress.steps:
        tool = inline(step.tool) or "no tool"
        lines.append(f"- {step.step} `{tool}`: {step.status.in_words}")
    return "\n".join(lines)


def _show_waiting(waits: bool) -> None:
    """Update the search attribute, if the run was started with the tenant's. A namespace without it would refuse."""
    attributes = workflow.info().typed_search_attributes
    if attributes.get(_TENANT) is not None and attributes.get(_WAITING) != waits:
        workflow.upsert_search_attributes([_WAITING.value_set(waits)])


def _changed(progress: Progress, before: Progress | None) -> Progress | None:
    """Return the progress with only the changed steps, without arguments. None if only the budget has changed.

    A stream stays small this way: about 400 bytes for each state of each step.
    """
    earlier = before.steps if before else ()
    steps = tuple(replace(step, arguments={}) for step in progress.steps if step not in earlier)
    if before is not None and not steps and progress.phase == before.phase:
        return None
    return replace(progress, steps=steps)
