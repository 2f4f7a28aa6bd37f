"""What commands print: whole, exact for programs, and plain for a terminal."""

import json
import os
import pty
import re
import subprocess
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import Relation
from tests.catalogues import taking, tool, write_tools
from tests.command_line import COMMAND, Run, program
from tests.qdrant_front import qdrant_front
from tests.servers.start import config
from tests.test_cli import CATALOGUE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_full_disk_ends_with_1_and_says_that_the_result_is_incomplete(output: str) -> None:
    bare = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}  # PYTHONUNBUFFERED hides it.
    with Path("/dev/full").open("w") as full:
        command = [COMMAND, "route", "refund", "--catalogue", CATALOGUE, "-o", output]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=150, env=bare)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["toolroute: No space left on device: the result is incomplete"]


@pytest.mark.parametrize(("closed", "output"), [((1,), "json"), ((2,), "openai"), ((0, 1, 2), "mcp")])
def test_a_closed_stream_leads_nowhere_and_the_others_stay(closed: tuple[int, ...], output: str) -> None:
    command = [COMMAND, "route", "refund the charge", "--catalogue", CATALOGUE, "-o", output]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=150, preexec_fn=lambda: [*map(os.close, closed)]
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert bool(ran.stdout) == (1 not in closed)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_standard_output_cannot_hold_is_no_traceback_and_leaves_the_json_whole(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    query = "refund the charge ☕"
    assert program("route", query, "--catalogue", CATALOGUE).returncode == 0
    done = program("route", os.fsdecode(b"refund \xff the charge"), "--catalogue", CATALOGUE, "-o", "json")
    assert (done.returncode, json.loads(done.stdout)["recommended"]) == (0, ["stripe:refund_charge"])


KEY = "ev\x1b[31mil:do_\x1b[2Jthing\nok"


WORDS = "Wash the \x1b]0;owned\x07laundry of \u202ea house \x9b31m[/red] :smile:"


QUERY = "wash\x1b[2J the\nlaundry\r of a house"


SIGNS = [sign for sign in map(chr, range(0x3000)) if unicodedata.category(sign) in ("Cc", "Zl", "Zp")] + [
    "\u202e",
    "\r\n",
]


FORGED = "FORGED done"


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "tools.jsonl"
    tools = [tool(KEY, WORDS), tool("stove:cook", "Cook a meal"), tool("ev\x1b[31mil:one", "List the vault")]
    for number, sign in enumerate(SIGNS):
        words = f"Wash the laundry{sign}{FORGED}"
        own = tool("ev:do", words, keywords=(words,), labels={f"a{sign}{FORGED}": words}, input_schema=taking(words))
        own = replace(own, relations=(Relation(to="stove:cook", type=f"like{sign}{FORGED}"),))
        tools.append(replace(own, server=f"ev{number}{sign}{FORGED}", name=f"wash{sign}{FORGED}"))
    write_tools(path, tools)
    return path


def assert_lines_are_our_own(shown: str) -> None:
    """No sign that moves the cursor, and no line that a tool's text begins."""
    assert [sign for sign in SIGNS if sign not in "\n\t" and sign in shown] == []
    assert [line for line in shown.splitlines() if line.startswith(FORGED)] == []


@pytest.mark.parametrize("command", ["tools list", "route", "explain", "plan --limit 50", "tools graph"])
def test_no_sign_of_a_tool_or_a_task_reaches_the_terminal(command: str, catalogue: Path, toolroute: Run) -> None:
    query = () if command.startswith("tools") else (QUERY,)
    found = toolroute(*command.split(), *query, "--catalogue", catalogue)
    shown = found.stdout + found.stderr
    assert_lines_are_our_own(shown)
    assert "evil:" in shown or "graph" in command
    if command == "explain":
        assert "[/red] :smile:" in shown, "no markup is read in texts"
        assert shown.splitlines()[0].rstrip() == "wash the laundry of a house"


def test_no_sign_of_a_tool_reaches_the_terminal_from_a_store_or_an_error(
    catalogue: Path, toolroute: Run, mcp_file: Path
) -> None:
    broken = config(
        **{f"ev{number}{sign}{FORGED}": {"command": f"no{sign}{FORGED}"} for number, sign in enumerate(SIGNS[:40])}
    )
    mcp_file.write_text(json.dumps(broken))
    server, key = f"ev10\n{FORGED}", f"ev10\n{FORGED}:wash\n{FORGED}"
    assert SIGNS[10] == "\n"
    for command in (
        ("tools", "import", catalogue),
        ("doctor", "--config", mcp_file),
        ("tools", "show", key),
        ("tools", "show", key[:-1]),
        ("tools", "list", "--server", server[:-1]),
        ("call", key),
        ("servers",),
        ("tools", "sync"),
        ("tools", "remove", server[:-1]),
        ("tools", "remove", server),
    ):
        found = toolroute(*command)
        assert_lines_are_our_own(found.stdout + found.stderr)
        assert re.search(r"ev\d|servers?", found.stdout + found.stderr), command


def test_json_is_exact_and_escapes_every_sign(catalogue: Path, toolroute: Run) -> None:
    for form in ("json", "jsonl"):
        shown = toolroute("tools", "list", "--catalogue", catalogue, "-o", form).stdout
        assert [sign for sign in SIGNS if sign != "\n" and sign in shown] == []
        printed = json.loads(shown)["tools"] if form == "json" else [json.loads(line) for line in shown.splitlines()]
        assert (KEY, WORDS) in {(own["server"] + ":" + own["name"], own["description"]) for own in printed}


def test_a_text_is_exact_in_a_file_and_plain_on_a_terminal(catalogue: Path) -> None:
    asked = ("route", QUERY, "--catalogue", str(catalogue), "-o", "markdown", "--limit", "50")
    written = program(*asked).stdout
    assert "\x9b" in written
    assert f"\n{FORGED}" not in written
    ours, its = pty.openpty()
    command = subprocess.Popen([COMMAND, *asked], stdout=its, stderr=its, env={**os.environ, "TERM": "dumb"})
    os.close(its)
    shown = b""
    try:
        while read := os.read(ours, 65_536):
            shown += read
    except OSError:  # The other end is closed.
        pass
    os.close(ours)
    command.wait(60)
    assert b"laundry" in shown
    assert [sign for sign in SIGNS if sign not in "\n\t" and sign in shown.decode().replace("\r\n", "\n")] == []


def test_the_warning_of_a_library_is_a_line_like_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with qdrant_front(key="right") as front:
        monkeypatch.setenv("QDRANT_API_KEY", "right")
        listed = program("tools", "list", "--store", front.url)
    assert listed.stderr.splitlines()[0] == (
        "toolroute: the store's key is sent without encryption: use an https:// address"
    )
