"""Measures the costs of one tenant with many tools for a worker: starts, a change, memory, disk, and a route.

python -m benchmarks.scale --data FOLDER [--tools 13000 97000]: the tools of all development sets, and copies of them.
python -m benchmarks.scale --data FOLDER --openapi FOLDER: the operations of public APIs (benchmarks/openapi.py) with
the development sets and their queries. --store URL measures the same with a Qdrant server. Its tenant `local` is
replaced.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from benchmarks import openapi
from benchmarks.quality import keys_of, recalls, spaced
from orchestrator import Catalogue, Options, Router, Store, Tool
from orchestrator.catalogue.files import read_tools
from orchestrator.evaluate.metrics import mean
from orchestrator.evaluate.runner import Query, read_queries
from orchestrator.index.embedders.by_name import embedder_for

SETS = "api_bank azure_mcp bfcl bfcl_multi_turn metatool restbench seal_tools toolalpaca toolbench_stable".split()

WORKER = """
import asyncio, json, sys, time
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.runtime.router import Router

def peak():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) >> 10

async def main():
    found = {"ranked": [], "ms": [], "cpu_ms": []}
    async with Router(store=sys.argv[1]) as router:
        await router.route(RouteRequest(query="send an email", tenant="local", route_hint=RouteHint.SEMANTIC))
        found |= {"first_cpu": time.process_time(), "first_mib": peak()}
        for query in json.load(sys.stdin):
            begin, cpu = time.perf_counter(), time.process_time()
            decision = await router.route(RouteRequest(query=query, tenant="local"))
            found["ms"].append((time.perf_counter() - begin) * 1000)
            found["cpu_ms"].append((time.process_time() - cpu) * 1000)
            found["ranked"].append([match.tool.key for match in decision.matches])
    print(json.dumps({**found, "mib": peak()}))

asyncio.run(main())
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--tools", type=int, nargs="+", default=[], help="so many, and no more")
    parser.add_argument("--openapi", type=Path, help="a folder of OpenAPI documents")
    parser.add_argument("--store", metavar="URL", default="", help="a Qdrant server")
    parser.add_argument("--queries", type=int, default=40, help="of each set, at most")
    given = parser.parse_args()
    sets = {
        name: _few(given.data / "bench" / name, given.queries) for name in SETS if given.openapi
    }
    for size in given.tools or ([0] if given.openapi else [13_000, 97_000]):
        own = (
            among(given.data, given.openapi, size) if given.openapi else tools_of(given.data, size)
        )
        with tempfile.TemporaryDirectory() as folder:
            # Indexes of a server's tenants are kept there.
            os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
            _measure(given.store or f"{folder}/store", own, sets)
    for name, queries in sets.items():
        print(
            f"  {name}, alone: recall@10 {_recall(asyncio.run(_alone(given.data, name, queries)), queries):.3f}"
        )


def tools_of(data: Path, size: int) -> list[Tool]:
    """Return this number of tools: those of all development sets, and copies of them on other servers."""
    own = {
        tool.key: tool
        for file in sorted((data / "bench").glob("*/tools.jsonl"))
        for tool in read_tools(file.parent)
    }
    copies = (
        replace(tool, server=f"{tool.server}-{n}", hash="")
        for n in count()
        for tool in own.values()
    )
    return list(islice(copies, size))


def among(data: Path, folder: Path, size: int) -> list[Tool]:
    """Return the tools of the sets with queries, and operations of public APIs.

    Args:
        data: The folder of the sets.
        folder: The folder of the APIs.
        size: The total number of tools. 0: all.
    """
    own = {tool.key: tool for name in SETS for tool in read_tools(data / "bench" / name)}
    own |= {
        tool.key: tool for tool in openapi.tools_of(folder, max(1, size - len(own)) if size else 0)
    }
    return list(own.values())


def _few(folder: Path, most: int) -> Sequence[Query]:
    queries = spaced(read_queries(folder / "queries.jsonl"))
    return queries[:: -(-len(queries) // most)]


def _measure(place: str, tools: Iterable[Tool], sets: dict[str, Sequence[Query]]) -> None:
    store = Store(place, embedder=embedder_for(Options()), timeout_s=300)
    servers: dict[str, list[Tool]] = {}
    for tool in tools:
        servers.setdefault(tool.server, []).append(tool)
    if store.remote:
        store.drop("local")
    print(
        f"{sum(map(len, servers.values())):,} tools of {len(servers):,} servers: import {_cost(store, servers)}",
        flush=True,
    )
    server, own = max(servers.items(), key=lambda item: -len(item[1]))
    asked = [query.text for queries in sets.values() for query in queries]
    for start, texts in (("first start", []), ("restart", asked)):
        found = worker(place, texts)
        print(
            f"  {start}, to the first Decision: {found['first_cpu']:.1f} s of CPU, {found['first_mib']:,} MiB"
        )
    if asked:
        print(
            f"  {len(asked)} routes: {_spread(found['ms'])} ms, {_spread(found['cpu_ms'])} ms of CPU (p50, p95)"
        )
        print(f"  memory after these: {found['mib']:,} MiB")
    ranked = iter(found["ranked"])
    for name, queries in sets.items():
        print(f"  {name}: recall@10 {_recall(list(islice(ranked, len(queries))), queries):.3f}")
    print(f"  one server's change: {_cost(store, {server: own[:-1]})}")
    if not store.remote:
        print(
            f"  on the disk: {sum(file.stat().st_size for file in Path(place).rglob('*.*')) >> 20} MiB"
        )


def worker(place: str, queries: Sequence[str]) -> dict[str, Any]:
    """Return the time of a new process for its first route, and for each of these queries."""
    start = [sys.executable, "-c", WORKER, place]
    ran = subprocess.run(
        start, input=json.dumps(queries), capture_output=True, text=True, check=True
    )
    return dict(json.loads(ran.stdout))


async def _alone(data: Path, name: str, queries: Sequence[Query]) -> list[list[str]]:
    async with Router(Catalogue(read_tools(data / "bench" / name))) as router:
        return keys_of([await router.route(query.text) for query in queries])


def _recall(ranked: Sequence[Sequence[str]], queries: Sequence[Query]) -> float:
    return mean([at_ten for _, at_ten in recalls(ranked, queries)])


def _spread(times: Sequence[float]) -> str:
    ordered = sorted(times)
    return " / ".join(f"{ordered[int(share * (len(ordered) - 1))]:.0f}" for share in (0.5, 0.95))


def _cost(store: Store, servers: dict[str, list[Tool]]) -> str:
    begin, cpu = time.perf_counter(), time.process_time()
    store.replace_servers("local", servers)
    return f"{time.process_time() - cpu:.1f} s of CPU, {time.perf_counter() - begin:.0f} s"


if __name__ == "__main__":
    main()
