"""Measures the effect of servers that hang, crash, flood or lie on others: `python -m benchmarks.hostile [--servers
100]`.

Three of ten servers fail, in each order. It prints the number of healthy servers that a sync stores and its duration,
compared with a sync of only healthy ones, and the 95th percentile of a known tool's calls meanwhile, compared with
calls before.
"""

import argparse
import asyncio
import random
import time
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from orchestrator import Connections, Options, Store
from orchestrator.index.embedders.by_name import embedder_for
from orchestrator.mcp.sync import ServerReport, sync
from tests.servers.start import config, entry

FAULTS = "sleep mute listless exit notices flood endless misnumber gibberish future heavy"
ORDERS = ("first", "last", "mixed")
TENANT, KNOWN = "org:bench", "known"
DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A sync's reports as they came and its seconds, and the milliseconds of calls before and during it."""

    reports: list[ServerReport]
    seconds: float
    before_ms: list[float]
    during_ms: list[float]

    @property
    def healthy(self) -> int:
        return sum(server.server.startswith("good") and not server.error for server in self.reports)


def p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]


def hostile(servers: int, bad: int, order: str) -> dict[str, Any]:
    """Return the entries, of which `bad` fail.

    Args:
        servers: The number of servers.
        bad: The number of failing ones.
        order: The order of the failures.
    """
    wrong = {
        f"{fault}_{n}": entry("faulty.py", fault)
        for n, fault in enumerate(islice(cycle(FAULTS.split()), bad))
    }
    right = {f"good_{number}": entry("faulty.py", "none") for number in range(servers - bad)}
    entries = list({**wrong, **right}.items() if order == "first" else {**right, **wrong}.items())
    if order == "mixed":
        random.Random(servers).shuffle(entries)
    return dict(entries)


async def attacked(entries: dict[str, Any], deadline_s: float = DEADLINE_S) -> Attack:
    """Sync these servers while a known tool of another one is called."""
    store = Store(embedder=lambda: embedder_for(Options()))
    pool = Connections(
        config(**entries, **{KNOWN: entry("quick.py")}), connect_timeout_s=deadline_s
    )
    async with pool:
        before, during = list[float](), list[float]()
        while len(before) < 200:
            before.append(await _call(pool))
        reports = list[ServerReport]()
        task = asyncio.create_task(sync(pool, store, TENANT, reports.append, servers=list(entries)))
        begin = time.perf_counter()
        while not task.done():
            during.append(await _call(pool))
        await task
        return Attack(
            reports=reports, seconds=time.perf_counter() - begin, before_ms=before, during_ms=during
        )


async def _call(pool: Connections) -> float:
    await asyncio.sleep(0.01)
    begin = time.perf_counter()
    await pool.call(f"{KNOWN}:add", {"a": 1, "b": 1})
    return (time.perf_counter() - begin) * 1000


async def measure(servers: int) -> None:
    bad = servers * 3 // 10
    alone = await attacked(hostile(servers, 0, "first"))
    most_s = DEADLINE_S + 1.5 * alone.seconds
    print("| order | healthy stored | seconds | at most | p95 before (ms) | meanwhile | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    _show("all healthy", alone, f"{servers} | {alone.seconds:.1f} | ")
    for order in ORDERS:
        attack = await attacked(hostile(servers, bad, order))
        _show(order, attack, f"{servers - bad} | {attack.seconds:.1f} | {most_s:.1f}")


def _show(order: str, attack: Attack, rest: str) -> None:
    before, during = p95(attack.before_ms), p95(attack.during_ms)
    print(
        f"| {order} | {attack.healthy} of {rest} | {before:.1f} | {during:.1f} | {during / before:.2f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=100)
    asyncio.run(measure(parser.parse_args().servers))


if __name__ == "__main__":
    main()
