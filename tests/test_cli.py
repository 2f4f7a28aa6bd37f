"""The command line: its JSON, its exit codes, its output, and one line with the remedy for each mistake."""

import json
import re
import socket
from pathlib import Path
from typing import Any

import click
import pytest

from orchestrator.cli import COMMANDS, cli
from tests.catalogues import EXAMPLES
from tests.command_line import Run
from tests.imported import loaded

CATALOGUE = str(EXAMPLES / "tools.jsonl")
REFUND = "refund charge ch_3PqX, the customer paid twice"
NUMBER = (int, float)
SHAPE: dict[str, Any] = {
    **dict.fromkeys(("query", "tenant", "stage"), str),
    **dict.fromkeys(("confidence", "gate_confidence"), NUMBER),
    **dict.fromkeys(
        ("parts", "servers", "recommended", "offered", "warnings", "matches", "rejected", "related", "graph", "needs"),
        list,
    ),
    **dict.fromkeys(("catalogue", "tokens", "timings_ms", "usage"), dict),
    "about": (dict, type(None)),
    "semantic_ran": bool,
}
MATCH = {"tool", "server", "name", "kind", "probability", "evidence", "why", "gives", "for_parts", "source"}


def assert_contract(found: dict[str, Any]) -> None:
    """Every field of the contract, no other, each of its type."""
    assert set(found) == set(SHAPE)
    assert {name: value for name, value in found.items() if not isinstance(value, SHAPE[name])} == {}
    assert found["stage"] in ("always", "explicit", "keyword", "semantic", "none")
    assert re.fullmatch("[0-9a-f]{16}", found["catalogue"]["fingerprint"])
    assert set(found["tokens"]) == {"before", "after"}
    for match in found["matches"]:
        assert set(match) == MATCH
        assert match["tool"] == f"{match['server']}:{match['name']}"
        assert all(0 <= number <= 1 for number in (match["probability"], *match["evidence"].values()))
    assert all(set(item) == {"tool", "why"} for item in found["rejected"])
    assert set(found["recommended"]) <= {match["tool"] for match in found["matches"]}


