"""`serve` names the servers that it could not list, answers without them, and takes them in when they are there."""

import asyncio
from pathlib import Path

import pytest

from orchestrator import unlisted
from orchestrator.errors import ServerUnavailable, UnknownTool
from orchestrator.models import RouteHint
from tests.servers.start import config, entry, free_port, running, text_of
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
