"""`serve` names the servers that it could not list, answers without them, and takes them in when they are there."""

import asyncio
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.errors import ServerUnavailable, UnknownTool
from orchestrator.mcp.config import McpConfig
from orchestrator.records.request import RouteHint
from orchestrator.server import gateway as unlisted
from tests.catalogues import tool
from tests.servers.start import HERE, config, entry, free_port, running, text_of
from tests.test_gateway import QUICK, gateway

SILENT = entry("faulty.py", "mute", own={"connect_timeout_s": 60})


async def test_a_server_that_comes_up_late_is_named_until_then_and_found_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unlisted, "_AGAIN_S", 0.0)
    port, notes = free_port(), list[str]()
    web = {"url": f"http://127.0.0.1:{port}/mcp"}
    async with gateway(tmp_path, config(quick=QUICK, web=web), note=notes.append, backoff_s=0.01) as served:
        for _ in range(3):
            found = await served.search("org:1", "add two numbers", 5, RouteHint.AUTO)
            assert found["matches"][0]["tool"] == "quick:add"
            (warning,) = found["warnings"]
            assert "server 'web'" in warning
            assert "cannot be reached" in warning
            with pytest.raises(ServerUnavailable, match=r"server 'web': it could not be listed .*cannot be reached"):
                await served.call("org:1", "web:add", {"a": 1, "b": 2})
        assert len([note for note in notes if note.startswith("web")]) == 1
        async with running("plain.py", port):
            while found["warnings"]:
                await asyncio.sleep(0.02)
                found = await served.search("org:1", "add two numbers", 5, RouteHint.AUTO)
            assert "web:add" in [match["tool"] for match in found["matches"]]
            assert text_of(await served.call("org:1", "web:add", {"a": 1, "b": 2})) == "3"


async def test_one_wait_for_a_server_that_hangs_not_one_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path, config(quick=QUICK, silent=SILENT)) as served:
        monkeypatch.setattr(unlisted, "_WAIT_S", 3.0)
        await served.search("org:1", "add two numbers", 5, RouteHint.AUTO)
        monkeypatch.setattr(unlisted, "_WAIT_S", 1_000.0)
        async with asyncio.timeout(50):
            found = await served.search("org:1", "add two numbers", 5, RouteHint.AUTO)
            assert found["matches"][0]["tool"] == "quick:add"
            assert found["warnings"] == ["the tools of server 'silent' are not among these: it is still being listed"]
            with pytest.raises(UnknownTool, match="no tool 'quick:ad'"):
                await served.call("org:1", "quick:ad", {})


async def test_a_configuration_that_changes_while_a_search_waits_fails_no_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unlisted, "_WAIT_S", 6.0)
    coming = [None, McpConfig.parse(config(quick=QUICK))]
    async with gateway(
        tmp_path, config(quick=QUICK, silent=SILENT), changed=lambda: coming.pop(0) if coming else None
    ) as served:
        waiting = asyncio.create_task(served.search("org:1", "add two numbers", 5, RouteHint.AUTO))
        await asyncio.sleep(0.5)
        for found in (await served.search("org:1", "add two numbers", 5, RouteHint.AUTO), await waiting):
            assert found["matches"][0]["tool"] == "quick:add"


async def test_a_server_that_hangs_delays_no_call_of_a_known_tool_and_a_search_little(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(quick=QUICK)) as served:
        await served.search("org:1", "add two numbers", 5, RouteHint.AUTO)
    async with gateway(tmp_path, config(quick=QUICK, silent=SILENT)) as served:
        async with asyncio.timeout(15):
            assert text_of(await served.call("org:1", "quick:add", {"a": 1, "b": 2})) == "3"
            assert "silent" not in {state["server"] for state in await served.states("org:1") if state["last_error"]}
            found = await served.search("org:1", "add two numbers", 5, RouteHint.AUTO)
        assert found["matches"][0]["tool"] == "quick:add"
        assert found["warnings"] == ["the tools of server 'silent' are not among these: it is still being listed"]


async def test_a_call_waits_for_the_listing_of_its_own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlisted, "_WAIT_BESIDE_S", 0.01)
    async with gateway(tmp_path, config(quick=QUICK)) as served:
        await served.search("org:1", "add two numbers", 5, RouteHint.AUTO)
    async with gateway(tmp_path, config(quick=QUICK, more=entry("quick.py"))) as served:
        assert text_of(await served.call("org:1", "more:add", {"a": 1, "b": 2})) == "3"


