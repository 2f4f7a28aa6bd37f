"""`toolroute eval`: the report's figures, its lines a query, and its complaints."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Router
from orchestrator.evaluate.runner import answer_all, quality, read_queries, read_set
from orchestrator.testing import Fault, ModelRequest, ScriptedModel, environment
from tests.catalogues import KEYWORD_ALONE
from tests.command_line import Run

TOOLS = {
    "mail": {"send_email": "Send an email to a person", "search_inbox": "Search the messages of the inbox"},
    "weather": {"get_forecast": "The weather forecast for a city", "get_alerts": "Storm warnings for a region"},
    "files": {"read_file": "Read the text of a file", "delete_file": "Delete a file from the disk"},
    "music": {"play_song": "Play a song or an album", "list_playlists": "List the playlists of a listener"},
}
QUERIES = [
    {"id": "q1", "query": "send an email to my boss", "relevant": ["mail:send_email"], "category": "one"},
    {"id": "q2", "query": "weather forecast for Oslo", "relevant": ["weather:get_forecast"], "category": "one"},
    {
        "id": "q3",
        "query": "read the file and email it to Ann",
        "relevant": ["files:read_file", "mail:send_email"],
        "category": "two",
    },
    {"id": "q4", "query": "put on some jazz", "relevant": ["music:play_song"], "category": "one"},
    {"id": "q5", "query": "prove that the zeta function has no zero there", "relevant": [], "category": "none"},
]
MEASURES = {"recall@1", "recall@3", "recall@5", "recall@10", "ndcg@5", "ndcg@10", "mrr", "hit@1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tools = [
        {"server": server, "name": name, "description": description, "input_schema": None}
        for server, own in TOOLS.items()
        for name, description in own.items()
    ]
    return _write(tmp_path / "small", tools=tools, queries=QUERIES)


def _write(folder: Path, **files: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def test_json_has_the_promised_keys_and_lines_a_query_tell_what_its_figures_were_made_of(
    folder: Path, tmp_path: Path, toolroute: Run
) -> None:
    ran = toolroute("eval", folder, "--per-query", tmp_path / "lines.jsonl", "-o", "json")
    assert ran.exit_code == 0
    result = json.loads(ran.stdout)
    assert (result["set"], result["tools"], result["queries"]) == ("small", 8, 5)
    assert set(result["metrics"]) == MEASURES
    assert set(result["ceiling"]) == {"recall@5", "recall@10"}
    assert set(result["confidence"]) == {"ece", "ece_95", "gate", "resolved", "precision"}
    assert set(result["tokens"]) == {"before", "after_mean"}
    assert set(result["latency_ms"]) == {"gate_open", "semantic", "all"}
    assert set(result["latency_ms"]["all"]) == {"p50", "p95", "p99"}
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["q1", "q2", "q3", "q4", "q5"]
    assert set(lines[0]) == {"id", "ranked", "confidence", "gate_confidence", "stage", "semantic_ran", "ms",
                             "warnings"}  # fmt: skip
    gold = [set(query["relevant"]) for query in QUERIES]
    recalls = [len(set(line["ranked"][:3]) & own) / len(own) for line, own in zip(lines, gold, strict=True) if own]
    assert result["metrics"]["recall@3"] == pytest.approx(sum(recalls) / 4, abs=1e-4)
    assert result["semantic_share"] == sum(line["semantic_ran"] for line in lines) / 5


@pytest.mark.parametrize(("hint", "share"), [("keyword", 0.0), ("semantic", 1.0), ("auto", None)])
def test_a_route_hint_chooses_what_is_searched(hint: str, share: float | None, folder: Path, toolroute: Run) -> None:
    result = json.loads(toolroute("eval", folder, "--route-hint", hint, "-o", "json").stdout)
    assert result["semantic_share"] == share or share is None
    assert result["metrics"]["recall@5"] >= 0.7


def test_the_tables_show_the_order_and_the_confidence(folder: Path, toolroute: Run) -> None:
    shown = toolroute("eval", folder).stdout
    assert all(word in shown for word in ("recall@5", "precision", "none, rightly", "small", "8 tools"))
    explained = {line.split(":")[0] for line in shown.splitlines() if ": " in line}
    assert explained >= {"recall@k", "ndcg@5", "mrr", "ece", "resolved", "precision", "none"}


def test_a_second_stage_is_measured_beside_plain_routing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    def right(asked: ModelRequest) -> Any:
        given = json.loads(asked.body["messages"][-1]["content"])
        [query] = (own for own in QUERIES if own["query"] == given["task"])
        numbers = [own["number"] for own in given["tools"] if own["tool"] in query["relevant"]]
        return Fault(500) if query["id"] == "q1" else {"needed": numbers, "confidence": 1}

    with ScriptedModel(right) as model:
        for name, value in environment(model).items():
            monkeypatch.setenv(name, value)
        done = toolroute("eval", folder, "--decide", "model", "-o", "json")
        shown = toolroute("eval", folder, "--decide", "model").stdout
    result = json.loads(done.stdout)
    assert result["metrics"]["hit@1"] < result["decided"]["metrics"]["hit@1"] == 1
    assert result["decided"]["refused"]["rightly"] == 1
    assert result["decided"]["usage"]["input"] > 1_000
    assert "1 query: the order was not changed by the second stage: " in done.stderr
    assert "decided" in shown


def test_labels_name_a_tool_without_a_server_with_or_without_a_colon(tmp_path: Path) -> None:
    named = [":play", "play", "music:play", ":a:b"]
    lines = [json.dumps({"query": "play a song", "relevant": [key]}) for key in named]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    assert [[*query.relevant] for query in read_queries(tmp_path / "queries.jsonl")] == [
        ["play"],
        ["play"],
        ["music:play"],
        [":a:b"],
    ]


def test_relevant_tools_that_are_not_there_lower_the_ceiling(folder: Path, toolroute: Run) -> None:
    _write(folder, queries=[{"id": "q", "query": "send an email", "relevant": ["mail:send_email", "fax:send"]}])
    ran = toolroute("eval", folder, "-o", "json")
    assert (ran.exit_code, json.loads(ran.stdout)["ceiling"]["recall@5"]) == (0, 0.5)
    assert "'fax:send'" in ran.stderr


async def test_a_query_that_no_tool_fits_counts_for_confidence_and_refusals_alone(folder: Path) -> None:
    found = read_set(folder)
    async with Router(found.catalogue) as router:
        answers = await answer_all(router, found.queries)
    known = {tool.key for tool in found.catalogue}
    alone = quality(answers[4:], catalogue_keys=known, gate=0.0)
    assert {*alone["metrics"].values(), *alone["ceiling"].values()} == {None}
    error = round(answers[4].decision.confidence, 4)
    assert alone["confidence"] == {"ece": error, "gate": 0.0, "resolved": 1.0, "precision": 0.0,
                                   "ece_95": [error, error]}  # fmt: skip
    assert quality(answers, catalogue_keys=known, gate=0.7)["metrics"] == quality(
        answers[:4], catalogue_keys=known, gate=0.7
    )["metrics"]  # fmt: skip


def test_any_relevant_tool_is_enough_where_a_query_says_so(folder: Path, toolroute: Run) -> None:
    relevant = ["mail:send_email", "files:delete_file", "fax:send"]
    queries = [{"query": "send an email to a person", "relevant": relevant, "any": True}]
    _write(folder, queries=queries)
    result = json.loads(toolroute("eval", folder, "-o", "json").stdout)
    assert set(result["metrics"].values()) == {1.0}
    assert set(result["ceiling"].values()) == {1.0}


def test_queries_that_nothing_fits_are_counted(folder: Path, toolroute: Run) -> None:
    unfit = [
        {"query": "send an email to a person", "without": ["mail:send_email", "mail:search_inbox"]},
        {"query": "read the text of a file"},
    ]
    _write(folder, none=unfit)
    ran = toolroute("eval", folder, "-o", "json")
    counts = json.loads(ran.stdout)["nothing_fits"]
    assert counts["queries"] == 2
    assert counts["recommended"] >= counts["resolved"] == 1
    assert "2 queries that no tool fits" in toolroute("eval", folder).stdout


def test_refusals_are_counted_by_whether_a_tool_was_there(folder: Path, tmp_path: Path, toolroute: Run) -> None:
    unfit = {"id": "q6", "query": "zzqx vrrm plonk", "relevant": ["fax:send"], "category": "none"}
    asked = [{**QUERIES[3], "query": "zzqx plonk vrrm"}, *QUERIES[:3], QUERIES[4], unfit]
    _write(folder, queries=asked)
    ran = toolroute("eval", folder, "--per-query", tmp_path / "lines.jsonl", "-o", "json")
    assert ran.exit_code == 0
    ended = [json.loads(line)["stage"] == "none" for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert ended[0]
    assert ended[5]
    refused = json.loads(ran.stdout)["refused"]
    assert refused == {"wrongly": sum(ended[:4]) / 4, "rightly": sum(ended[4:]) / 2}


def test_an_embedder_that_always_fails_is_told_once_with_its_count_and_ends_with_1(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    monkeypatch.setenv("TOOLROUTE_EMBEDDER", "openai:m")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    ran = toolroute("eval", folder, "--route-hint", "semantic", "--per-query", tmp_path / "lines.jsonl", "-o", "json")
    assert ran.exit_code == 1
    (reason,) = json.loads(ran.stdout)["semantic_failures"]
    assert "did not answer: the connection failed" in reason
    assert ran.stderr.splitlines() == [
        f"toolroute: semantic search failed for 5 queries: {reason}",
        "toolroute: semantic search never ran: these figures are for keyword search only",
    ]
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert {f"{KEYWORD_ALONE}{reason}" in line["warnings"] for line in lines} == {True}
    assert toolroute("eval", folder, "--route-hint", "keyword").exit_code == 0


def test_an_embedder_that_fails_for_some_queries_is_told_and_the_figures_stand(
    folder: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    with ScriptedModel(embeddings=[None, None, Fault(500, "worn out")]) as model:  # The tools, the warming up, a query.
        for name, value in environment(model).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("TOOLROUTE_EMBEDDER", "openai:m")
        ran = toolroute("eval", folder, "--route-hint", "semantic", "-o", "json")
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["semantic_share"] == 0.8
    assert "semantic search failed for 1 query: embedding model 'm'" in ran.stderr
    assert "HTTP 500" in ran.stderr


def test_words_that_the_embedder_does_not_know_are_no_failure(folder: Path, toolroute: Run) -> None:
    _write(folder, queries=[{"id": "q", "query": "ᚠᚢᚦ", "relevant": []}])
    ran = toolroute("eval", folder, "--route-hint", "semantic", "-o", "json")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["semantic_share"] == 0


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("{broken\n", ":1:", "not JSON"),
        ('{"query": "a", "query": "b", "relevant": []}\n', ":1:", "'query' is twice"),
        ('\n{"id": "a", "query": "x"}\n', ":2:", "relevant"),
        ('{"id": "a", "query": "  ", "relevant": []}\n', ":1:", "query"),
        ('{"id": "a", "query": "x", "relevant": []}\n{"id": "a", "query": "y", "relevant": []}\n', ":2:", "'a'"),
        ("", ":", "no queries"),
        (None, ":", "cannot be read"),
    ],
)
def test_a_broken_query_file_is_named_with_its_line(
    text: str | None, where: str, what: str, folder: Path, toolroute: Run
) -> None:
    (folder / "queries.jsonl").write_text(text) if text is not None else (folder / "queries.jsonl").unlink()
    ran = toolroute("eval", folder)
    assert (ran.exit_code, f"queries.jsonl{where}" in ran.stderr, what in ran.stderr) == (2, True, True), ran.stderr
