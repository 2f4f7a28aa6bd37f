"""The reader: where routing is not sure, it orders the first tools again."""

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from temporalio.client import Client
from temporalio.worker import Replayer

from orchestrator import Catalogue, Decision, Options, OrchestratorPlugin, Router, RouteRequest, Tool
from orchestrator.errors import InvalidConfig
from orchestrator.pipeline.refiners import second_stage
from orchestrator.pipeline.refiners.reader import Reader
from tests.catalogues import keys, tool
from tests.command_line import Run
from tests.my_workflow import Staged
from tests.pages import ROOT
from tests.temporal import working
from tests.test_staged import Stages

PLANNED = Catalogue(
    [
        tool("gym:get_upcoming_workouts", "Get the planned workouts of the next days"),
        tool("gym:delete_planned_workout", "Take a workout out of the calendar"),
        tool("gym:log_workout", "Record a workout that was done"),
    ]
)
DOUBTFUL = "delete the upcoming workouts"
FOLDER = str(ROOT / "models/reader")


class Preferring(Reader):
    """Prefers the last of the tools."""

    def __init__(self, score: float = 20) -> None:
        self.requests: list[str] = []
        self._score = score

    def scores(self, request: str, tools: Sequence[Tool]) -> NDArray[np.float32]:
        self.requests.append(request)
        return np.array([0] * (len(tools) - 1) + [self._score], np.float32)


class Slow(Preferring):
    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()

    def scores(self, request: str, tools: Sequence[Tool]) -> NDArray[np.float32]:
        self.may_answer.wait(60)
        return super().scores(request, tools)


@pytest.fixture
def preferring(monkeypatch: pytest.MonkeyPatch) -> Preferring:
    reader = Preferring()
    monkeypatch.setattr(second_stage, "reader_at", lambda folder: reader)
    return reader


async def routed(task: str, **options: Any) -> Decision:
    async with Router(PLANNED, options=Options(**options)) as router:
        return await router.route(task)


async def test_the_reader_puts_the_asked_action_first() -> None:
    before = await routed(DOUBTFUL)
    after = await routed(DOUBTFUL, reader=FOLDER, route_timeout_s=60)
    assert keys(before)[0] == "gym:get_upcoming_workouts"
    assert keys(after)[0] == "gym:delete_planned_workout"
    assert "moved to the first place by the reader" in after.matches[0].why
    assert after.matches[0].evidence["reader"] > 0.9


@pytest.mark.parametrize(
    ("task", "is_read"),
    [(DOUBTFUL, True), ("get the upcoming workouts", False), ("borra los entrenamientos planeados", False)],
)
async def test_only_doubtful_english_tasks_are_read(preferring: Preferring, task: str, is_read: bool) -> None:
    decision = await routed(task, reader=FOLDER)
    before = keys(await routed(task))
    assert preferring.requests == [task] * is_read
    assert (keys(decision)[0] == before[-1]) == is_read


def test_a_tool_scores_the_same_beside_others_and_again() -> None:
    reader = Reader(FOLDER)
    together = reader.scores(DOUBTFUL, PLANNED.tools)
    alone = [reader.scores(DOUBTFUL, [tool])[0] for tool in PLANNED.tools]
    assert together == pytest.approx(alone, abs=0.01)
    assert reader.scores(DOUBTFUL, PLANNED.tools) == pytest.approx(together)


async def test_without_a_reader_nothing_is_read(preferring: Preferring) -> None:
    await routed(DOUBTFUL)
    assert preferring.requests == []


async def test_a_preference_counts_more_among_tools_of_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_stage, "reader_at", lambda folder: Preferring(3))
    several = [
        replace(tool, server=server) for tool, server in zip(PLANNED.tools, ("gym", "club", "studio"), strict=True)
    ]
    one_server = await shift_of_last(PLANNED)
    several_servers = await shift_of_last(Catalogue(several))
    no_server = await shift_of_last(Catalogue(replace(tool, server="") for tool in PLANNED.tools))
    assert one_server > 1.5 * several_servers > 0
    assert no_server == pytest.approx(several_servers)


async def shift_of_last(catalogue: Catalogue) -> float:
    """Return how much the reader raises the last tool's log-odds above the first one's."""
    leads = []
    for folder in ("", FOLDER):
        async with Router(catalogue, options=Options(reader=folder)) as router:
            decision = await router.route(DOUBTFUL)
        chances = {match.tool.name: match.probability for match in decision.matches}
        odds = {name: log(chance / (1 - chance)) for name, chance in chances.items()}
        leads.append(odds["log_workout"] - odds["get_upcoming_workouts"])
    return leads[1] - leads[0]


