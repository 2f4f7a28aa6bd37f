"""The audit log: the actor, the action and the tool of each line, without values. A missing line shows."""

import asyncio
import json
import os
import subprocess
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import portalocker
import pytest
from mcp import MCPError
from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from tests.catalogues import tool, write_tools
from tests.command_line import COMMAND, Run, audited, trusting
from tests.servers.start import text_of
from tests.test_serve_approvals import asking
from tests.test_serve_offers import FIRST
from tests.test_serve_shown import read_on, rows, served


class Log:
    """An audit log that commands write."""

    def __init__(self, folder: Path, toolroute: Run) -> None:
        self.folder, self._toolroute = folder, toolroute

    def write(self, count: int = 4) -> None:
        """Write so many lines: the import of a catalogue writes one for each server."""
        assert self._toolroute("tools", "import", catalogue_of(count, self.folder.parent)).exit_code == 0

    def verify(self) -> tuple[int, int, list[str]]:
        """The number of lines, the number of the first line, and what is wrong."""
        ran = self._toolroute("audit", "verify", "-o", "json")
        found = json.loads(ran.stdout)
        assert ran.exit_code == bool(found["problems"])
        return found["lines"], found["first"], found["problems"]

    @property
    def problems(self) -> list[str]:
        return self.verify()[2]

    @property
    def files(self) -> list[Path]:
        """The oldest first."""
        return sorted(self.folder.glob("audit*.jsonl"))

    @property
    def lines(self) -> list[bytes]:
        """The lines of the newest file."""
        return self.files[-1].read_bytes().splitlines(keepends=True)

    def keep(self, lines: Sequence[bytes]) -> None:
        self.files[-1].write_bytes(b"".join(lines))


def catalogue_of(servers: int, folder: Path) -> Path:
    return write_tools(folder / f"{servers}.jsonl", [tool(f"send_{n}:mail", "Send") for n in range(servers)])