async def test_a_server_that_fails_on_is_tried_more_and_more_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unlisted, "_AGAIN_S", 0.2)
    monkeypatch.setattr(unlisted, "_AGAIN_AT_MOST_S", 0.8)
    bad = {"command": "sh", "args": ["-c", f"read line; date +%s.%N >> {tmp_path}/tries; exit 1"]}
    async with gateway(tmp_path, config(bad=bad), backoff_s=0.01) as served:
        begin = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() < begin + 5:
            await served.search("org:1", "anything", 1, RouteHint.KEYWORD)
            await asyncio.sleep(0.02)
    # Since it has read a request, each try starts it twice.
    starts = [float(line) for line in (tmp_path / "tries").read_text().split()][::2]
    pauses = [after - before for before, after in pairwise(starts)]
    assert 4 <= len(pauses) <= 8
    assert all(pause >= least for pause, least in zip(pauses, (0.2, 0.4, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8), strict=False))


async def test_another_projects_server_of_the_same_name_is_listed_before_the_first_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unlisted, "_WAIT_BESIDE_S", 20.0)
    async with gateway(tmp_path, config(db=QUICK, quick=QUICK)) as served:
        found = await served.search("org:1", "the process id", 20, RouteHint.SEMANTIC)
        assert {"db:pid", "db:crash_once"} <= {match["tool"] for match in found["matches"]}
    other = entry("faulty.py", "restart")
    async with gateway(tmp_path, config(db=other, quick=QUICK)) as served:
        found = await served.search("org:1", "the other tool", 20, RouteHint.SEMANTIC)
        assert {match["tool"] for match in found["matches"] if match["tool"].startswith("db:")} == {"db:it", "db:other"}
        with pytest.raises(UnknownTool):
            await served.call("org:1", "db:pid", {})
    async with gateway(tmp_path, config(db={"command": "false"}, quick=QUICK)) as served:
        found = await served.search("org:1", "the other tool", 20, RouteHint.SEMANTIC)
        assert "db" not in {match["tool"].partition(":")[0] for match in found["matches"]}
        assert any("server 'db'" in warning for warning in found["warnings"])


async def test_an_entry_that_chooses_other_tools_has_its_server_listed_again_and_hides_nothing(tmp_path: Path) -> None:
    for script in ("quick.py", "byhand.py"):
        shutil.copy(HERE / script, tmp_path)
    db = QUICK | {"args": [str(tmp_path / "quick.py")]}
    async with gateway(tmp_path, config(db=db | {"disabledTools": ["pid"]}, quick=QUICK)) as served:
        with pytest.raises(UnknownTool):
            await served.call("org:1", "db:pid", {})
    async with gateway(tmp_path, config(db=db, quick=QUICK)) as served:
        assert text_of(await served.call("org:1", "db:pid", {})).isdigit()
    (tmp_path / "quick.py").unlink()
    async with gateway(tmp_path, config(db=db | {"disabledTools": ["crash"]}, quick=QUICK)) as served:
        found = await served.search("org:1", "the process id", 20, RouteHint.SEMANTIC)
        assert {"db:pid", "quick:pid"} <= {match["tool"] for match in found["matches"]}
        assert found["warnings"] == []


async def test_what_an_entry_chooses_besides_is_found_as_soon_as_its_server_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unlisted, "_AGAIN_S", 0.0)
    port = free_port()
    web = {"url": f"http://127.0.0.1:{port}/mcp"}

    async def found() -> set[str]:
        return {match["tool"] for match in (await served.search("org:1", "id", 20, RouteHint.SEMANTIC))["matches"]}

    async with running("plain.py", port), gateway(tmp_path, config(web=web | {"disabledTools": ["pid"]})) as served:
        assert {"web:add", "web:pid"} & await found() == {"web:add"}
    notes = list[str]()
    async with gateway(tmp_path, config(web=web), note=notes.append, backoff_s=0.01) as served:
        for _ in range(3):
            assert {"web:add", "web:pid"} & await found() == {"web:add"}
        async with running("plain.py", port), asyncio.timeout(30):
            while "web:pid" not in await found():  # noqa: ASYNC110 (no event tells it)
                await asyncio.sleep(0.02)
    assert ["cannot be reached" in note for note in notes] == [True, False]


async def test_a_server_that_was_stored_without_an_entry_is_known_by_its_name(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(quick=QUICK)) as served:
        stored = tool("quick:add", "Add two numbers")
        await asyncio.to_thread(served._store.replace_server, "org:1", "quick", [stored])
        await served.search("org:1", "add two numbers", 20, RouteHint.AUTO)
        assert await asyncio.to_thread(served._store.servers, "org:1") == {"quick": 1}
