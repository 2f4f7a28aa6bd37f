"""A worker process that its test kills: over a store, an mcpServers file and the model that the environment names."""

import asyncio
import sys

from temporalio.client import Client

from orchestrator.temporal.plugin import OrchestratorPlugin
from tests.temporal import working


async def main(address: str, task_queue: str, store: str, servers: str) -> None:
    client = await Client.connect(address, plugins=[OrchestratorPlugin(store=store, mcp_servers=servers)])
    async with working(client, task_queue):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
