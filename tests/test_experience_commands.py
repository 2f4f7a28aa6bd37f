"""Past tasks on the command line: logs that are read, listed, counted, forgotten and measured."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Router, Store, Use
from orchestrator.errors import InvalidInput
from orchestrator.experience.logs import read_past
from orchestrator.runtime.recording import actor_name
from tests.catalogues import sample, tool, write_tools
from tests.command_line import COMMAND, Run
from tests.past import JARGON, MEANT, stored
from tests.stores import by_server, shipped


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"query": "x", "used": [MEANT], "at": 1.79e12}, "log.jsonl:2: at: .*milliseconds"),
        ({"query": "x", "used": [MEANT], "at": "2999-01-01"}, "log.jsonl:2: at: .*a day ahead"),
        ([], "log.jsonl:2: not a JSON object"),
        ({"query": "x", "used": [MEANT], "OK": False}, "log.jsonl:2: .*unknown field 'OK': did you mean 'ok'"),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "log.jsonl:2: .*5 in tool_calls"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": None}]}]}, "log.jsonl:2: .*in tool_calls"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: Any, said: str, tmp_path: Path) -> None:
    _write(tmp_path / "log.jsonl", [{"query": "x", "used": []}, line])
    with pytest.raises(InvalidInput, match=said):
        read_past(tmp_path / "log.jsonl")


def test_without_tools_or_tasks_commands_say_so(tmp_path: Path, toolroute: Run) -> None:
    stored(tmp_path)
    place = ("--store", tmp_path / "store")
    assert toolroute("experience", "stats", *place).stdout.endswith("0 tasks; best tool used: -\n")
    _write(tmp_path / "log.jsonl", [{"query": JARGON[0], "used": [MEANT], "at": "2001-01-01"}])
    ran = toolroute("experience", "import", tmp_path / "log.jsonl", *place)
    assert "1 not kept: too old" in ran.stdout
    ran = toolroute("experience", "import", tmp_path / "log.jsonl", *place, "--organization", "new")
    assert (ran.exit_code, "tenant 'org:new' has no tools" in ran.stderr) == (2, True), ran.stderr


def test_eval_routes_and_records_the_past_first(
    tmp_path: Path, toolroute: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    write_tools(folder / "tools.jsonl", sample().tools)
    _write(folder / "queries.jsonl", [{"query": "friday thing for the board, now", "relevant": [MEANT]}])
    past = [{"query": task, "used": [MEANT], "at": f"2026-11-0{day}T10:00:00Z"} for day, task in enumerate(JARGON, 1)]
    _write(tmp_path / "past.jsonl", [*past, {"query": "gone", "used": ["gone:tool"], "ok": False, "actor": "ann"}])
    before = json.loads(toolroute("eval", folder, "-o", "json").stdout)
    each = tmp_path / "each.jsonl"
    ran = toolroute("eval", folder, "--experience", tmp_path / "past.jsonl", "--per-query", each, "-o", "json")
    assert (before["metrics"]["hit@1"], json.loads(ran.stdout)["metrics"]["hit@1"]) == (0.0, 1.0)
    assert json.loads(each.read_text())["ranked"][0] == MEANT
    assert "1 name skipped, e.g. 'gone:tool': no known tool, or several tools, have this name" in ran.stderr
    monkeypatch.setenv("TOOLROUTE_EXPERIENCE", "off")
    ran = toolroute("eval", folder, "--experience", tmp_path / "past.jsonl")
    assert (ran.exit_code, ran.stdout, "TOOLROUTE_EXPERIENCE=off" in ran.stderr) == (2, "", True)
    monkeypatch.delenv("TOOLROUTE_EXPERIENCE")
    (tmp_path / "past.jsonl").write_text('{"query": "x", "used": "a:b"}\n')
    assert "past.jsonl:1: used" in toolroute("eval", folder, "--experience", tmp_path / "past.jsonl").stderr


def _write(path: Path, lines: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_an_actor_that_looks_like_a_key_is_kept_as_a_digest_a_person_each(tmp_path: Path, toolroute: Run) -> None:
    store, keys = stored(tmp_path), ["sk-1234567890abcdefghij", "sk-0987654321abcdefghij", "ann@example.org"]

    async def record() -> None:
        async with Router(store=store) as router:
            for actor in [*keys, keys[0]]:
                await router.record(JARGON[0], used=[MEANT], actor=actor)

    asyncio.run(record())
    actors = [outcome.actor for outcome in store.outcomes.read("local").outcomes]
    assert (len(set(actors)), keys[2] in actors) == (3, True)
    assert [key for key in keys[:2] if key in str(actors)] == []
    assert actor_name(actor_name(keys[0])) == actor_name(keys[0])
    forget = ("experience", "forget", "--store", tmp_path / "store", "--actor")
    assert toolroute(*forget, keys[0]).stdout == "local: 2 tasks forgotten\n"


OPENAI = {
    "messages": [
        {"role": "user", "content": JARGON[0]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "function": {"name": "salesforce__query_records", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "assistant", "content": "There are 42."},
        {"role": "user", "content": "thanks"},
    ]
}


ANTHROPIC = {
    "actor": "ann",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": JARGON[1]}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "t1", "name": "get_account", "input": {}},
                {"type": "tool_use", "id": "t2", "name": "query_records", "input": {}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no"}]},
    ],
}


def test_chat_logs_are_imported_as_they_are_listed_counted_and_forgotten(tmp_path: Path, toolroute: Run) -> None:
    stored(tmp_path)
    place = ("--store", tmp_path / "store")
    _write(tmp_path / "log.jsonl", [OPENAI, ANTHROPIC, {"query": JARGON[2], "used": ["nobody:nothing", MEANT]}])
    for again in range(2):
        ran = toolroute("experience", "import", tmp_path / "log.jsonl", *place)
        assert ran.stdout == f"local: {('3 tasks remembered, 0', '0 tasks remembered, 3')[again]} already known\n", (
            ran.stderr
        )
        assert "'nobody:nothing'" in ran.stderr
    assert keys_of(toolroute("route", "friday thing for the board, now", *place, "-o", "json").stdout)[0] == MEANT
    explained = toolroute("explain", "friday thing for the board, now", *place, "-o", "json").stdout
    assert {task["query"] for task in json.loads(explained)["past_tasks"]} == {*JARGON}
    assert "Past tasks like this" in toolroute("explain", JARGON[0], *place).stdout
    listed = json.loads(toolroute("experience", "list", *place, "-o", "json").stdout)["tasks"]
    assert {(task["query"], *task["used"], task["actor"]) for task in listed} == {
        (JARGON[0], MEANT, ""),
        (JARGON[1], MEANT, "ann"),
        (JARGON[2], MEANT, ""),
    }
    stats = json.loads(toolroute("experience", "stats", *place, "-o", "json").stdout)
    calls = {MEANT: (3, 0), "salesforce:get_account": (1, 1)}
    assert (stats["tasks"], {key: (own["calls"], own["failures"]) for key, own in stats["tools"].items()}) == (3, calls)
    assert MEANT in toolroute("experience", "stats", *place).stdout
    exported = toolroute("experience", "export", *place).stdout
    assert toolroute("experience", "forget", *place).exit_code == 2
    assert toolroute("experience", "forget", "--actor", "ann", *place).stdout == "local: 1 task forgotten\n"
    assert toolroute("experience", "forget", "--all", *place).stdout == "local: 2 tasks forgotten\n"
    (tmp_path / "log.jsonl").write_text(exported)
    for said in ("3 tasks remembered, 0 already known", "0 tasks remembered, 3 already known"):
        ran = toolroute("experience", "import", tmp_path / "log.jsonl", *place)
        assert ran.stdout == f"local: {said}\n", ran.stderr
    assert toolroute("experience", "export", *place).stdout.replace('"import"', '"api"') == exported.replace(
        '"import"', '"api"'
    )


def test_a_log_keeps_what_it_can_and_says_what_it_leaves_out(
    tmp_path: Path, toolroute: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path)
    own, shared = str(tmp_path / "own"), str(tmp_path / "store")
    user, call = {"role": "user", "content": "any task"}, {"type": "tool_use", "id": "t", "name": "query_records"}
    failed = {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": "no"}
    older = [user, {"role": "assistant", "content": None, "function_call": {"name": "query_records"}}]
    newer = [user, {"role": "assistant", "content": [call]}, {"role": "user", "content": [failed]}]
    named = [{"id": "one", "query": JARGON[place], "used": [MEANT]} for place in (0, 1)]
    log = [{"messages": older}, {"messages": newer}, *named, {"query": "", "used": [MEANT], "id": "textless"}]
    text = "".join(json.dumps(line) + "\n" for line in log)
    place = ("--store", own, "--store", f"{shared}#local", "--user", "ann")
    Store(own, embedder=shipped()).replace_servers("user:ann", by_server([tool("x:y", "z")]))
    ran = subprocess.run([COMMAND, "experience", "import", "-", *place], input=text, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "user:ann: 3 tasks remembered, 0 already known\n"), ran.stderr
    assert "1 task without text skipped" in ran.stderr
    listed = json.loads(toolroute("experience", "list", *place[:2], *place[4:], "-o", "json").stdout)["tasks"]
    kept = {(task["query"], *task["used"], len(task["failed"])) for task in listed}
    assert kept == {("any task", MEANT, 0), ("any task", 1), (JARGON[0], MEANT, 0)}
    assert toolroute("experience", "list", "--last", "0", *place[:2]).exit_code == 2
    (tmp_path / "empty.jsonl").write_text("")
    monkeypatch.setenv("TOOLROUTE_STORE", f"{own},{shared}#local")
    ran = toolroute("experience", "import", tmp_path / "empty.jsonl", "--user", "ann")
    assert (ran.exit_code, "empty.jsonl: no task in it used a known tool; give" in ran.stderr) == (0, True)


def keys_of(decision: str) -> list[str]:
    return [match["tool"] for match in json.loads(decision)["matches"]]


def test_the_calls_of_past_tasks_stand_at_each_server_those_that_failed_too(tmp_path: Path, toolroute: Run) -> None:
    uses = [Use(tool=MEANT, ms=20), Use(tool=MEANT, ok=False, ms=40)]
    store = Store(tmp_path / "store", embedder=shipped())
    store.replace_server("local", "salesforce", sample().of_server("salesforce"))

    async def record() -> None:
        async with Router(store=store) as router:
            for number, use in enumerate(uses):
                await router.record(JARGON[number], used=[use])

    asyncio.run(record())
    store.close()
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {name: {"command": "never"} for name in ("salesforce", "other")}}))
    asked = ("servers", "--config", file, "--store", tmp_path / "store")
    shown = {state["server"]: state for state in json.loads(toolroute(*asked, "-o", "json").stdout)}
    assert [shown["salesforce"][name] for name in ("calls", "failures", "ms")] == [2, 1, 30]
    assert [shown["other"][name] for name in ("calls", "failures", "ms")] == [0, 0, None]
    assert "2, 1 failed, 30 ms" in toolroute(*asked).stdout


def test_a_log_without_end_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"query": "' + "a" * 17 * 2**20, encoding="utf-8")
    with pytest.raises(InvalidInput, match="line 1 has more than 16,777,216 characters"):
        read_past(log)
    log.write_text('{"query": "add", "used": ["sum:add"]}\n' * 100_001, encoding="utf-8")
    with pytest.raises(InvalidInput, match="more than 100,000 tasks"):
        read_past(log)
