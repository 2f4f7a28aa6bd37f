"""Measures a route through Temporal, a staged route, and an empty activity.

`python -m benchmarks.temporal --data FOLDER`. It fails if the Decision of a staged route differs.

One process runs worker and client. The server is a dev server with the settings of
`orchestrator.temporal.client.devserver`. The queries are toolalpaca's, over the catalogues of `benchmarks.routing`.
"""

import argparse
import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio.client import Client
from temporalio.common import RawValue

from benchmarks.empty import Empty, empty
from benchmarks.routing import catalogue_of, write
from orchestrator import Catalogue, Decision, OrchestratorPlugin, RouteRequest
from orchestrator.evaluate.runner import read_queries
from orchestrator.records import durable_names as names
from orchestrator.temporal.client.devserver import SETTINGS, dev_server, settle
from orchestrator.temporal.workflow.payload import read

SIZES = (500, 13_000)
QUEUE = "toolroute-bench"


async def measure(data: Path, sizes: list[int], pairs: int) -> str:
    """Return both tables and the settings of the measurement.

    Args:
        data: The folder of the data.
        sizes: The sizes of the catalogues.
        pairs: The number of pairs.
    """
    queries = [
        query.text for query in read_queries(data / "bench" / "toolalpaca" / "queries.jsonl")
    ]
    random.Random(1).shuffle(queries)
    costs, loads, server = [], [], ""
    async with dev_server() as address:
        for size in sizes:
            catalogue, queue = Catalogue(catalogue_of(data, size)), f"{QUEUE}-{size}"
            client = await Client.connect(
                address, plugins=[OrchestratorPlugin(catalogue=catalogue)]
            )
            server = await _server(client)
            async with _worker(client, queue):
                bench = Bench(client, queue, itertools.cycle(queries))
                costs.append(f"| {size:,} {await bench.compare(pairs)}")
                loads.append(f"| {size:,} {await bench.load(500, 50)}")
                print(costs[-1], loads[-1], sep="\n", flush=True)
    return "\n".join(
        [
            "| tools | a route, ms (p50 / p95) | empty activity | ratio | median of ratios | stage by stage | ratio |",
            "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
            *costs,
            "",
            "| tools | routes | in flight | failures | a second | ms (p50 / p95) |",
            "| ---: | ---: | ---: | ---: | ---: | ---: |",
            *loads,
            "",
            f"Each size has {pairs} rounds, which compare a route with an empty activity, and a staged route with a "
            f"route. The Decisions are the same. The server is {server}, on loopback, with "
            + ", ".join(f"`{setting}`" for setting in SETTINGS)
            + ".",
        ]
    )


async def _server(client: Client) -> str:
    """Return the server's description of itself."""
    from temporalio.api.workflowservice.v1 import GetSystemInfoRequest

    info = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    return f"Temporal's dev server {info.server_version}"


def _worker(client: Client, queue: str) -> Any:
    from temporalio.common import WorkerDeploymentVersion
    from temporalio.worker import Worker, WorkerDeploymentConfig

    release = WorkerDeploymentVersion(deployment_name="bench", build_id="1")
    return Worker(
        client,
        task_queue=queue,
        workflows=[Empty],
        activities=[empty],
        deployment_config=WorkerDeploymentConfig(version=release, use_worker_versioning=False),
    )


class Bench:
    """One client, one queue, and queries without end."""

    def __init__(self, client: Client, queue: str, queries: Iterator[str]) -> None:
        self._client, self._queue, self._queries = client, queue, queries

    async def compare(self, rounds: int) -> str:
        """Interleaved rounds: a route, an empty activity, the route by stages, so that all see the same machine."""
        for _ in range(20):
            await self._route(next(self._queries))
            await self._empty()
        routes, empties, by_stages = [], [], []
        for query in itertools.islice(self._queries, rounds):
            whole, took = await _timed(partial(self._route, query))
            routes.append(took)
            empties.append((await _timed(self._empty))[1])
            staged, took = await _timed(partial(self._route, query, names.ROUTE_STAGED))
            by_stages.append(took)
            if replace(whole, timings_ms={}) != replace(staged, timings_ms={}):
                raise SystemExit(f"stage by stage the Decision is another one for {query!r}")
        route, empty, staged_ms = map(statistics.median, (routes, empties, by_stages))
        of_pairs = statistics.median(
            one / other for one, other in zip(routes, empties, strict=True)
        )
        beside_empty = f"{_figures(empties)} | {route / empty:.2f} | {of_pairs:.2f}"
        return f"| {_figures(routes)} | {beside_empty} | {_figures(by_stages)} | {staged_ms / route:.2f} |"

    async def load(self, number: int, at_once: int) -> str:
        """Send `number` requests, `at_once` of them in flight."""
        slots = asyncio.Semaphore(at_once)

        async def one() -> float:
            async with slots:
                return (await _timed(partial(self._route, next(self._queries))))[1]

        begin = time.perf_counter()
        ended = await asyncio.gather(*(one() for _ in range(number)), return_exceptions=True)
        seconds = time.perf_counter() - begin
        took = [time for time in ended if isinstance(time, float)]
        return f"| {number} | {at_once} | {number - len(took)} | {number / seconds:.0f} | {_figures(took)} |"

    async def _route(self, query: str, workflow: str = names.ROUTE) -> Decision:
        request = RouteRequest(query=query, tenant="org:bench")
        raw: RawValue = await self._client.execute_workflow(
            workflow, request, id=uuid4().hex, task_queue=self._queue, result_type=RawValue
        )
        return read(raw, Decision)

    async def _empty(self) -> None:
        await self._client.execute_workflow(
            Empty.run, next(self._queries), id=uuid4().hex, task_queue=self._queue
        )


async def _timed(action: Callable[[], Awaitable[Any]]) -> tuple[Any, float]:
    """Return the result and its milliseconds."""
    begin = time.perf_counter()
    given = await action()
    return given, (time.perf_counter() - begin) * 1000


def _figures(times: list[float]) -> str:
    return f"{statistics.median(times):.1f} / {sorted(times)[int(len(times) * 0.95)]:.1f}"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with bench/ in it")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--write", type=Path, help="the page whose tables to replace")
    given = parser.parse_args()
    tables = await measure(given.data, given.sizes, given.pairs)
    print(f"\n{tables}")
    if given.write:
        write(given.write, tables)
    await settle()


if __name__ == "__main__":
    asyncio.run(main())
