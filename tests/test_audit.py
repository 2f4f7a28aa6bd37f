"""The audit log: the actor, the action and the tool of each line, without values. A missing line shows."""

import asyncio
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import portalocker
import pytest
from mcp import MCPError
from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from orchestrator.trust import audit
from orchestrator.trust.audit import Audit, Entry
from tests.command_line import Run, trusting
from tests.servers.start import text_of
from tests.test_serve import asking
from tests.test_serve_offers import FIRST
from tests.test_serve_shown import read_on, rows, served


@pytest.fixture
def log(tmp_path: Path) -> Audit:
    return Audit(tmp_path / "audit")


def write(folder: Path, count: int = 4) -> None:
    for number in range(count):
        Audit(folder).write(Entry(event="call", tenant="org:1", tool=f"mail:send_{number}"))


def lines(log: Audit) -> list[bytes]:
    return log.files[-1].read_bytes().splitlines(keepends=True)


def test_processes_write_one_chain_side_by_side(log: Audit) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write, args=(log.folder, 25)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert log.verify() == (75, 1, ())
    assert [line["n"] for line in log.read()] == [*range(1, 76)]


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
def test_a_removed_line_shows(log: Audit, left: list[int], problem: str) -> None:
    write(log.folder)
    written = lines(log)
    log.files[-1].write_bytes(b"".join(written[number] for number in left))
    assert problem in " ".join(log.verify().problems)
    write(log.folder, 1)
    assert log.verify().problems, "a later line does not hide it"


def test_a_log_that_was_removed_with_its_head_shows(log: Audit) -> None:
    log.check()
    assert log.verify() == log.verify() == (0, 0, ())
    write(log.folder)
    for file in (*log.files, log.folder / "head.json"):
        file.unlink()
    assert log.verify() == (0, 0, ("the audit log is empty, but lines were written to it: they were removed",))


def test_a_changed_line_shows(log: Audit) -> None:
    write(log.folder)
    written = lines(log)
    for place in range(4):
        changed = [line.replace(b"send_", b"read_") if at == place else line for at, line in enumerate(written)]
        log.files[-1].write_bytes(b"".join(changed))
        assert log.verify().problems, place


def test_a_log_is_rotated_and_only_its_user_reads_it(log: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_BYTES", 1_000)
    monkeypatch.setattr(audit, "MAX_FILES", 2)
    write(log.folder, 40)
    found = log.verify()
    assert (len(log.files) <= 3, found.first > 1, found.problems) == (True, True, ())
    assert [line["n"] for line in log.read()] == [*range(found.first, 41)]
    assert {path.stat().st_mode & 0o777 for path in (*log.files, log.folder / "head.json")} == {0o600}
    assert log.folder.stat().st_mode & 0o777 == 0o700
    log.files[0].unlink()
    assert "lines were removed" in log.verify().problems[0]


def test_a_line_that_was_cut_off_ends_no_later_one(log: Audit) -> None:
    write(log.folder, 2)
    with log.files[-1].open("ab") as file:
        file.write(b'{"n": 3, "ev')
    write(log.folder, 2)
    assert [line["n"] for line in log.read()] == [1, 2, 3, 4]
    assert log.verify().problems == (), "its writer was killed, and the next line names it"
    text = log.files[-1].read_bytes()
    log.files[-1].write_bytes(text.replace(b'{"n": 3, "ev', b'{"n": 3, "xx'))
    assert log.verify().problems


def test_a_line_that_its_killed_writer_did_not_finish_is_no_fraud(log: Audit) -> None:
    write(log.folder, 2)
    head = (log.folder / "head.json").read_bytes()
    write(log.folder, 1)
    (log.folder / "head.json").write_bytes(head)
    assert log.verify() == (3, 1, ())
    with log.files[-1].open("ab") as file:
        file.write(b'{"n": 4, "ev')
    assert log.verify().problems == ()


async def test_a_held_lock_delays_no_event_loop_and_loses_no_line(log: Audit) -> None:
    write(log.folder, 1)
    with portalocker.Lock(log.folder / "lock", "a+b", flags=portalocker.LockFlags.EXCLUSIVE):
        begin = time.monotonic()
        for number in range(20):
            log.note(Entry(event="call", tenant="org:1", tool=f"mail:send_{number}"))
        assert time.monotonic() - begin < 2
        await asyncio.sleep(0.1)
        assert len(lines(log)) == 1
    await asyncio.to_thread(log.flush)
    assert log.verify() == (21, 1, ())


def test_a_file_that_cannot_be_read_is_one_clear_error(
    log: Audit, toolroute: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLROUTE_AUDIT", str(log.folder))
    write(log.folder)
    (log.folder / "audit-000000000000.jsonl").symlink_to("/dev/zero")
    for command in ("verify", "list"):
        ran = toolroute("audit", command)
        assert (ran.exit_code, "a file of the audit log cannot be read: " in ran.stderr) == (2, True)


def test_what_cannot_be_written_is_an_error_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    Audit(tmp_path / "file").write(Entry(event="call", tenant="org:1"))
    assert "was not written (call of org:1)" in caplog.text


async def test_serve_writes_searches_calls_and_approvals_without_values(
    log: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / "settings" / name)
    answers: Any = [("decline", {}), ("accept", {"allow": "this tool"})]
    async with asking(tmp_path, "auto", *answers, audit=log.folder) as (client, _, _):
        await client.call_tool("search", {"query": "add 471104711 and two numbers"})
        call = {"tool": "quick:add", "arguments": {"a": 471104711, "b": 471104722}}
        for _ in range(3):
            answer = await client.call_tool("call_tool", call)
        assert text_of(answer) == "942209433"
        await client.call_tool("call_tool", {"tool": "quick:nothing-471104711"})
        await client.call_tool("call_tool", {"tool": "quick:add", "arguments": {"a": "471104711 apples", "b": 1}})
    *found, unknown, unfit = [*log.read()]
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
    assert log.verify().problems == ()


async def test_serve_writes_what_was_read_without_values(log: Audit, tmp_path: Path) -> None:
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
    found = [(line["event"], line["server"], line["tool"], line["result"]) for line in log.read()]
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
    assert not any(value in json.dumps([*log.read()]) for value in ("471104711", "memo", "word"))


def test_commands_write_and_list_and_a_removed_line_fails_the_check(
    log: Audit, toolroute: Run, mcp_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLROUTE_AUDIT", str(log.folder))
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
    log.files[-1].write_bytes(b"".join(lines(log)[:1] + lines(log)[2:]))
    broken = toolroute("audit", "verify")
    assert (broken.exit_code, "lines were removed" in broken.stderr) == (1, True)


def test_each_line_is_a_log_record_of_opentelemetry(log: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: Any = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    monkeypatch.setattr(_logs, "get_logger", lambda name: provider.get_logger(name))
    log.note(Entry(event="call", tenant="org:1", tool="mail:send"))
    [record] = [own.log_record for own in kept.get_finished_logs()]
    assert (record.event_name, record.attributes["toolroute.tool"]) == ("toolroute.audit.call", "mail:send")