@pytest.fixture
def log(tmp_path: Path, toolroute: Run, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setenv("TOOLROUTE_AUDIT", str(tmp_path / "audit"))
    monkeypatch.setenv("TOOLROUTE_STORE", str(tmp_path / "store"))
    return Log(tmp_path / "audit", toolroute)


def test_processes_write_one_chain_side_by_side(log: Log, tmp_path: Path) -> None:
    importing = [COMMAND, "tools", "import", catalogue_of(25, tmp_path)]
    stores = [{**os.environ, "TOOLROUTE_STORE": str(tmp_path / f"store{number}")} for number in range(3)]
    writers = [subprocess.Popen(importing, env=store, stdout=subprocess.DEVNULL) for store in stores]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    assert log.verify() == (75, 1, [])
    assert [line["n"] for line in audited(log.folder)] == [*range(1, 76)]


@pytest.mark.parametrize(
    ("left", "problem"),
    [
        ([0, 2, 3], "number 3 comes after number 1: lines were removed"),
        (
            [0, 1, 2],
            "line number 3 is not the last written line (number 4): lines were removed or changed",
        ),
        ([1, 2, 3], "the first line has number 2 instead of 1: lines were removed"),
        ([0, 2, 1, 3], "number 3 comes after number 1"),
        ([], "line number 0 is not the last written line (number 4)"),
    ],
)
def test_a_removed_line_shows(log: Log, left: list[int], problem: str) -> None:
    log.write()
    written = log.lines
    log.keep([written[number] for number in left])
    assert problem in " ".join(log.problems)
    log.write(1)
    assert log.problems, "a later line does not hide it"


def test_a_log_that_was_removed_with_its_head_shows(log: Log) -> None:
    log.folder.mkdir()
    assert log.verify() == log.verify() == (0, 0, [])
    log.write()
    for file in (*log.files, log.folder / "head.json"):
        file.unlink()
    assert log.verify() == (0, 0, ["the audit log is empty, but lines were written to it: they were removed"])


def test_a_changed_line_shows(log: Log) -> None:
    log.write()
    written = log.lines
    for place in range(4):
        log.keep([line.replace(b"send_", b"read_") if at == place else line for at, line in enumerate(written)])
        assert log.problems, place


def test_a_log_is_rotated_and_only_its_user_reads_it(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.trust.audit.MAX_BYTES", 1_000)
    monkeypatch.setattr("orchestrator.trust.audit.MAX_FILES", 2)
    log.write(1)
    left_by_killed_writer = log.folder / "head.json.ab12.tmp"
    left_by_killed_writer.touch()
    log.write(40)
    assert not left_by_killed_writer.exists()
    _, first, problems = log.verify()
    assert (len(log.files) <= 3, first > 1, problems) == (True, True, [])
    assert [line["n"] for line in audited(log.folder)] == [*range(first, 42)]
    assert {path.stat().st_mode & 0o777 for path in (*log.files, log.folder / "head.json")} == {0o600}
    assert log.folder.stat().st_mode & 0o777 == 0o700
    log.files[0].unlink()
    assert "lines were removed" in log.problems[0]


def test_a_line_that_was_cut_off_ends_no_later_one(log: Log, toolroute: Run) -> None:
    log.write(2)
    cut = b'{"n": 3, "ev'
    with log.files[-1].open("ab") as file:
        file.write(cut)
    log.write(2)
    listed = toolroute("audit", "list", "-o", "json").stdout
    assert [line["n"] for line in json.loads(listed)["lines"]] == [1, 2, 3, 4]
    assert log.problems == [], "its writer was killed, and the next line names it"
    log.keep([line.replace(cut, b'{"n": 3, "xx') for line in log.lines])
    assert log.problems


def test_a_line_that_its_killed_writer_did_not_finish_is_no_fraud(log: Log) -> None:
    log.write(2)
    head = (log.folder / "head.json").read_bytes()
    log.write(1)
    (log.folder / "head.json").write_bytes(head)
    assert log.verify() == (3, 1, [])
    with log.files[-1].open("ab") as file:
        file.write(b'{"n": 4, "ev')
    assert log.problems == []


async def test_a_held_lock_delays_no_client_and_loses_no_line(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.trust.audit.WAIT_S", 120)  # A busy machine answers slowly.
    async with asking(tmp_path, "auto", audit=log.folder) as (client, _, _):
        log.folder.mkdir()
        with portalocker.Lock(log.folder / "lock", "a+b", flags=portalocker.LockFlags.EXCLUSIVE):
            async with asyncio.timeout(150):
                for _ in range(3):
                    await client.call_tool("search", {"query": "add two numbers"})
            assert not log.files
    assert await asyncio.to_thread(log.verify) == (3, 1, [])


def test_a_file_that_cannot_be_read_is_one_clear_error(log: Log, toolroute: Run) -> None:
    log.write()
    (log.folder / "audit-000000000000.jsonl").symlink_to("/dev/zero")
    for command in ("verify", "list"):
        ran = toolroute("audit", command)
        assert (ran.exit_code, "a file of the audit log cannot be read: " in ran.stderr) == (2, True)


def test_a_line_without_an_end_is_not_read_at_once(log: Log, toolroute: Run) -> None:
    log.write()
    os.truncate(log.files[0], 100_000_000)
    tracemalloc.start()
    try:
        assert "4 lines" in toolroute("audit", "list").stderr
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_what_cannot_be_written_is_an_error_in_the_log(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    log.folder.write_text("")
    log.write(1)
    assert "was not written (configuration of local)" in caplog.text


@pytest.mark.usefixtures("own_settings")
async def test_serve_writes_searches_calls_and_approvals_without_values(log: Log, tmp_path: Path) -> None:
    answers: Any = [("decline", {}), ("accept", {"allow": "this tool"})]
    async with asking(tmp_path, "auto", *answers, audit=log.folder) as (client, _, _):
        await client.call_tool("search", {"query": "add 471104711 and two numbers"})
        call = {"tool": "quick:add", "arguments": {"a": 471104711, "b": 471104722}}
        for _ in range(3):
            answer = await client.call_tool("call_tool", call)
        assert text_of(answer) == "942209433"
        await client.call_tool("call_tool", {"tool": "quick:nothing-471104711"})
        await client.call_tool("call_tool", {"tool": "quick:add", "arguments": {"a": "471104711 apples", "b": 1}})
    *found, unknown, unfit = audited(log.folder)
    refused = [(line["event"], line["tool"], line["approval"], line["result"]) for line in (unknown, unfit)]
    assert refused == [("call", "", "not asked", "UnknownTool"), ("call", "quick:add", "not asked", "InvalidArguments")]
    assert [(line["event"], line["approval"], line["result"]) for line in found] == [
        ("search", "", "ok"),
        ("approval", "declined", "ok"),
        ("call", "declined", "NeedsApproval"),
        ("approval", "this tool", "ok"),
        ("call", "this tool", "ok"),
        ("call", "kept", "ok"),
    ]
    assert {line["tenant"] for line in found} == {"org:1"}
    assert len({line["arguments"] for line in found[1:]} | {found[1]["arguments"]}) == 1
    assert {line["decision"] for line in found if line["event"] in ("search", "call")} == {found[0]["decision"]}
    assert (found[-1]["bytes"], found[-1]["ms"] > 0) == (9, True)
    assert not any(value in json.dumps(found) for value in ("471104711", "942209433", "numbers"))
    assert "471104711" not in json.dumps([unknown, unfit])
    assert await asyncio.to_thread(log.verify) == (len(found) + 2, 1, [])


async def test_serve_writes_what_was_read_without_values(log: Log, tmp_path: Path) -> None:
    async with served(tmp_path, audit=log.folder) as client:
        await client.call_tool("search", {"query": "", "describe": ["talking:rows"]})
        await client.read_resource(FIRST)
        await client.get_prompt("talking:write", {"topic": "471104711"})
        for missing in (
            client.read_resource("toolroute://talking-471104711/x"),
            client.get_prompt("talking:471104711"),
        ):
            with pytest.raises(MCPError):
                await missing
        await client.call_tool("search", {"query": "rows"})
        result = await rows(client, 2_000)
        await read_on(client, result, find="word 1999")
    found = [(line["event"], line["server"], line["tool"], line["result"]) for line in audited(log.folder)]
    assert found == [
        ("describe", "", "talking:rows", "ok"),
        ("resource", "talking", "", "ok"),
        ("prompt", "talking", "", "ok"),
        ("resource", "", "", "MCPError"),
        ("prompt", "", "", "MCPError"),
        ("search", "", "", "ok"),
        ("call", "talking", "talking:rows", "ok"),
        ("result", "", "", "ok"),
    ]
    assert not any(value in json.dumps(audited(log.folder)) for value in ("471104711", "memo", "word"))


def test_commands_write_and_list_and_a_removed_line_fails_the_check(log: Log, toolroute: Run, mcp_file: Path) -> None:
    assert toolroute("tools", "sync", mcp_file).exit_code == 0
    assert (
        toolroute("call", "quick:add", "--config", mcp_file, "--args", '{"a": 471104711, "b": 1}').stdout
        == "471104712\n"
    )
    assert trusting(toolroute, "tools", "accept", "quick:add").exit_code == 0
    listed = toolroute("audit", "list", "-o", "jsonl").stdout
    found = [json.loads(line) for line in listed.splitlines()]
    assert [(line["event"], line["tool"], line["result"]) for line in found] == [
        ("configuration", "", "synced"),
        ("call", "quick:add", "ok"),
        ("acceptance", "quick:add", "ok"),
    ]
    assert "471104711" not in listed
    assert toolroute("audit", "list", "--event", "call", "--tenant", "local").stdout.count("quick:add") == 1
    assert toolroute("audit", "verify").stdout == "3 lines, from number 1 on\n"
    log.keep([log.lines[0], log.lines[2]])
    broken = toolroute("audit", "verify")
    assert (broken.exit_code, "lines were removed" in broken.stderr) == (1, True)


def test_a_call_of_an_unknown_name_is_noted_without_it(log: Log, toolroute: Run, mcp_file: Path) -> None:
    for key in ("471104711:add", "quick:471104711"):
        assert toolroute("call", key, "--config", mcp_file).exit_code != 0
    servers = [(line["server"], line["result"]) for line in audited(log.folder)]
    assert servers == [("", "UnknownTool"), ("quick", "UnknownTool")]
    assert "471104711" not in json.dumps(audited(log.folder))


def test_each_line_is_a_log_record_of_opentelemetry(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: Any = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    monkeypatch.setattr(_logs, "get_logger", lambda name: provider.get_logger(name))
    log.write(1)
    [record] = [own.log_record for own in kept.get_finished_logs()]
    assert record.event_name == "toolroute.audit.configuration"
    assert record.attributes["toolroute.server"] == "send_0"
