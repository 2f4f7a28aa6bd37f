"""`toolroute route`: its JSON, its exit codes, and a standard output that carries the result alone."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.catalogues import EXAMPLES
from tests.command_line import COMMAND, Run, program

CATALOGUE = str(EXAMPLES / "tools.jsonl")
PROBABILITY = (int, float)


def assert_contract(found: dict[str, Any]) -> None:
    """Every field of the contract, no other, each of its type."""
    shape: dict[str, Any] = {
        "query": str,
        "tenant": str,
        "stage": str,
        "confidence": PROBABILITY,
        "gate_confidence": PROBABILITY,
        "semantic_ran": bool,
        "coverage": (*PROBABILITY, type(None)),
        "parts": list,
        "servers": list,
        "recommended": list,
        "offered": list,
        "catalogue": dict,
        "tokens": dict,
        "timings_ms": dict,
        "warnings": list,
        "matches": list,
        "rejected": list,
    }
    assert {name: type(value) for name, value in found.items() if not isinstance(value, shape.get(name, ()))} == {}
    assert set(found) == set(shape)
    assert found["stage"] in ("always", "explicit", "keyword", "semantic", "none")
    assert re.fullmatch("[0-9a-f]{16}", found["catalogue"]["fingerprint"])
    assert set(found["catalogue"]) == {"fingerprint", "tools"}
    assert set(found["tokens"]) == {"before", "after", "counted_by"}
    assert "total" in found["timings_ms"]
    for match in found["matches"]:
        assert set(match) == {"tool", "server", "name", "kind", "score", "evidence", "why", "gives", "for_parts"}
        assert match["tool"] == f"{match['server']}:{match['name']}"
        assert set(match["evidence"]) <= {"always", "explicit", "keyword", "semantic"}
        assert len(match["for_parts"]) == len(found["parts"])
        for number in (match["score"], *match["evidence"].values(), *match["for_parts"]):
            assert 0 <= number <= 1
    for item in found["rejected"]:
        assert set(item) == {"tool", "why"}
    assert 0 <= found["confidence"] <= 1
    assert 0 <= found["gate_confidence"] <= 1
    assert set(found["recommended"]) <= {match["tool"] for match in found["matches"]}


@pytest.mark.parametrize(
    ("query", "stage", "best"),
    [
        ("search my documents for the travel policy", "always", "builtin:workspace_rag_query"),
        ("use jira to create a bug for the broken login page", "explicit", "jira:create_issue"),
        ("refund charge ch_3PqX, the customer paid twice", "keyword", "stripe:refund_charge"),
        ("the boardroom is ice cold, warm it up", "semantic", "facilities:set_room_climate"),
    ],
)
def test_an_answer_is_one_json_document_of_the_contract(query: str, stage: str, best: str, route: Run) -> None:
    done = route(query, "-o", "json", "--limit", "3")
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert_contract(found)
    assert (found["query"], found["tenant"], found["stage"]) == (query, "local", stage)
    assert found["matches"][0]["tool"] == best
    assert len(found["matches"]) <= 3
    assert found["semantic_ran"] == (stage == "semantic")


def test_coverage_takes_the_place_of_the_limit(route: Run) -> None:
    done = route("refund charge ch_3PqX, the customer paid twice", "-o", "json", "--coverage", "0.6")
    found = json.loads(done.stdout)
    assert_contract(found)
    assert (found["coverage"], [match["tool"] for match in found["matches"]]) == (0.6, ["stripe:refund_charge"])
    both = route("refund a charge", "--coverage", "0.9", "--limit", "3")
    assert (both.exit_code, "leave out --limit" in both.stderr) == (2, True)
    for wrong in ("0", "1.5", "nan"):
        refused = route("refund a charge", "--coverage", wrong)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "between 0 and 1" in refused.stderr


def test_nothing_good_enough_ends_with_3_and_says_so_on_standard_error(route: Run) -> None:
    done = route("qwertzuiop", "-o", "json", "--route-hint", "keyword")
    assert done.exit_code == 3
    found = json.loads(done.stdout)
    assert_contract(found)
    assert found["stage"] == "none"
    assert all(match["why"].startswith("low: ") for match in found["matches"])
    assert done.stderr == f"toolroute: {found['warnings'][0]}\n"


@pytest.mark.parametrize(
    ("output", "fields"),
    [
        ("openai", {"type", "name", "description", "parameters", "strict"}),
        ("openai-chat", {"type", "function"}),
        ("anthropic", {"name", "description", "input_schema"}),
        ("mcp", {"name", "description", "inputSchema"}),
    ],
)
def test_the_matches_are_given_as_a_models_tools(output: str, fields: set[str], route: Run) -> None:
    done = route("create a bug in jira", "-o", output, "--limit", "2")
    assert done.exit_code == 0
    shapes = json.loads(done.stdout)
    assert [set(shape) for shape in shapes] == [fields] * 2
    assert "jira__create_issue" in done.stdout


def test_a_table_shows_the_stage_the_best_tool_and_what_was_saved(route: Run) -> None:
    done = route("use jira to create a bug")
    assert done.exit_code == 0
    for shown in ("found on a server that the task names", "jira:create_issue", "% saved"):
        assert shown in done.stdout


def test_explain_names_words_and_fields_and_what_others_lacked(toolroute: Run) -> None:
    done = toolroute("explain", "create a jira issue for the bug", "--catalogue", CATALOGUE, "--limit", "2")
    assert done.exit_code == 0
    for shown in ("name: ", "Not among the matches", "lacks ", "milliseconds: "):
        assert shown in done.stdout


def test_explain_as_json_is_the_contract_and_the_words_of_each_match_by_field(toolroute: Run) -> None:
    query = ("refund charge ch_3PqX, the customer paid twice", "--catalogue", CATALOGUE, "--limit", "2", "-o", "json")
    done = toolroute("explain", *query)
    found = json.loads(done.stdout)
    words = [match.pop("words") for match in found["matches"]]
    assert (done.exit_code, done.stderr) == (0, "")
    assert_contract(found)
    assert "refund" in words[0]["name"]
    routed = json.loads(toolroute("route", *query).stdout)
    assert {**found, "timings_ms": 0} == {**routed, "timings_ms": 0}


def test_filters_hints_fusion_and_the_token_cap_reach_the_router(route: Run) -> None:
    done = route(
        *("review the code", "-o", "json", "--filter", "kind=agent", "--filter", "maturity=emerging"),
        *("--route-hint", "semantic", "--fusion", "rrf", "--token-cap", "200"),
    )
    found = json.loads(done.stdout)
    assert found["matches"]
    assert {match["kind"] for match in found["matches"]} == {"agent"}
    assert found["semantic_ran"]
    assert found["tokens"]["after"] <= 200


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("route",), "Missing argument 'QUERY'"),
        (("route", "q", "--nonsense"), "No such option"),
        (("route", "q", "-o", "yaml"), "'yaml' is not one of"),
        (("route", "q", "--limit", "0", "--catalogue", CATALOGUE), "limit=0: give 1 to 50"),
        (("route", " ", "--catalogue", CATALOGUE), "query is empty"),
        (("route", "q", "--filter", "kind", "--catalogue", CATALOGUE), "write KEY=VALUE"),
        (
            ("route", "q", *("--filter", "kind=agent", "--filter", "kind=mcp"), "--catalogue", CATALOGUE),
            "already 'agent'",
        ),
        (("route", "q", "--catalogue", "nowhere.jsonl"), "nowhere.jsonl does not exist"),
        (("route", "q", "--organization", " ", "--catalogue", CATALOGUE), "org ID is ' '"),
    ],
)
def test_bad_usage_or_input_ends_with_2_and_one_line_that_helps(
    toolroute: Run, arguments: tuple[str, ...], error: str
) -> None:
    done = toolroute(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert error in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_catalogue_ends_with_2_and_names_file_and_line(tmp_path: Path, toolroute: Run) -> None:
    (tmp_path / "tools.jsonl").write_text('{"name": "a"}\n{"name": \n', encoding="utf-8")
    done = toolroute("route", "q", "--catalogue", str(tmp_path), "-o", "json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{tmp_path / 'tools.jsonl'}:2: not JSON" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "utf-8:strict", "cp1252"])
def test_what_standard_output_cannot_hold_is_no_traceback_and_leaves_the_json_whole(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    for query in ("refund the charge ☕", os.fsdecode(b"refund \xff the charge")):
        assert program("route", query, "--catalogue", CATALOGUE).returncode == 0
        done = program("route", query, "--catalogue", CATALOGUE, "-o", "json")
        assert (done.returncode, done.stderr) == (0, "")
        told = json.loads(done.stdout)
        assert told["recommended"] == ["stripe:refund_charge"]
        assert told["query"] == query or not query.isprintable()


def test_a_list_of_tools_is_whole_where_standard_output_cannot_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    (tmp_path / "tools.jsonl").write_text('{"server": "café", "name": "brew", "description": "Brew ☕"}')
    for output in ("json", "jsonl"):
        done = program("tools", "list", "--catalogue", str(tmp_path), "-o", output)
        assert "Brew ☕" in json.dumps(json.loads(done.stdout), ensure_ascii=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_full_disk_ends_with_1_and_says_that_the_result_is_incomplete(output: str) -> None:
    bare = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}  # PYTHONUNBUFFERED hides it.
    with Path("/dev/full").open("w") as full:
        command = [COMMAND, "route", "refund", "--catalogue", CATALOGUE, "-o", output]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, env=bare)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["toolroute: No space left on device: the result is incomplete"]


def test_a_failure_ends_with_1(toolroute: Run) -> None:
    done = toolroute("route", "q", "--store", "http://127.0.0.1:9", "-o", "json")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("toolroute: ")


def test_tools_are_imported_once_and_routed_from_the_store_by_their_tenant_alone(
    tmp_path: Path, toolroute: Run
) -> None:
    store = ("--store", tmp_path / "store", "-o", "json")
    done = toolroute("tools", "import", CATALOGUE, "--organization", "7", *store)
    assert done.exit_code == 0, done.stderr
    query = ("route", "refund charge ch_3PqX, the customer paid twice", *store)
    own = json.loads(toolroute(*query, "--organization", "7").stdout)
    assert_contract(own)
    assert (own["tenant"], own["matches"][0]["tool"]) == ("org:7", "stripe:refund_charge")
    other = toolroute(*query, "--user", "7")
    assert other.exit_code == 3
    found = json.loads(other.stdout)
    assert (found["tenant"], found["matches"], found["catalogue"]["tools"]) == ("user:7", [], 0)


def test_a_context_is_printed_as_markdown_with_the_recommended_tools_first(route: Run) -> None:
    done = route("refund the payment of order 4711", "-o", "markdown")
    found = json.loads(route("refund the payment of order 4711", "-o", "json").stdout)
    headings = [line[4:] for line in done.stdout.splitlines() if line.startswith("### ")]
    assert done.stdout.startswith("## Task\n\nrefund the payment of order 4711\n\n## Tools")
    assert headings[: len(found["recommended"])] == found["recommended"]
    assert sorted(headings) == sorted(match["tool"] for match in found["matches"])


def test_importing_an_empty_file_says_that_nothing_was_stored(tmp_path: Path, toolroute: Run) -> None:
    (tmp_path / "tools.jsonl").touch()
    done = toolroute("tools", "import", tmp_path, "--store", tmp_path / "store")
    assert done.exit_code == 0
    assert "holds no tool: nothing was stored" in done.stderr
