"""`toolroute experience replay`: past tasks from the store, from Decisions and from a history."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router
from orchestrator.store.store import Store
from orchestrator.testing import Fault, ScriptedModel, environment
from tests.catalogues import EXAMPLES, sample, write_tools
from tests.command_line import Run
from tests.decisions import ALL
from tests.stores import by_server, shipped

TASKS = {
    "refund charge ch_3PqX, the customer paid twice": "stripe:refund_charge",
    "create a bug in jira for the broken login": "jira:create_issue",
}
UNSURE = {"do the friday thing for the board": "salesforce:query_records"}
"""A tool that no word finds."""
HISTORY = Path(__file__).parent / "histories" / "0.1.0-steps.json"


async def remembered(tmp_path: Path, tasks: dict[str, str] = TASKS) -> str:
    place = str(tmp_path / "store")
    store = Store(place, embedder=shipped())
    store.replace_servers("local", by_server(list(sample().tools)))
    async with Router(store=store) as router:
        for task, tool in tasks.items():
            await router.record(task, used=[tool], at=1_790_000_000.0)
    return place


def written(path: Path, tools: list[Tool]) -> Path:
    write_tools(path, tools)
    return path


@pytest.fixture
async def place(tmp_path: Path) -> str:
    return await remembered(tmp_path)


def test_a_catalogue_that_loses_a_used_tool_ends_with_6_and_comes_first(
    place: str, tmp_path: Path, toolroute: Run
) -> None:
    rest = written(tmp_path / "new.jsonl", [tool for tool in sample().tools if tool.key != "jira:create_issue"])
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
        tools = written(tmp_path / "new.jsonl", catalogue)
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


def test_decisions_and_histories_are_replayed_from_their_files(tmp_path: Path, toolroute: Run) -> None:
    decision = toolroute("route", next(iter(TASKS)), "--catalogue", EXAMPLES / "tools.jsonl", "-o", "json").stdout
    (tmp_path / "decision.json").write_text(decision)
    fewer = written(tmp_path / "fewer.jsonl", [tool for tool in sample().tools if tool.server != "stripe"])
    ran = toolroute("experience", "replay", "--from", tmp_path / "decision.json", "--catalogue", fewer, "-o", "json")
    assert (ran.exit_code, json.loads(ran.stdout)["each"][0]["lost"]) == (6, ["stripe:refund_charge"])
    tools = written(tmp_path / "tools.jsonl", [tool for tool in ALL if tool.key != "files:delete_file"])
    ran = toolroute("experience", "replay", "--from", HISTORY, "--catalogue", tools, "-o", "json")
    [task] = json.loads(ran.stdout)["each"]
    assert (task["used"], task["lost"]) == (["files:read_file", "files:delete_file"], ["files:delete_file"])
    (tmp_path / "decision.json").write_text("{}")
    assert (
        "the file has no Decision"
        in toolroute("experience", "replay", "--from", tmp_path / "decision.json", "--catalogue", tools).stderr
    )


def test_the_tools_are_embedded_before_a_task_is_replayed(
    tmp_path: Path, toolroute: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = asyncio.run(remembered(tmp_path, UNSURE))
    with ScriptedModel(embeddings=[Fault(500, "not yet")]) as model:  # No task is short of it.
        for name, value in {**environment(model), "TOOLROUTE_SEMANTIC_TIMEOUT": "60"}.items():
            monkeypatch.setenv(name, value)
        ran = toolroute("experience", "replay", "--store", place, "--embedder", "openai:m", "-o", "json")
    assert (json.loads(ran.stdout)["semantic_failures"], ran.stderr) == ({}, "")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"confidence": "high"}, ":2: then.confidence: .* number.*; give Decisions"),
        ({"query": " "}, ":2: query: .*; give Decisions"),
        ({"matches": [{"tool": {"name": "x"}}]}, ":2: not a Decision or a history .no 'server'.; give Decisions"),
        (None, ":2: not a Decision or a history .None is not a JSON object"),
        ([1], ":2: not a Decision or a history .\\[1\\] is not a JSON object"),
        ("{", ":2: not a Decision or a history "),
    ],
)
def test_a_record_that_is_no_decision_is_named_with_its_line(
    change: Any, said: str, tmp_path: Path, toolroute: Run
) -> None:
    plain = ("query", "x"), ("matches", []), ("recommended", []), ("confidence", 0.5), ("semantic_ran", False)
    decision = {**dict(plain), "tokens": {"after": 1}, "servers": []}
    second = {**decision, **change} if isinstance(change, dict) else change
    line = second if isinstance(second, str) else json.dumps(second)
    (tmp_path / "d.jsonl").write_text(f"{json.dumps(decision)}\n{line}\n")
    ran = toolroute("experience", "replay", "--from", tmp_path / "d.jsonl", "--catalogue", EXAMPLES / "tools.jsonl")
    assert (ran.exit_code, bool(re.search(f"d.jsonl{said}", " ".join(ran.stderr.split())))) == (2, True), ran.stderr
