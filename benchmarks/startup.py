"""From a process's start to its first Decision, its memory, and what the store takes: each in a process of its own."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from orchestrator.catalogue.formats import tool_to_json
from orchestrator.records.tool import Tool

ROUNDS = 5
STEPS = {
    "python alone": "pass",
    "import orchestrator": "import orchestrator",
    "import orchestrator.temporal.workflow": "import orchestrator.temporal.workflow",
    "import orchestrator.runtime.router": "import orchestrator.runtime.router",
}
FIRST_DECISION = """
import asyncio, sys
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.runtime.router import Router

async def first():
    async with Router(**{sys.argv[1]: sys.argv[2]}) as router:
        ask = RouteRequest(query="send an email to the team", tenant="local", route_hint=RouteHint(sys.argv[3]))
        await router.route(ask)
        peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print(int(peak.split()[1]) // 1024)

asyncio.run(first())
"""


def startup_table(catalogues: Mapping[int, Sequence[Tool]]) -> str:
    """Medians of several processes each."""
    lines = ["| a new process | ms | memory, MiB |", "| --- | ---: | ---: |"]
    lines += [f"| {name} | {_timed(code)[0]:.0f} | |" for name, code in STEPS.items()]
    with tempfile.TemporaryDirectory() as folder:
        for size, tools in catalogues.items():
            lines += _with_tools(Path(folder) / str(size), size, tools)
    return "\n".join(lines)


def _with_tools(folder: Path, size: int, tools: Sequence[Tool]) -> list[str]:
    folder.mkdir()
    file, store = folder / "tools.jsonl", folder / "store"
    file.write_text("".join(json.dumps(tool_to_json(tool)) + "\n" for tool in tools), encoding="utf-8")
    lines = []
    for name in ("import into a store", "import again, unchanged"):
        begin = time.perf_counter()
        command = ["-m", "orchestrator", "tools", "import", str(file), "--store", str(store)]
        _run(command)
        lines.append(f"| {name}, {size:,} tools | {(time.perf_counter() - begin) * 1000:.0f} | |")
    for source, place in (("catalogue", file), ("store", store)):
        for hint in ("keyword", "semantic"):
            ms, said = _timed(FIRST_DECISION, source, str(place), hint)
            lines.append(f"| first Decision ({hint}) from a {source}, {size:,} tools | {ms:.0f} | {said} |")
    return lines


def _timed(code: str, *arguments: str) -> tuple[float, str]:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        said = _run(["-c", code, *arguments])
        times.append((time.perf_counter() - begin) * 1000)
    return median(times), said


def _run(arguments: Sequence[str]) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments[:3]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout.strip()
