"""The report of a run at a terminal, while the worker is too busy to answer."""

import asyncio
import os
import pty
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.cli.runs.reporter import RunReporter
from orchestrator.records.budget import BudgetReport
from orchestrator.records.run import Approval, Progress, StepProgress, StepStatus

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
        self._asked = 0

    async def progress(self, run_id: str) -> Progress | None:
        self._asked += 1
        return None if self._asked == 2 else PROGRESS

    async def follow(self, run_id: str) -> AsyncIterator[Progress]:
        yield PROGRESS
        await asyncio.Event().wait()

    async def say(self, run_id: str, word: Approval) -> None:
        self.answers.append(word)


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


async def test_a_busy_worker_does_not_suppress_the_question(typing: int, capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = BusyClient()
    handle: Any = SimpleNamespace(id="r1", describe=lambda **_: asyncio.Event().wait())
    reporting = asyncio.create_task(RunReporter(client, handle, "q", 60, asks=True).until_cancelled())
    printed = ""
    async with asyncio.timeout(30):
        while "[y/N]: " not in printed:
            await asyncio.sleep(0.01)
            printed += capsys.readouterr().err
        os.write(typing, b"y\n")
        while not client.answers:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    reporting.cancel()
    await asyncio.gather(reporting, return_exceptions=True)
    assert [(word.step, word.allowed) for word in client.answers] == [("s1", True)]
