"""The README's code blocks run as they stand."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT, printed, python_of

BLOCKS = python_of("README.md")


def test_the_readme_has_a_prepass_and_a_workflow_and_both_are_short() -> None:
    prepass, agent, workflow = ([line for line in block.splitlines() if line.strip()] for block in BLOCKS)
    assert len(prepass) <= 11
    assert len(agent) <= 5
    assert len(workflow) <= 20


def test_the_prepass_prints_a_decision(tmp_path: Path) -> None:
    output = printed(BLOCKS[0], tmp_path)
    assert "stripe:refund_charge" in output
    assert "10 tools" in output


def test_the_agent_of_the_page_can_be_defined(tmp_path: Path) -> None:
    assert printed(f"{BLOCKS[1]}\nprint(assistant.__name__)", tmp_path) == "assistant\n"


def _sync(store: Path) -> None:
    command = ["-m", "orchestrator", "tools", "sync", "--config", "examples/mcp.json", "--store", str(store)]
    subprocess.run(
        [sys.executable, *command, "--organization", "acme"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )


@pytest.mark.slow
async def test_the_workflow_carries_out_its_task(tmp_path: Path, temporal_address: str) -> None:
    store = tmp_path / "tools"
    await asyncio.to_thread(_sync, store)
    code = (
        BLOCKS[2]
        .replace("localhost:7233", temporal_address)
        .replace('store=".toolroute/tools"', f"store={str(store)!r}")
    )
    assert '"words": ' in await asyncio.to_thread(printed, code, tmp_path)