@pytest.mark.parametrize(
    ("query", "stage", "best"),
    [
        ("search my documents for the travel policy", "always", "builtin:workspace_rag_query"),
        ("list the open pull requests on github", "explicit", "github:list_pull_requests"),
        (REFUND, "keyword", "stripe:refund_charge"),
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


def test_nothing_good_enough_ends_with_3_and_says_so_on_standard_error(route: Run) -> None:
    done = route("qwertzuiop", "-o", "json", "--route-hint", "keyword")
    found = json.loads(done.stdout)
    assert_contract(found)
    assert (done.exit_code, found["stage"]) == (3, "none")
    assert all(match["why"].startswith("low probability: ") for match in found["matches"])
    assert done.stderr == f"toolroute: {found['warnings'][0]}\n"
    assert "no tool matches; the nearest tools:" in route("qwertzuiop").stdout


def test_the_options_of_a_request_reach_the_router(route: Run) -> None:
    done = route(
        *("review the code", "-o", "json", "--filter", "kind=agent", "--filter", "maturity=emerging"),
        *("--route-hint", "semantic", "--fusion", "rrf", "--token-cap", "200"),
    )
    found = json.loads(done.stdout)
    assert {match["kind"] for match in found["matches"]} == {"agent"}
    assert found["semantic_ran"]
    assert found["tokens"]["after"] <= 200


def test_a_conversation_with_an_unknown_role_is_refused_with_its_line(route: Run, tmp_path: Path) -> None:
    turns = tmp_path / "turns.jsonl"
    turns.write_text('{"text": "list my invoices"}\n{"role": "assitant", "text": "Three."}\n')
    ran = route("and the unpaid ones", "--conversation", turns)
    assert ran.exit_code == 2
    assert f"--conversation {turns}:2: role: Input should be 'user', 'assistant'" in ran.stderr


@pytest.mark.parametrize("output", ["openai", "anthropic"])
def test_the_matches_are_given_as_a_models_tools(output: str, route: Run) -> None:
    done = route("create a bug in jira", "-o", output, "--limit", "2")
    assert json.loads(done.stdout)[0]["name"] == "jira__create_issue"


def test_a_context_is_printed_as_markdown_with_the_recommended_tools_first(route: Run) -> None:
    shown = route(REFUND, "-o", "markdown").stdout
    assert shown.startswith(f"## Task\n\n{REFUND}\n\n## Tools")
    assert next(line[4:] for line in shown.splitlines() if line.startswith("### ")) == "stripe:refund_charge"


def test_a_screen_names_each_figure_once(route: Run, toolroute: Run) -> None:
    shown = route("the boardroom is ice cold, warm it up").stdout
    assert re.search(r"found by semantic search; confidence \d+%\n", shown)
    assert re.search(r"keyword search alone: confidence \d+%, below the gate of 70%\n", shown)
    assert "no server needed; " in shown
    assert "found by keyword and semantic search; " in route("ring my mum").stdout
    assert "enough to suggest it; a plan needs 30%" in route("help me with the party").stdout
    assert "prob.: probability that the tool is needed" in shown
    explained = toolroute("explain", REFUND, "--catalogue", CATALOGUE, "--limit", "2").stdout
    for part in ("name: ", "Not among the matches", "without the words: ", "milliseconds: "):
        assert part in explained


def test_explain_as_json_is_the_contract_and_the_words_of_each_match_by_field(toolroute: Run) -> None:
    query = (REFUND, "--catalogue", CATALOGUE, "--limit", "2", "-o", "json")
    found = json.loads(toolroute("explain", *query).stdout)
    words = [match.pop("words") for match in found["matches"]]
    descriptions = [match.pop("description") for match in found["matches"]]
    assert_contract(found)
    assert "refund" in words[0]["name"]
    assert descriptions[0].startswith("Give a customer their money back")
    assert {**found, "timings_ms": 0} == {**json.loads(toolroute("route", *query).stdout), "timings_ms": 0}


# --- tools


# --- mistakes


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("route", "Missing argument 'QUERY'"),
        ("route q --nonsense", "No such option"),
        ("route q -v", "No such option '-v'.\nPut the option before the command: toolroute -v"),
        ("--store s tools sync", "Put a command's option behind it: toolroute COMMAND --store ..."),
        ("route q -o yaml", "'yaml' is not one of"),
        ("rout q", "No such command 'rout'. Did you mean 'route'?"),
        ("route deploy the api", "unexpected extra arguments (the api)\nQuote a task of several words."),
        (f"route q --limit 0 --catalogue {CATALOGUE}", "limit=0: give 1 to 50"),
        ("tools remove a --tenant shared --user u", "--tenant shared: leave out --organization and --user"),
        (
            "tools list --tenant shared",
            "only `tools import` and `tools remove` accept this tenant; give another tenant",
        ),
        ("route q --tenant acme", "tenant 'acme': give an organization (org:ID), a user (user:ID), or local"),
        ("run q --context language=python", "No such option '--context'"),
        ("tools sync mcp.json --config mcp.json", "give one file that names all servers"),
        ("route q --filter kind", "write NAME=VALUE"),
        ("run q --yes s1", "--yes 's1': write STEP=DIGEST, as an earlier run printed it"),
        ("runs approve r s1", "approve 's1': write STEP=DIGEST, as `toolroute runs show r` prints it"),
        ("route q --filter kind=agent --filter kind=mcp", "--filter kind is given twice"),
        (
            "route q --store tols",
            "store 'tols' does not exist: `toolroute tools import` and `toolroute tools sync` create a store",
        ),
        ("route q --store ftp://me:secret@there", "store 'ftp://there': give a folder, or the http(s):// address"),
        (
            f"route q --config mcp.json --catalogue {CATALOGUE}",
            "--catalogue with --config, which lists servers",
        ),
        (f"run q --store tools --catalogue {CATALOGUE}", "--catalogue with --store: leave one out, or store the tools"),
        (f"route q --catalogue {'x' * 300}", "xxx: cannot be read (File name too long); give a tools.jsonl"),
        (
            "tools import mcp.json",
            "names MCP servers, not tools: list and store their tools with `toolroute tools sync",
        ),
        (f"tools list --catalogue {CATALOGUE} --server jirra", "no tools of the server 'jirra'; did you mean jira?"),
        ("servers --config mcp.json --config other.json", "mcp.json, other.json: give one file that names all servers"),
        ("run q --config .", "File '.' is a directory"),
        ("serve --tokens tokens.json", "--tokens works with HTTP only: add --transport http, or leave it out"),
        ("doctor --catalogue http://me:secret@there:6333", "a URL is not a file of tools: give a file"),
        (f"plan q --catalogue {CATALOGUE} --min-confidence 7", "min_confidence=7.0: give a probability from 0 to 1"),
        (f"plan q --catalogue {CATALOGUE} --arg a=1 --arg a=2", "--arg a is given twice"),
    ],
)
def test_a_mistake_ends_with_2_and_its_remedy(toolroute: Run, mcp_file: Path, command: str, message: str) -> None:
    result = toolroute(*command.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "secret" not in result.stderr
    assert [path.name for path in mcp_file.parent.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize(
    "command", ["tools list --store", "tools import", "route q --catalogue", "serve --tokens", "eval"]
)
def test_a_place_that_is_empty_as_an_unset_variable_is_refused(toolroute: Run, mcp_file: Path, command: str) -> None:
    result = toolroute(*command.split(), "")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the value is empty. Is an environment variable unset?" in result.stderr


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        (
            ("route", REFUND, "--user", "7", "--organization", "42"),
            "--user 7: leave it out, or leave --organization 42",
        ),
        (
            ("route", REFUND, "--fusion", "rrf", "--route-hint", "keyword"),
            "fusion='rrf' has no effect with route_hint=",
        ),
        (("tools", "list", "--store", "tools"), "--catalogue with --store: leave one out"),
        (("tools", "show", "stripe:refund_charge", "--tenant", "org:1"), "a file has the same tools for each tenant"),
        (("tools", "graph", "--hops", "1"), "--hops counts from a TOOL: give its key, or leave it out"),
        (("doctor", "--connect"), "a file of tools has no servers to connect"),
    ],
)
def test_an_option_without_an_effect_is_refused(
    toolroute: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], refused: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_text("")
    result = toolroute(*command, "--catalogue", CATALOGUE)
    assert result.exit_code == 2
    assert refused in result.stderr


