"""What third parties and tasks say, shown on a terminal: none of their signs reach it, and JSON keeps them exactly."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from orchestrator.catalogue.formats import tool_to_json
from tests.catalogues import tool
from tests.command_line import COMMAND, Run, program

KEY = "ev\x1b[31mil:do_\x1b[2Jthing\nok"
WORDS = "Wash the \x1b]0;owned\x07laundry of \u202ea house \x9b31m[/red] :smile:"
QUERY = "wash\x1b[2J the\nlaundry\r of a house"
SIGNS = ("\x1b", "\x07", "\x9b", "\u202e", "\r", "\x00")


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "tools.jsonl"
    twins = [tool(f"ev\x1b[31mil:{name}", "List everything that is kept in the vault") for name in ("one", "two")]
    others = [tool("stove:cook", "Cook a meal"), *twins]
    path.write_text("".join(json.dumps(tool_to_json(own)) + "\n" for own in (tool(KEY, WORDS), *others)))
    return path


def on_a_terminal(*arguments: str) -> str:
    """What the command writes to a terminal, as it is."""
    ours, its = pty.openpty()
    command = subprocess.Popen([COMMAND, *arguments], stdout=its, stderr=its, env={**os.environ, "TERM": "dumb"})
    os.close(its)
    shown = b""
    try:
        while read := os.read(ours, 65_536):
            shown += read
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    command.wait(60)
    return shown.decode()


@pytest.mark.parametrize(
    "command",
    [("tools", "list"), ("route", QUERY), ("explain", QUERY), ("plan", QUERY), ("doctor",)],
    ids=lambda command: command[0],
)
def test_no_sign_of_a_tool_or_a_task_reaches_the_terminal(
    command: tuple[str, ...], catalogue: Path, toolroute: Run
) -> None:
    found = toolroute(*command, "--catalogue", catalogue)
    shown = found.stdout + found.stderr
    assert "ev[31mil:" in shown
    assert [sign for sign in SIGNS if sign in shown] == []


def test_a_query_of_several_lines_is_one_line_of_the_answer(catalogue: Path, toolroute: Run) -> None:
    lines = toolroute("route", QUERY, "--catalogue", catalogue).stdout.splitlines()
    assert lines[0].rstrip() == "wash[2J the laundry of a house"
    assert lines[1].startswith("  no tool fits")


def test_what_looks_like_markup_is_shown_as_it_is(catalogue: Path, toolroute: Run) -> None:
    assert "[/red] :smile:" in toolroute("explain", QUERY, "--catalogue", catalogue).stdout


def test_a_warning_that_names_what_was_asked_for_is_plain(catalogue: Path, toolroute: Run) -> None:
    found = toolroute("route", "wash it", "--catalogue", catalogue, "--filter", "kind=\x1b[2J", "-o", "json")
    assert "no tool is left by kind=[2J" in found.stderr


def test_json_is_exact_and_escapes_every_sign(catalogue: Path, toolroute: Run) -> None:
    for form in ("json", "jsonl"):
        shown = toolroute("tools", "list", "--catalogue", catalogue, "-o", form).stdout
        assert [sign for sign in SIGNS if sign in shown] == []
        told = json.loads(shown)["tools"] if form == "json" else [json.loads(line) for line in shown.splitlines()]
        assert {(own["server"] + ":" + own["name"], own["description"]) for own in told} >= {(KEY, WORDS)}
    assert json.loads(toolroute("route", QUERY, "--catalogue", catalogue, "-o", "json").stdout)["query"] == QUERY


def test_a_text_is_exact_in_a_file_and_plain_on_a_terminal(catalogue: Path) -> None:
    asked = ("route", QUERY, "--catalogue", str(catalogue), "-o", "markdown")
    assert "\x9b" in program(*asked).stdout
    shown = on_a_terminal(*asked)
    assert "laundry" in shown
    assert [sign for sign in SIGNS if sign in shown.replace("\r\n", "\n")] == []
