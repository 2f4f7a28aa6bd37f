"""Query, update and memo of a workflow, by which `toolroute runs`, the pages and clients reach its runs. Deterministic.

`ToolRouter.run` gives them to the calling workflow, so that a run inside a user's own workflow can be approved as
one of `toolroute.run` can.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.contrib.workflow_streams import WorkflowStream, WorkflowTopicHandle

from orchestrator.common.lines import inline
from orchestrator.errors import InvalidInput
from orchestrator.records import durable_names as names
from orchestrator.records.run import Approval, Progress, RunMemo
from orchestrator.temporal.payload import NOTHING, read_input
from orchestrator.temporal.run import Run


class Handlers:
    """Shows the runs of one execution, all of one tenant, and takes a person's words on their steps.

    The memo (RunMemo) and the current details say how the steps stand, without what they are given. Details that the
    workflow sets itself stay.
    """

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self._runs: tuple[Run, ...] = ()
        self._shown: Progress | None = None
        self._details = ""
        self._topic: WorkflowTopicHandle[Progress] | None = None

    def publish(self, stream: WorkflowStream) -> None:
        """Publish each change under the topic `toolroute.progress` of a stream, too."""
        self._topic = stream.topic(names.PROGRESS, type=Progress)

    def register(self, run: Run | None = None) -> None:
        """Answer the query and the update, where the workflow has no handler of that name; of this run at first."""
        self._runs = (run,) if run else ()
        if workflow.get_query_handler(names.PROGRESS) is None:
            workflow.set_query_handler(names.PROGRESS, self.progress)
        if workflow.get_update_handler(names.APPROVE) is None:
            workflow.set_update_handler(names.APPROVE, self.approve, validator=self.check)

    @asynccontextmanager
    async def showing(self, run: Run) -> AsyncIterator[None]:
        """Keep memo and details as the runs under way stand, this one among them."""
        self._runs = (*(one for one in self._runs if one.under_way and one is not run), run)
        showing = asyncio.create_task(self._show())
        try:
            yield
        finally:
            showing.cancel()
            if workflow.in_workflow():  # Not while an execution that a worker leaves behind is collected.
                self._show_now()

    def progress(self) -> Progress:
        """Return phase and budget of the latest run, and the steps of all under way; also after the end."""
        *others, latest = [run.progress() for run in self._runs]
        return replace(latest, steps=tuple(step for shown in (*others, latest) for step in shown.steps))

    def approve(self, word: RawValue = NOTHING) -> None:
        """Let a step use its tool with the arguments of this digest, or not."""
        given = read_input(word, Approval)
        self._waiting(given).take(given)

    def check(self, word: RawValue = NOTHING) -> None:
        """Refuse a word that names no waiting step, or arguments that nobody was shown."""
        given = read_input(word, Approval)
        if given.allowed and not given.digest:
            raise InvalidInput("digest='': give the one that the run's progress shows with the step's arguments")
        self._waiting(given)

    def _waiting(self, word: Approval) -> Run:
        """Return the run whose step waits for this word; InvalidInput where none does, or it is not said which."""
        refused: list[InvalidInput] = []
        found = list[Run]()
        for run in self._runs:
            try:
                run.check(word)
                found.append(run)
            except InvalidInput as error:
                refused.append(error)
        if not found:
            raise refused[-1]
        if len(found) > 1 and not word.digest:
            raise InvalidInput(f"digest='': several runs wait with a step {word.step!r}: give the digest of one")
        return found[-1]

    async def _show(self) -> None:
        while True:
            await workflow.wait_condition(lambda: self.progress() != self._shown)
            self._show_now()

    def _show_now(self) -> None:
        before, shown = self._shown, self.progress()
        self._shown = shown
        if self._topic is not None and (changed := _changed(shown, before)):
            self._topic.publish(changed)
        lines = (
            f"- {one.step} `{inline(one.tool) or 'no tool'}`: {one.status.replace('_', ' ')}" for one in shown.steps
        )
        details = "\n".join([f"**{shown.phase}**", *lines])
        if workflow.get_current_details() == self._details:
            workflow.set_current_details(details)
            self._details = details
        waiting = tuple(f"{one.step} {one.tool}" for one in shown.steps if one.digest)
        memo = RunMemo(tenant=self.tenant, waiting=waiting)
        if memo != workflow.memo_value(names.RUN, None, type_hint=RunMemo):
            workflow.upsert_memo({names.RUN: memo})


def _changed(now: Progress, before: Progress | None) -> Progress | None:
    """Return the steps that have changed, without what they are given; None where only the budget has.

    So what a stream keeps stays small: some 400 bytes for each state of each step.
    """
    known = before.steps if before else ()
    steps = tuple(replace(step, arguments={}) for step in now.steps if step not in known)
    return replace(now, steps=steps) if steps or before is None or now.phase != before.phase else None
