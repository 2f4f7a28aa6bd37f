"""What a person should know of a run stands in its result, on a real Temporal server."""

from pathlib import Path

from temporalio.client import Client

from orchestrator.temporal.plugin import OrchestratorPlugin
from tests.runner import Runner
from tests.running import Desk
from tests.temporal import working


async def test_a_tenant_whose_catalogue_is_empty_is_told(
    temporal_address: str, task_queue: str, tmp_path: Path
) -> None:
    client = await Client.connect(temporal_address, plugins=[OrchestratorPlugin(store=tmp_path / "store")])
    async with working(client, task_queue):
        result, _ = await Runner(client, task_queue, Desk()).run("Read the file a.txt")
    assert result.decision.warnings
    assert result.warnings == result.decision.warnings
