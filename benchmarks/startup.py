"""Measures the time from a process's start to its first Decision, its memory, and the size of the store, each in a
separate process.
"""

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from orchestrator import Tool
from orchestrator.catalogue.formats import tool_to_json

ROUNDS = 5
STEPS = {
    "python alone": "pass",
    "import orchestrator": "import orchestrator",
    "import orchestrator.temporal.workflow.tool_router": "import orchestrator.temporal.workflow.tool_router",
    "import orchestrator.Router": "from orchestrator import Router",
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
    lines = ["| a new process | ms of CPU | memory, MiB |", "| --- | ---: | ---: |"]
    lines += [f"| {name} | {_timed(code)[0]:.0f} | |" for name, code in STEPS.items()]
    lines.append(f"| `toolroute --help` | {_median(['-m', 'orchestrator', '--help'])[0]:.0f} | |")
    with tempfile.TemporaryDirectory() as folder:
        for size, tools in catalogues.items():
            lines += _with_tools(Path(folder) / str(size), size, tools)
    return "\n".join(lines)


def _with_tools(folder: Path, size: int, tools: Sequence[Tool]) -> list[str]:
    folder.mkdir()
    file, store = folder / "tools.jsonl", folder / "store"
    file.write_text(
        "".join(json.dumps(tool_to_json(tool)) + "\n" for tool in tools), encoding="utf-8"
    )
    lines = []
    for name in ("import into a store", "import again, unchanged"):
        took, _ = _run(["-m", "orchestrator", "tools", "import", str(file), "--store", str(store)])
        lines.append(f"| {name}, {size:,} tools | {took:.0f} | |")
    task = ["-m", "orchestrator", "route", "send an email to the team", "--store", str(store)]
    lines.append(f"| `toolroute route`, {size:,} tools in the store | {_median(task)[0]:.0f} | |")
    for source, place in (("catalogue", file), ("store", store)):
        for hint in ("keyword", "semantic"):
            ms, said = _timed(FIRST_DECISION, source, str(place), hint)
            lines.append(
                f"| first Decision ({hint}) from a {source}, {size:,} tools | {ms:.0f} | {said} |"
            )
    return lines


def _timed(code: str, *arguments: str) -> tuple[float, str]:
    return _median(["-c", code, *arguments])


def _median(arguments: Sequence[str]) -> tuple[float, str]:
    """Return the median CPU milliseconds of several processes, and their output."""
    ran = [_run(arguments) for _ in range(ROUNDS)]
    return median(took for took, _ in ran), ran[-1][1]


def _run(arguments: Sequence[str]) -> tuple[float, str]:
    """Return a process's CPU milliseconds and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments[:3]} ended with {done.returncode}: {done.stderr[-2000:]}")
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        now.ru_utime - before.ru_utime + now.ru_stime - before.ru_stime
    ) * 1000, done.stdout.strip()
