"""`toolroute experience replay`: past tasks of the store, routed again."""

import asyncio
import json
from pathlib import Path

import pytest

from orchestrator import Router, Store
from orchestrator.testing import Fault, ScriptedModel, environment
from tests.catalogues import EXAMPLES, sample, write_tools
from tests.command_line import Run
from tests.stores import by_server, shipped

TASKS = {
    "refund charge ch_3PqX, the customer paid twice": "stripe:refund_charge",
    "create a bug in jira for the broken login": "jira:create_issue",
}
UNSURE = {"do the friday thing for the board": "salesforce:query_records"}
"""A tool that no word finds."""


async def remembered(tmp_path: Path, tasks: dict[str, str] = TASKS) -> str:
    place = str(tmp_path / "store")
    store = Store(place, embedder=shipped())
    store.replace_servers("local", by_server(list(sample().tools)))
    async with Router(store=store) as router:
        for task, tool in tasks.items():
            await router.record(task, used=[tool], at=1_790_000_000.0)
    return place


@pytest.fixture
async def place(tmp_path: Path) -> str:
    return await remembered(tmp_path)


def test_a_catalogue_that_loses_a_used_tool_ends_with_6_and_comes_first(
    place: str, tmp_path: Path, toolroute: Run
) -> None:
    rest = write_tools(tmp_path / "new.jsonl", [tool for tool in sample().tools if tool.key != "jira:create_issue"])
    ran = toolroute("experience", "replay", "--store", place, "--catalogue", rest, "-o", "json")
    result = json.loads(ran.stdout)
    assert (ran.exit_code, result["tasks"], result["lost"], result["gained"]) == (6, 2, 1, 0)
    assert result["each"][0]["lost"] == ["jira:create_issue"]
    assert "jira:create_issue" in toolroute("experience", "replay", "--store", place, "--catalogue", rest).stdout
    same = toolroute("experience", "replay", "--store", place, "--catalogue", EXAMPLES / "tools.jsonl", "-o", "json")
    figures = json.loads(same.stdout)
    assert (same.exit_code, figures["lost"], figures["moved"], figures["gate_flips"]) == (0, 0, 0, 0)
    later = ("--since", "2027-01-01", "--pipeline", "default", "-o", "json")
    for nothing in (later, ("--organization", "acme", "--pipeline", "koi")):
        ran = toolroute("experience", "replay", "--store", place, *nothing)
        assert (ran.exit_code, ran.stdout, "nothing to replay" in ran.stderr) == (2, "", True)
    assert toolroute("experience", "replay", "--store", place).exit_code == 2


def test_a_used_tool_that_the_catalogue_has_no_more_is_lost_though_routing_never_found_it(
    tmp_path: Path, toolroute: Run
) -> None:
    place, used = asyncio.run(remembered(tmp_path, UNSURE)), []
    for catalogue in (list(sample().tools), [tool for tool in sample().tools if tool.server != "salesforce"]):
        tools = write_tools(tmp_path / "new.jsonl", catalogue)
        ran = toolroute("experience", "replay", "--store", place, "--catalogue", tools, "-o", "json")
        used.append((ran.exit_code, json.loads(ran.stdout)["each"][0]["lost"]))
    assert used == [(0, []), (6, ["salesforce:query_records"])]


def test_an_embedder_that_fails_is_named_and_no_comparison_passes(
    tmp_path: Path, toolroute: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = asyncio.run(remembered(tmp_path, UNSURE))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    ran = toolroute("experience", "replay", "--store", place, "--embedder", "openai:m", "-o", "json")
    [(reason, number)] = json.loads(ran.stdout)["semantic_failures"].items()
    assert (ran.exit_code, "did not answer" in reason) == (1, True)
    assert f"failed for {number} task" in ran.stderr
    assert reason in ran.stderr


def test_the_tools_are_embedded_before_a_task_is_replayed(
    tmp_path: Path, toolroute: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = asyncio.run(remembered(tmp_path, UNSURE))
    with ScriptedModel(embeddings=[Fault(500, "not yet")]) as model:  # No task is short of it.
        for name, value in {**environment(model), "TOOLROUTE_SEMANTIC_TIMEOUT": "60"}.items():
            monkeypatch.setenv(name, value)
        ran = toolroute("experience", "replay", "--store", place, "--embedder", "openai:m", "-o", "json")
    assert (json.loads(ran.stdout)["semantic_failures"], ran.stderr) == ({}, "")