def test_a_broken_catalogue_ends_with_2_and_a_store_that_is_away_with_1(tmp_path: Path, toolroute: Run) -> None:
    (tmp_path / "tools.jsonl").write_text('{"name": "a"}\n{"name": \n', encoding="utf-8")
    done = toolroute("route", "q", "--catalogue", str(tmp_path), "-o", "json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{tmp_path / 'tools.jsonl'}:2: not JSON" in done.stderr
    done = toolroute("route", "q", "--store", "http://127.0.0.1:9", "-o", "json")
    assert (done.exit_code, done.stdout, done.stderr[:11]) == (1, "", "toolroute: ")


def test_a_port_that_is_taken_and_a_host_that_is_not_ours_have_each_their_remedy(
    toolroute: Run, mcp_file: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = toolroute("serve", "--transport", "http", "--port", port)
    assert f"cannot listen on 127.0.0.1:{port} (Address already in use): give another --port" in refused.stderr
    elsewhere = toolroute("serve", "--transport", "http", "--host", "192.0.2.1")
    assert (elsewhere.exit_code, elsewhere.stderr.strip()[-19:]) == (2, "give another --host")


def test_every_command_is_summed_up_in_the_help_without_being_cut(toolroute: Run) -> None:
    for group in ((), ("tools",), ("runs",)):
        listed = toolroute(*group, "--help").stdout.partition("Commands:")[2]
        assert len(listed.splitlines()) > 3
        assert "..." not in listed


def test_the_list_of_commands_says_what_each_help_begins_with() -> None:
    with click.Context(cli) as context:
        for name, (_, line) in COMMANDS.items():
            command = cli.get_command(context, name)
            assert command is not None
            assert line == command.get_short_help_str(100)


def test_the_list_of_commands_loads_none_of_them() -> None:
    listing = "import orchestrator.cli as c; c.cli(['--help'], standalone_mode=False)"
    assert not {
        "orchestrator.cli.shared.command_options",
        "orchestrator.cli.shared.workspace",
        "numpy",
        "pydantic",
        "rich",
    } & loaded(listing, whole=True)


# --- standard output
