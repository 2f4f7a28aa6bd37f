"""What one tenant with many tools costs a worker: the first start, a restart, one server's change, memory, the disk.

python -m benchmarks.scale --data FOLDER [--tools 13000 97000]: the tools of all development sets, and copies of them.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

from orchestrator.catalogue.files import read_tools
from orchestrator.index.embed import embedder_for
from orchestrator.options import Options
from orchestrator.records.tool import Tool
from orchestrator.store.store import Store

START = """
import asyncio, sys, time
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.runtime.router import Router

async def first():
    async with Router(store=sys.argv[1]) as router:
        await router.route(RouteRequest(query="send an email", tenant="local", route_hint=RouteHint.SEMANTIC))
        peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print(f"{time.process_time():.1f} s of CPU, {int(peak.split()[1]) >> 10:,} MiB")

asyncio.run(first())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tools", type=int, nargs="+", default=[13_000, 97_000])
    given = parser.parse_args()
    for size in given.tools:
        with tempfile.TemporaryDirectory() as folder:
            _measure(Path(folder) / "store", tools_of(given.data, size))


def tools_of(data: Path, size: int) -> list[Tool]:
    own = {
        tool.key: tool for file in sorted((data / "bench").glob("*/tools.jsonl")) for tool in read_tools(file.parent)
    }
    copies = (replace(tool, server=f"{tool.server}-{n}", hash="") for n in count() for tool in own.values())
    return list(islice(copies, size))


def _measure(place: Path, tools: list[Tool]) -> None:
    store = Store(place, embedder=embedder_for(Options()), timeout_s=60)
    servers: dict[str, list[Tool]] = {}
    for tool in tools:
        servers.setdefault(tool.server, []).append(tool)
    print(f"{len(tools):,} tools: import {_cpu(store, servers):.1f} s of CPU")
    for name in ("first start", "restart"):
        print(f"  {name}, to the first Decision: {started(place)}")
    server, own = max(servers.items(), key=lambda item: -len(item[1]))
    print(f"  one server's change: {_cpu(store, {server: own[:-1]}):.1f} s of CPU")
    print(f"  on the disk: {sum(file.stat().st_size for file in place.rglob('*.*')) >> 20} MiB")


def started(place: Path) -> str:
    """Return the CPU and memory of a new process that routes once."""
    start = [sys.executable, "-c", START, str(place)]
    return subprocess.run(start, capture_output=True, text=True, check=True).stdout.strip()


def _cpu(store: Store, servers: dict[str, list[Tool]]) -> float:
    begin = time.process_time()
    store.replace_servers("local", servers)
    return time.process_time() - begin


if __name__ == "__main__":
    main()