async def test_a_late_reader_leaves_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Slow()
    monkeypatch.setattr(second_stage, "reader_at", lambda folder: reader)
    decision = await routed(DOUBTFUL, reader=FOLDER, route_timeout_s=0.05)
    reader.may_answer.set()
    assert keys(decision) == keys(await routed(DOUBTFUL))
    assert decision.warnings == (f"{second_stage.UNREAD}it took longer than 0.05 seconds (route_timeout_s)",)


async def test_a_damaged_reader_leaves_the_order(tmp_path: Path) -> None:
    for name in ("reader.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"damaged")
    decision = await routed(DOUBTFUL, reader=str(tmp_path))
    assert keys(decision) == keys(await routed(DOUBTFUL))
    assert f"{tmp_path} is no reader" in decision.warnings[0]


async def test_a_reader_without_some_weights_leaves_the_order(tmp_path: Path) -> None:
    weights = load_file(f"{FOLDER}/reader.safetensors")
    del weights["pos.weight"]
    save_file(weights, tmp_path / "reader.safetensors")
    copyfile(f"{FOLDER}/tokenizer.json", tmp_path / "tokenizer.json")
    decision = await routed(DOUBTFUL, reader=str(tmp_path))
    assert keys(decision) == keys(await routed(DOUBTFUL))
    assert decision.warnings == (f"{second_stage.UNREAD}its file has no weights 'pos.weight'",)


async def test_half_a_surrogate_pair_is_read() -> None:
    decision = await routed(DOUBTFUL + " \ud83d", reader=FOLDER)
    assert keys(decision)
    assert not any(second_stage.UNREAD in warning for warning in decision.warnings)


def test_a_folder_without_a_reader_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"has no reader\.safetensors and no tokenizer\.json: set TOOLROUTE_READER"):
        Router(PLANNED, options=Options(reader=str(tmp_path)))


async def test_a_replay_reads_nothing(preferring: Preferring, temporal_address: str, task_queue: str) -> None:
    plugin = OrchestratorPlugin(catalogue=PLANNED, options=Options(reader=FOLDER))
    client = await Client.connect(temporal_address, plugins=[plugin])
    async with working(client, task_queue, workflows=[Staged]):
        handle = await client.start_workflow(Staged.run, DOUBTFUL, id=task_queue, task_queue=task_queue)
        decision = await handle.result()
    assert preferring.requests == [DOUBTFUL]
    assert keys(decision) == keys(await routed(DOUBTFUL, reader=FOLDER))
    preferring.requests.clear()
    without_reader = OrchestratorPlugin(catalogue=PLANNED)
    await Replayer(workflows=[Staged], plugins=[without_reader]).replay_workflow(await handle.fetch_history())
    assert preferring.requests == []


@pytest.mark.usefixtures("preferring")
async def test_a_worker_reads_in_its_activity() -> None:
    plugin = OrchestratorPlugin(catalogue=PLANNED, options=Options(reader=FOLDER))
    request = RouteRequest(query=DOUBTFUL, tenant="org:1")
    async with plugin.resources.held():
        stages = Stages(plugin)
        assert await stages.differ([request]) == []
        durable = await stages.route(request)
    assert keys(durable) == keys(await routed(DOUBTFUL, reader=FOLDER))
    assert durable.matches[0].evidence["reader"] > 0.9


def test_doctor_has_the_reader_read(toolroute: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLROUTE_READER", FOLDER)
    assert f"ok reader: {FOLDER}, " in toolroute("doctor").stdout


def test_eval_measures_without_and_with_the_reader(
    toolroute: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preferring: Preferring
) -> None:
    monkeypatch.setenv("TOOLROUTE_READER", FOLDER)
    tools = [{"server": tool.server, "name": tool.name, "description": tool.description} for tool in PLANNED.tools]
    query = {"query": DOUBTFUL, "relevant": [PLANNED.tools[-1].key]}
    for name, records in (("tools", tools), ("queries", [query])):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    result = json.loads(toolroute("eval", str(tmp_path), "-o", "json").stdout)
    assert preferring.requests == [DOUBTFUL]
    found = [figures["metrics"]["recall@1"] for figures in (result, result["decided"])]
    assert found == [0, 1]
