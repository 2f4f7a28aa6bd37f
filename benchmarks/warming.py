"""Measures the gain from prewarming servers: `python -m benchmarks.warming --data ../shared`. Prints Markdown tables.

Conversations of bfcl_multi_turn are routed turn by turn with the turns before. Servers are connected by the Decision,
and then those of the turn's own tools are called. Half of the conversations are remembered before the other half is
routed. Last, it measures the first call of real servers, cold and prewarmed.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.connections import real_servers
from orchestrator import Catalogue, Connections, Decision, Router, Turn
from orchestrator.evaluate.runner import Query, read_set
from orchestrator.runtime.prewarm import servers_to_prewarm

Talk = list[tuple[Query, Decision]]
Prewarm = Callable[[Decision], Sequence[str]]
WAYS: dict[str, Prewarm] = {
    "recommended only": lambda decision: decision.servers,
    **{
        f"`warm={most}`": lambda decision, most=most: servers_to_prewarm(decision.matches, most)
        for most in (1, 2, 3)
    },
}


@dataclass(frozen=True)
class Warmed:
    """First uses of a server in a conversation, those that found it connected, prewarmed servers, and unused ones."""

    first: int
    hits: int
    started: int
    wasted: int


def conversations(folder: Path) -> list[list[Query]]:
    """Return the set's queries by conversation. An id ends with the number of its turn, `-t0`."""
    found: dict[str, list[Query]] = {}
    for query in read_set(folder).queries:
        found.setdefault(query.id.rpartition("-t")[0], []).append(query)
    return list(found.values())


async def talked(router: Router, queries: list[Query]) -> Talk:
    turns, talk = list[Turn](), []
    for query in queries:
        decision = await router.route(query.text, conversation=turns)
        talk.append((query, decision))
        turns.append(decision.turn(*sorted(query.relevant)))
    return talk


def warmed(talks: list[Talk], prewarm: Prewarm) -> Warmed:
    first = hits = started = wasted = 0
    for talk in talks:
        warm, used = set[str](), set[str]()
        for query, decision in talk:
            warm |= {*prewarm(decision)} - used
            new = {key.partition(":")[0] for key in query.relevant} - used
            first, hits, used = first + len(new), hits + len(new & warm), used | new
        started, wasted = started + len(warm), wasted + len(warm - used)
    return Warmed(first, hits, started, wasted)


async def called(folder: Path) -> tuple[float, float]:
    """The milliseconds of real servers' first calls, cold and prewarmed: medians of all."""
    cold, prewarmed = list[float](), list[float]()
    for name, (entry, tool, arguments) in real_servers(folder).items():
        for times in (cold, prewarmed) * 3:
            async with Connections({"mcpServers": {name: entry}}) as pool:
                if times is prewarmed:
                    pool.warm([name])
                    await pool.tools(name)
                begin = time.perf_counter()
                await pool.call(f"{name}:{tool}", arguments)
                times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(cold), statistics.median(prewarmed)


async def measure(data: Path) -> None:
    folder = data / "bench" / "bfcl_multi_turn"
    every = conversations(folder)
    past, present = every[::2], every[1::2]
    with tempfile.TemporaryDirectory() as name:
        cold, prewarmed = await called(Path(name))
    print(f"First call of a real server: {cold:.0f} ms cold, {prewarmed:.0f} ms prewarmed.\n")
    print("| | | first uses | connected by then | prewarmed | unused | ms saved a conversation |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    async with Router(Catalogue.read(folder)) as router:
        for knows in ("knows no task", f"knows {len(past)} conversations"):
            talks = [await talked(router, queries) for queries in present]
            for way, choose in WAYS.items():
                own = warmed(talks, choose)
                saved = own.hits * (cold - prewarmed) / len(present)
                print(
                    f"| {knows} | {way} | {own.first} | {own.hits} ({own.hits / own.first:.0%}) | {own.started} "
                    f"| {own.wasted} ({own.wasted / own.started:.0%}) | {saved:.0f} |"
                )
            for query in [query for queries in past for query in queries]:
                await router.record(query.text, used=sorted(query.relevant))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=sys.modules[__name__].__doc__)
    options.add_argument("--data", type=Path, default=Path("../shared"))
    asyncio.run(measure(options.parse_args().data))
