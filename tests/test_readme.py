"""The README's code blocks run unchanged, and print the output on the page."""

from pathlib import Path

import pytest

from tests.pages import ROOT, fresh_home, printed, prints_what_it_shows, python_of, with_cursor

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = python_of("README.md")
START = """
import asyncio
from temporalio.client import Client
from temporalio.worker import Worker
from orchestrator import OrchestratorPlugin

async def main() -> None:
    client = await Client.connect("ADDRESS", plugins=[OrchestratorPlugin(mcp_servers="examples/mcp.json")])
    async with Worker(client, task_queue="readme", workflows=[Assist]):
        task = "count the words in the file tasks.json"
        print(await client.execute_workflow(Assist.run, task, id="readme-1", task_queue="readme"))

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_the_readme_has_a_prepass_and_a_workflow_and_both_are_short() -> None:
    prepass, workflow = ([line for line in block.splitlines() if line.strip()] for block in BLOCKS)
    assert len(prepass) <= 10
    assert len(workflow) <= 10


def test_the_prepass_prints_what_the_page_shows(tmp_path: Path) -> None:
    shown = TEXT.split(f"{BLOCKS[0]}```\n\n```\n")[1].split("```")[0]
    assert printed(BLOCKS[0], tmp_path) == shown  # Nothing on it depends on the machine, so the figures count, too.


@pytest.mark.slow
def test_setup_takes_the_servers_over_as_the_page_shows(tmp_path: Path) -> None:
    prints_what_it_shows("README.md", with_cursor(tmp_path), only="toolroute setup")


@pytest.mark.slow
def test_a_task_runs_as_the_page_shows(tmp_path: Path, temporal_address: str) -> None:
    environment = fresh_home(tmp_path) | {"TEMPORAL_ADDRESS": temporal_address}
    prints_what_it_shows("README.md", environment, only="toolroute run")
    ran = printed(f"{BLOCKS[1]}\n{START.replace('ADDRESS', temporal_address)}", tmp_path, environment)
    assert '"words": ' in ran
