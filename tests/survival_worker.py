"""A worker process that its test kills: each call of a tool is noted in a file as it begins and as it ends."""

import asyncio
import sqlite3
import time
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path

from temporalio.client import Client

from orchestrator import Catalogue, Executor, Kind, OrchestratorPlugin, Tool, ToolCall, ToolResult
from tests.decisions import ALL, TEXT, schema
from tests.temporal import working


class Noted(Executor):
    """Takes a moment, and writes `begin|end KEY TOOL TIME` before and after it."""

    def __init__(self, log: Path, seconds: float) -> None:
        self.log, self.seconds = log, seconds

    async def execute(self, call: ToolCall) -> ToolResult:
        self._note("begin", call)
        await asyncio.sleep(self.seconds)
        self._note("end", call)
        return ToolResult(text=f"{call.tool.name} done")

    def _note(self, what: str, call: ToolCall) -> None:
        with self.log.open("a") as log:
            log.write(f"{what} {call.idempotency_key} {call.tool.name} {time.time()}\n")


class Ledger(Noted):
    """Books each key once, however often it is sent, as a server that recognises the key."""

    async def execute(self, call: ToolCall) -> ToolResult:
        with closing(sqlite3.connect(self.log.with_suffix(".sqlite"))) as ledger, ledger:
            ledger.execute("CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY)")
            ledger.execute("INSERT OR IGNORE INTO entries VALUES (?)", [call.idempotency_key])
        return await super().execute(call)


POST = Tool(
    server="ledger",
    name="post_entry",
    description="Post an entry with a subject to the ledger",
    input_schema=schema("subject", subject=TEXT),
    kind=Kind.BUILTIN,
    labels={"idempotency": "key"},
)


def serve(address: str, task_queue: str, log: Path, seconds: float, ready: Event) -> None:
    """Print `ready` and serve the queue until the process is killed."""
    asyncio.run(_serve(address, task_queue, Noted(log, seconds), Ledger(log, seconds), ready))


async def _serve(address: str, task_queue: str, noted: Noted, ledger: Ledger, ready: Event) -> None:
    executors = {"files:*": noted, "notes:*": noted, "ledger:*": ledger}
    plugin = OrchestratorPlugin(catalogue=Catalogue([*ALL, POST]), executors=executors)
    client = await Client.connect(address, plugins=[plugin])
    async with working(client, task_queue):
        ready.set()
        await asyncio.Event().wait()
