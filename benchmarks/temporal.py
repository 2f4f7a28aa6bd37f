"""What a route through Temporal costs beside an empty activity: `python -m benchmarks.temporal CATALOGUE [N]`.

CATALOGUE is a folder with tools.jsonl; queries come from its queries.jsonl, else from the tools' descriptions. One
process holds worker and client; the server is a dev server with the settings of `orchestrator.devserver` (poll limits
raised, one partition).
"""

import asyncio
import itertools
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio import activity, workflow
from temporalio.client import Client

from orchestrator import names
from orchestrator.catalogue import Catalogue
from orchestrator.decision import Decision
from orchestrator.devserver import dev_server
from orchestrator.models import RouteRequest
from orchestrator.plugin import OrchestratorPlugin

QUEUE = "toolroute-bench"


@activity.defn
async def empty(text: str) -> str:
    return text


@workflow.defn
class Empty:
    """One activity that does nothing: what Temporal itself costs."""

    @workflow.run
    async def run(self, text: str) -> str:
        return await workflow.execute_activity(empty, text, start_to_close_timeout=timedelta(seconds=30))


async def main(folder: Path, pairs: int) -> None:
    catalogue = Catalogue.read(folder / "tools.jsonl")
    queries = itertools.cycle(_queries(folder, catalogue))
    async with dev_server() as address:
        plugin = OrchestratorPlugin(catalogue=catalogue)
        client = await Client.connect(address, plugins=[plugin])
        async with _worker(client):
            await _compare(client, queries, pairs, len(catalogue))
            await _load(client, queries, 500, 50)


def _queries(folder: Path, catalogue: Catalogue) -> list[str]:
    path = folder / "queries.jsonl"
    if path.exists():
        return [str(json.loads(line)["query"]) for line in path.read_text(encoding="utf-8").splitlines()]
    return [text for tool in catalogue.tools[::7] if (text := tool.description.split(". ")[0][:300].strip())]


def _worker(client: Client) -> Any:
    from temporalio.common import WorkerDeploymentVersion
    from temporalio.worker import Worker, WorkerDeploymentConfig

    release = WorkerDeploymentVersion(deployment_name="bench", build_id="1")
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[Empty],
        activities=[empty],
        deployment_config=WorkerDeploymentConfig(version=release, use_worker_versioning=False),
    )


async def _compare(client: Client, queries: Iterator[str], pairs: int, tools: int) -> None:
    """Interleaved pairs: a route, then an empty activity, so that both see the same machine."""

    async def nothing() -> None:
        await client.execute_workflow(Empty.run, next(queries), id=uuid4().hex, task_queue=QUEUE)

    async def routed() -> None:
        await _route(client, next(queries))

    for _ in range(10):
        await routed()
        await nothing()
    routes, empties = [], []
    for _ in range(pairs):
        routes.append(await _timed(routed))
        empties.append(await _timed(nothing))
    ratio = statistics.median(routes) / statistics.median(empties)
    print(f"{tools:,} tools, {pairs} interleaved pairs, milliseconds (median / p95)\n")
    print("| a route through Temporal | an empty activity | ratio of medians |\n| --- | --- | --- |")
    print(f"| {_figures(routes)} | {_figures(empties)} | {ratio:.2f} |\n")


async def _load(client: Client, queries: Iterator[str], number: int, at_once: int) -> None:
    """Many requests, so many of them in flight; a failure raises."""
    slots = asyncio.Semaphore(at_once)
    took: list[float] = []

    async def one() -> None:
        async with slots:
            took.append(await _timed(lambda: _route(client, next(queries))))

    begin = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(number)))
    seconds = time.perf_counter() - begin
    print(f"{number} routes, {at_once} in flight: no failure, {number / seconds:.0f} a second, {_figures(took)} ms")


async def _route(client: Client, query: str) -> Decision:
    request = RouteRequest(query=query, tenant="org:bench")
    decision: Decision = await client.execute_workflow(
        names.ROUTE, request, id=uuid4().hex, task_queue=QUEUE, result_type=Decision
    )
    return decision


async def _timed(action: Callable[[], Awaitable[Any]]) -> float:
    begin = time.perf_counter()
    await action()
    return (time.perf_counter() - begin) * 1000


def _figures(times: list[float]) -> str:
    return f"{statistics.median(times):.1f} / {sorted(times)[int(len(times) * 0.95)]:.1f}"


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200))
