"""The reader: where routing is not sure, it orders the first tools again."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from orchestrator import Catalogue, Decision, Router, Tool, preset
from orchestrator.errors import InvalidConfig
from orchestrator.index.reader import Reader
from orchestrator.pipeline.refiners.read import reading
from tests.catalogues import tool
from tests.pages import ROOT

PLANNED = Catalogue(
    [
        tool("gym:get_upcoming_workouts", "Get the planned workouts of the next days"),
        tool("gym:delete_planned_workout", "Take a workout out of the calendar"),
        tool("gym:log_workout", "Record a workout that was done"),
    ]
)
SURE = "get the upcoming workouts"
DOUBTFUL = "delete the upcoming workouts"
DEFAULT = preset("default")


class Preferring(Reader):
    """Prefers the last of the tools."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def scores(self, request: str, tools: Sequence[Tool]) -> NDArray[np.float32]:
        self.requests.append(request)
        return np.array([0] * (len(tools) - 1) + [20], np.float32)


class Slow(Preferring):
    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()

    def scores(self, request: str, tools: Sequence[Tool]) -> NDArray[np.float32]:
        self.may_answer.wait(60)
        return super().scores(request, tools)


async def routed(task: str, reader: Reader | None = None, limit_s: float = 60) -> Decision:
    refiners = DEFAULT.refiners if reader is None else (reading(reader, limit_s), *DEFAULT.refiners)
    async with Router(PLANNED, pipeline=replace(DEFAULT, refiners=refiners)) as router:
        return await router.route(task)


def keys(decision: Decision) -> list[str]:
    return [match.tool.key for match in decision.matches]


async def test_the_reader_puts_the_asked_action_first() -> None:
    before, after = await routed(DOUBTFUL), await routed(DOUBTFUL, Reader(ROOT / "models/reader"))
    assert keys(before)[0] == "gym:get_upcoming_workouts"
    assert keys(after)[0] == "gym:delete_planned_workout"


async def test_only_doubtful_tasks_are_read() -> None:
    reader = Preferring()
    sure, doubtful = await routed(SURE, reader), await routed(DOUBTFUL, reader)
    assert sure.confidence > 0.8
    assert reader.requests == [DOUBTFUL]
    assert keys(doubtful)[0] == keys(await routed(DOUBTFUL))[-1]


async def test_a_late_reader_leaves_the_order() -> None:
    reader = Slow()
    decision = await routed(DOUBTFUL, reader, limit_s=0.05)
    reader.may_answer.set()
    assert keys(decision) == keys(await routed(DOUBTFUL))
    assert decision.warnings == ("the reader did not finish within 0.05 seconds, so the order is without it",)


@pytest.mark.parametrize("content", [None, b"no tensors"])
def test_a_folder_without_a_reader_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "reader.safetensors").write_bytes(content)
    with pytest.raises(InvalidConfig, match=f"{tmp_path} is no reader"):
        Reader(tmp_path)
