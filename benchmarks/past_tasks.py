"""Measures what a tenant's past tasks add to a route: `python -m benchmarks.past_tasks --data FOLDER`.

The past tasks are the queries of all development sets, by 20 people. Each used the tool that is nearest to it by
meaning, so that each new task has many similar ones. The queries are toolalpaca's. Two Routers answer them in turn, in
one process: one uses the past tasks, and one does not.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.routing import catalogue_of
from benchmarks.timing import interleaved, percentiles, ratio
from orchestrator import Decision, Embedder, Offer, Options, Outcome, Router, Store, Tool, Use
from orchestrator.evaluate.runner import Query, read_queries
from orchestrator.index.embedders.by_name import embedder_for
from orchestrator.index.embedders.embedding import embed_tools

PEOPLE = 20
APART_S = 600.0
"""Seconds between two past tasks."""
CHANCES = (0.2, 0.4, 0.1)
"""The probabilities of the three nearest tools at that time. The first one was used, so the past tasks teach something.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with bench/ in it")
    parser.add_argument("--tools", type=int, default=500)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    tools = catalogue_of(arguments.data, arguments.tools)
    queries = [query.text for query in _queries(arguments.data / "bench" / "toolalpaca")]
    queries = random.Random(1).sample(queries, min(arguments.queries, len(queries)))
    past = [
        query.text
        for folder in sorted((arguments.data / "bench").iterdir())
        if folder.name != "toolalpaca"
        for query in _queries(folder)
    ]
    random.Random(1).shuffle(past)
    embedder = embedder_for(Options())
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store", embedder=embedder)
        by_server: dict[str, list[Tool]] = {}
        for tool in tools:
            by_server.setdefault(tool.server, []).append(tool)
        store.replace_servers("local", by_server)
        _remember(store, embedder, tools, past[: arguments.tasks])
        print(_compared(store, queries, arguments.rounds))
        store.close()


def _queries(folder: Path) -> Sequence[Query]:
    file = folder / "queries.jsonl"
    return read_queries(file) if file.exists() else ()


def _remember(store: Store, embedder: Embedder, tools: Sequence[Tool], past: Sequence[str]) -> None:
    """Store an Outcome for each past task."""
    vectors = embedder.embed(past)
    cosines = vectors @ embed_tools(embedder, tools).T
    nearest = np.argsort(-cosines, axis=1)[:, : len(CHANCES)]
    begin = time.time() - APART_S * len(past)
    outcomes = []
    for number, query in enumerate(past):
        offered = [tools[position] for position in nearest[number]]
        tool = offered[0]
        outcome = Outcome(
            id=f"task {number}",
            query=query,
            used=(Use(tool=tool.key, hash=tool.hash),),
            actor=f"person {number % PEOPLE}",
            at=begin + APART_S * number,
            offered=tuple(
                Offer(tool=offer.key, hash=offer.hash, chance=chance)
                for offer, chance in zip(offered, CHANCES, strict=True)
            ),
        )
        outcomes.append(outcome)
    store.outcomes.add("local", outcomes, vectors, days=3650)


def _compared(store: Store, queries: Sequence[str], rounds: int) -> str:
    """Return the times of both Routers, and the median of their ratio query by query."""
    loop = asyncio.new_event_loop()
    routers = {
        name: Router(store=store, options=Options(experience=experience, languages="off"))
        for name, experience in (("with past tasks", "texts"), ("without", "off"))
    }

    def route_with(router: Router) -> Callable[[str], Decision]:
        return lambda query: loop.run_until_complete(router.route(query))

    routes = {name: route_with(router) for name, router in routers.items()}
    loop.run_until_complete(routers["with past tasks"].warm())
    decisions = [routes["with past tasks"](query) for query in queries]
    raised = sum(
        any("experience" in match.evidence for match in decision.matches) for decision in decisions
    )
    times = interleaved(routes, queries, rounds)
    lines = [f"past tasks are evidence for a match of {raised} of {len(queries)} queries"]
    for name, measured in times.items():
        p50, p95, _ = percentiles(measured)
        lines.append(f"{name}: {p50:.2f} / {p95:.2f} ms of CPU a route (p50 / p95)")
    extra = ratio(times["with past tasks"], times["without"]) - 1
    lines.append(f"extra time of a route: {extra:+.0%} (median of the queries)")
    for router in routers.values():
        loop.run_until_complete(router.aclose())
    loop.close()
    return "\n".join(lines)


if __name__ == "__main__":
    main()
