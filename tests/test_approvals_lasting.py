"""Lasting approvals keep what each writer wrote."""

import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.trust.approvals import Approvals
from tests.catalogues import tool

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the settings are found by XDG_CONFIG_HOME")


@pytest.fixture
def approvals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Approvals:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return Approvals("local")


def _allow(number: int) -> None:
    Approvals("local").allow([tool(f"desk:tool_{number}")], "entry")


@LINUX
@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_approvals_at_the_same_time_are_all_kept(
    pool: type[ThreadPoolExecutor | ProcessPoolExecutor], approvals: Approvals
) -> None:
    with pool(8) as writers:
        list(writers.map(_allow, range(40)))
    assert approvals.read().keys() == {f"desk:tool_{number}" for number in range(40)}


@LINUX
def test_an_allow_does_not_undo_a_withdrawal(approvals: Approvals) -> None:
    _allow(0)
    with ThreadPoolExecutor(8) as threads:
        withdrawn = threads.submit(approvals.withdraw, ["desk:tool_0"])
        list(threads.map(_allow, range(1, 20)))
    assert withdrawn.result() == ["desk:tool_0"]
    assert "desk:tool_0" not in approvals.read()
