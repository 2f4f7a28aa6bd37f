"""The report of a run at a terminal, while the worker is too busy to answer."""

import asyncio
import os
import pty
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator import Approval, BudgetReport, Progress, StepProgress, StepStatus
from orchestrator.cli.runs.reporter import RunReporter
from orchestrator.errors import Unavailable

WAITING = StepProgress(
    step="s1",
    task="delete it",
    tool="files:delete",
    status=StepStatus.NEEDS_APPROVAL,
    arguments={"path": "a"},
    digest="d" * 32,
)
BUDGET = BudgetReport(
    max_total_tokens=10_000,
    max_tokens_per_step=2_000,
    reserve_for_synthesis=4_000,
    settled=0,
    reserved=0,
    remaining=6_000,
    steps_left=1,
)
PROGRESS = Progress(phase="running", steps=(WAITING,), budget=BUDGET)


class BusyClient:
    """A client of runs whose worker leaves the first question after the run's start unanswered."""

    tenant = "local"

    def __init__(self) -> None:
        self.answers: list[Approval] = []
        self.answering = asyncio.Event()
        self.confirmed = asyncio.Event()
        self._asked = 0

    async def progress(self, run_id: str) -> Progress | None:
        self._asked += 1
        return None if self._asked == 2 else PROGRESS

    async def follow(self, run_id: str) -> AsyncIterator[Progress]:
        yield PROGRESS
        await asyncio.Event().wait()

    async def answer(self, run_id: str, approval: Approval) -> None:
        self.answering.set()
        try:
            await self.confirmed.wait()
        except asyncio.CancelledError:  # The SDK, too, does not tell a cancelled update from a late one.
            raise Unavailable("no worker answers") from None
        self.answers.append(approval)


@pytest.fixture
def typing() -> Iterator[int]:
    """What a person types at the terminal that is standard input."""
    ours, terminal = pty.openpty()
    before = os.dup(0)
    os.dup2(terminal, 0)
    yield ours
    os.dup2(before, 0)
    for end in (ours, terminal, before):
        os.close(end)


async def test_a_run_that_ends_first_gets_the_answer(typing: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The worker is busy when the question comes up, and confirms the answer after the run has ended."""
    client: Any = BusyClient()
    handle: Any = SimpleNamespace(id="r1", describe=lambda **_: asyncio.Event().wait())
    reporter = RunReporter(client, handle, "q", 60, asks=True)
    reporting = asyncio.create_task(reporter.until_cancelled())
    printed = ""
    async with asyncio.timeout(120):
        while "[y/N]: " not in printed:
            await asyncio.sleep(0.01)
            printed += capsys.readouterr().err
        os.write(typing, b"y\n")
        await client.answering.wait()
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
        client.confirmed.set()
        await reporter.answers_are_passed_on()
    assert [(word.step, word.allowed) for word in client.answers] == [("s1", True)]
