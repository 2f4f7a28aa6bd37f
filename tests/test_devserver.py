import asyncio
from pathlib import Path

import pytest

from orchestrator.cli.temporal import connect, temporal_server
from orchestrator.options import Options
from orchestrator.temporal.devserver import dev_server, kept_binary


async def test_an_address_that_is_set_is_used_and_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "temporal.example:7233")
    async with dev_server() as address:
        assert address == "temporal.example:7233"


async def test_a_server_answers_on_loopback_keeps_quiet_and_is_gone_afterwards(
    temporal_address: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    async with temporal_server(Options(temporal_namespace="desk.a1b2c"), dev=True) as to:
        host, _, port = to.address.rpartition(":")
        assert (host, to.namespace) == ("127.0.0.1", "desk.a1b2c")
        await connect(to)
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.open_connection(host, int(port))
    assert capfd.readouterr().out == ""


def test_a_kept_binary_is_found_only_when_it_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kept_binary() is None
    monkeypatch.setattr("orchestrator.temporal.devserver._cache", lambda: tmp_path)
    kept = tmp_path / "temporal"
    kept.write_text("#!/bin/sh\n")
    assert kept_binary() is None
    kept.chmod(0o755)
    assert kept_binary() == str(kept)
