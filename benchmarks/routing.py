"""Measures routing's speed and ranking at 100 to 13,000 tools, with its peers in the same process: `make bench`.

The queries are toolalpaca's. Its 94 tools are mixed with distractors from a catalogue of real MCP servers, which has
tools for the same jobs. So the ranking figures are lower bounds for comparison.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import peers
from benchmarks.drawing import chart
from benchmarks.installed import installed_table
from benchmarks.page import write
from benchmarks.renewal import renewal_table
from benchmarks.startup import startup_table
from benchmarks.timing import Times, interleaved, percentiles, ratio
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.files import read_tools
from orchestrator.evaluate import metrics
from orchestrator.evaluate.runner import Query, read_queries
from orchestrator.index.calibration import shipped
from orchestrator.index.features import highest
from orchestrator.index.index import Index
from orchestrator.pipeline.understand import Understood, understand
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router

SIZES = (100, 258, 500, 1_000, 5_000, 13_000)
OURS = {"keyword": RouteHint.KEYWORD, "semantic": RouteHint.SEMANTIC, "auto": RouteHint.AUTO}
BARE = "bm25s, bare retrieval"
LEG = "toolroute, the keyword leg's ten best alone"
OPEN = "toolroute auto, where the gate opens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One contender on a catalogue of one size."""

    size: int
    name: str
    times: Times
    ratio: float
    """To bm25s' bare retrieval."""
    mrr: float
    ndcg: float


def catalogue_of(data: Path, size: int) -> list[Tool]:
    """Return toolalpaca's tools with distractors, `size` in all. Smaller catalogues are parts of larger ones."""
    own = read_tools(data / "bench" / "toolalpaca")
    known = {tool.key for tool in own}
    others = [
        tool for tool in read_tools(data / "bench" / "mcp_catalog_toucan") if tool.key not in known
    ]
    random.Random(1).shuffle(others)
    return [*own, *others[: size - len(own)]]


def measure(tools: Sequence[Tool], queries: Sequence[Query], rounds: int) -> list[Measured]:
    """Measure every contender on one catalogue.

    Args:
        tools: The tools.
        queries: The queries.
        rounds: The number of rounds.
    """
    catalogue = Catalogue(tools)
    loop = asyncio.new_event_loop()
    router = Router(catalogue)

    def ours(hint: RouteHint) -> Callable[[str], list[str]]:
        def rank(query: str) -> list[str]:
            decision = loop.run_until_complete(
                router.route(RouteRequest(query=query, tenant="local", route_hint=hint))
            )
            return [match.tool.key for match in decision.matches]

        return rank

    def opens(query: str) -> bool:
        return not loop.run_until_complete(router.route(query)).semantic_ran

    bm25s, bare = peers.bm25s(catalogue.tools)
    leg = keyword_leg(loop.run_until_complete(router.engine.index("local")))
    quick = {**{f"toolroute {name}": ours(hint) for name, hint in OURS.items()}, "bm25s": bm25s}
    slow = {
        "rank-bm25": peers.rank_bm25(catalogue.tools),
        "FastMCP": peers.fastmcp(catalogue.tools),
    }
    rankers: dict[str, peers.Ranker] = {**quick, LEG: leg, **slow}
    # By themselves: what walks over every tool leaves the others a cold cache, at 13,000 tools half of their time.
    texts = [query.text for query in queries]
    times = interleaved({**quick, LEG: leg, BARE: bare}, texts, rounds) | interleaved(
        slow, texts, 1
    )
    found = []

    def add(name: str, own: Times, which: NDArray[np.bool_], ranker: peers.Ranker) -> None:
        orders = [
            (ranker(query.text), query.relevant)
            for query, asked in zip(queries, which, strict=True)
            if asked
        ]
        mrr = metrics.mean([metrics.reciprocal_rank(*order) for order in orders])
        ndcg = metrics.mean([metrics.ndcg(*order, 5) for order in orders])
        compared = ratio(own[which], times[BARE][which])
        found.append(
            Measured(
                size=len(catalogue), name=name, times=own[which], ratio=compared, mrr=mrr, ndcg=ndcg
            )
        )

    everywhere, opened = np.ones(len(texts), np.bool_), np.array([opens(text) for text in texts])
    for name, own in times.items():
        add(name, own, everywhere, rankers.get(name, bm25s))
        if name == "toolroute auto":
            add(OPEN, own, opened, rankers[name])
    loop.run_until_complete(router.aclose())
    loop.close()
    return found


def keyword_leg(index: Index) -> peers.Ranker:
    """Return the keyword leg alone, for a query that is understood already, as bm25s' bare retrieval gets it."""
    known: dict[str, Understood] = {}

    def rank(query: str) -> list[str]:
        if query not in known:
            known[query] = understand(query, known=index.keyword.terms)
        scores = index.keyword.score(known[query].terms, pairs=[known[query].pairs]).parts[0]
        best = highest(scores, peers.TOP)
        return [
            index.catalogue.tools[position].key
            for position in best[np.argsort(-scores[best])].tolist()
        ]

    return rank


def table(found: Sequence[Measured]) -> str:
    """Times, ranking, and how each compares with bm25s' bare retrieval."""
    lines = [
        "| tools | | p50, ms of CPU | p95 | p99 | MRR | nDCG@5 | x bm25s' bare retrieval |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in found:
        p50, p95, p99 = percentiles(one.times)
        lines.append(
            f"| {one.size:,} | {one.name} | {p50:.3f} | {p95:.3f} | {p99:.3f} | {one.mrr:.3f} | {one.ndcg:.3f} "
            f"| {one.ratio:.1f} |"
        )
    return "\n".join(lines)


def picture(found: Sequence[Measured], file: Path) -> None:
    """Median time against the size of the catalogue, both logarithmic."""
    axes = {
        "xscale": "log",
        "yscale": "log",
        "xlabel": "tools",
        "ylabel": "milliseconds of CPU a query (median)",
    }
    with chart(file, **axes) as drawn:
        for name in dict.fromkeys(one.name for one in found if one.name not in (LEG, OPEN)):
            own = [one for one in found if one.name == name]
            style = "-o" if name.startswith("toolroute") else "--s"
            drawn.plot(
                [one.size for one in own],
                [float(np.median(one.times)) for one in own],
                style,
                label=name,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with bench/ in it")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--queries", type=int, default=100, help="how many of the queries")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--write", type=Path, help="the page whose tables to replace; the picture gets its name"
    )
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    given = parser.parse_args()
    shipped()
    queries = read_queries(given.data / "bench" / "toolalpaca" / "queries.jsonl")
    queries = random.Random(1).sample(queries, min(given.queries, len(queries)))
    found: list[Measured] = []
    for size in given.sizes:
        found += measure(catalogue_of(given.data, size), queries, given.rounds)
        print(table([one for one in found if one.size == found[-1].size]), flush=True)
    renewed = renewal_table(catalogue_of(given.data, max(given.sizes)))
    print(renewed, flush=True)
    started = startup_table(
        {size: catalogue_of(given.data, size) for size in (258, max(given.sizes))}
    )
    print(started)
    if given.json:
        rows = [
            {
                "tools": m.size,
                "name": m.name,
                "ms": m.times.tolist(),
                "mrr": m.mrr,
                "ndcg@5": m.ndcg,
            }
            for m in found
        ]
        given.json.write_text(json.dumps(rows))
    if given.write:
        write(given.write, "\n\n".join([table(found), renewed, started, installed_table()]))
        picture(found, given.write.with_suffix(".svg"))


if __name__ == "__main__":
    main()
