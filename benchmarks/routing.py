"""Measures routing's speed and ranking at 100 to 13,000 tools, with its peers in the same process: `make bench`.

The queries are toolalpaca's. Its 94 tools are mixed with distractors from a catalogue of real MCP servers, which has
tools for the same jobs. So the ranking figures are lower bounds for comparison.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from benchmarks import peers
from benchmarks.drawing import chart
from benchmarks.installed import installed_table
from benchmarks.page import write
from benchmarks.renewal import renewal_table
from benchmarks.startup import startup_table
from benchmarks.timing import Times, interleaved, percentiles, ratio
from orchestrator import Catalogue, RouteHint, Router, RouteRequest, Tool
from orchestrator.catalogue.files import read_tools
from orchestrator.evaluate import metrics
from orchestrator.evaluate.runner import Query, read_queries
from orchestrator.index.calibration import shipped
from orchestrator.index.features import highest
from orchestrator.index.index import Index
from orchestrator.pipeline.understand import Understood, understand

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

    def to_json(self) -> dict[str, Any]:
        return {
            "tools": self.size,
            "name": self.name,
            "ms": self.times.tolist(),
            "mrr": self.mrr,
            "ndcg@5": self.ndcg,
        }


def catalogue_of(data: Path, size: int) -> list[Tool]:
    """Return toolalpaca's tools with distractors, `size` in all. Smaller catalogues are parts of larger ones."""
    tools = read_tools(data / "bench" / "toolalpaca")
    keys = {tool.key for tool in tools}
    distractors = read_tools(data / "bench" / "mcp_catalog_toucan")
    distractors = [tool for tool in distractors if tool.key not in keys]
    random.Random(1).shuffle(distractors)
    return [*tools, *distractors[: size - len(tools)]]


def measure(tools: Sequence[Tool], queries: Sequence[Query], rounds: int) -> list[Measured]:
    """Measure every contender on one catalogue.

    Args:
        tools: The tools.
        queries: The queries.
        rounds: The number of rounds.
    """
    catalogue = Catalogue(tools)
    texts = [query.text for query in queries]
    with Contenders(catalogue) as contenders:
        times = contenders.times(texts, rounds)
        everywhere = np.ones(len(texts), np.bool_)
        opened = np.array([contenders.gate_opens(text) for text in texts])
        rows = list[Measured]()

        def add(name: str, which: NDArray[np.bool_], shown: str) -> None:
            asked = [query for query, counts in zip(queries, which, strict=True) if counts]
            mrr, ndcg = ranking(contenders.ranker(name), asked)
            compared = ratio(times[name][which], times[BARE][which])
            rows.append(
                Measured(
                    size=len(catalogue),
                    name=shown,
                    times=times[name][which],
                    ratio=compared,
                    mrr=mrr,
                    ndcg=ndcg,
                )
            )

        for name in times:
            add(name, everywhere, name)
            if name == "toolroute auto":
                add(name, opened, OPEN)
    return rows


def ranking(ranker: peers.Ranker, queries: Sequence[Query]) -> tuple[float, float]:
    """Return the mean reciprocal rank and the mean nDCG@5 of the queries."""
    orders = [(ranker(query.text), query.relevant) for query in queries]
    mrr = metrics.mean([metrics.reciprocal_rank(*order) for order in orders])
    ndcg = metrics.mean([metrics.ndcg(*order, 5) for order in orders])
    return mrr, ndcg


class Contenders:
    """toolroute with three hints, its keyword leg alone, and its peers, over one catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._loop = asyncio.new_event_loop()
        self._router = Router(catalogue)
        index = self._loop.run_until_complete(self._router.engine.index("local"))
        bm25s, self._bare = peers.bm25s(catalogue.tools)
        self._quick: dict[str, peers.Ranker] = {
            **{f"toolroute {name}": self._routed(hint) for name, hint in OURS.items()},
            "bm25s": bm25s,
            LEG: keyword_leg(index),
        }
        self._slow: dict[str, peers.Ranker] = {
            "rank-bm25": peers.rank_bm25(catalogue.tools),
            "FastMCP": peers.fastmcp(catalogue.tools),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._router.aclose())
        self._loop.close()

    def times(self, texts: Sequence[str], rounds: int) -> dict[str, Times]:
        """Return each contender's times.

        The slow ones run by themselves: what walks over every tool leaves the others a cold cache, at 13,000 tools half
        of their time.
        """
        quick = interleaved({**self._quick, BARE: self._bare}, texts, rounds)
        return quick | interleaved(self._slow, texts, 1)

    def ranker(self, name: str) -> peers.Ranker:
        """Return what ranks under this name. bm25s' bare retrieval ranks as bm25s does."""
        return self._quick.get(name) or self._slow.get(name) or self._quick["bm25s"]

    def gate_opens(self, text: str) -> bool:
        """Return True if the keyword leg is enough for a task."""
        return not self._loop.run_until_complete(self._router.route(text)).semantic_ran

    def _routed(self, hint: RouteHint) -> peers.Ranker:
        def rank(query: str) -> list[str]:
            request = RouteRequest(query=query, tenant="local", route_hint=hint)
            decision = self._loop.run_until_complete(self._router.route(request))
            return [match.tool.key for match in decision.matches]

        return rank


def keyword_leg(index: Index) -> peers.Ranker:
    """Return the keyword leg alone, for a query that is understood already, as bm25s' bare retrieval gets it."""
    known: dict[str, Understood] = {}

    def rank(query: str) -> list[str]:
        if query not in known:
            known[query] = understand(query, stems=index.keyword.terms)
        scores = index.keyword.score(known[query].terms, pairs=[known[query].pairs]).parts[0]
        best = highest(scores, peers.TOP)
        return [
            index.catalogue.tools[position].key
            for position in best[np.argsort(-scores[best])].tolist()
        ]

    return rank


def table(rows: Sequence[Measured]) -> str:
    """Times, ranking, and how each compares with bm25s' bare retrieval."""
    lines = [
        "| tools | | p50, ms of CPU | p95 | p99 | MRR | nDCG@5 | x bm25s' bare retrieval |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        p50, p95, p99 = percentiles(row.times)
        lines.append(
            f"| {row.size:,} | {row.name} | {p50:.3f} | {p95:.3f} | {p99:.3f} | {row.mrr:.3f} | {row.ndcg:.3f} "
            f"| {row.ratio:.1f} |"
        )
    return "\n".join(lines)


def picture(rows: Sequence[Measured], file: Path) -> None:
    """Median time against the size of the catalogue, both logarithmic."""
    axes = {
        "xscale": "log",
        "yscale": "log",
        "xlabel": "tools",
        "ylabel": "milliseconds of CPU a query (median)",
    }
    with chart(file, **axes) as drawn:
        for name in dict.fromkeys(row.name for row in rows):
            if name in (LEG, OPEN):
                continue
            rows_of_name = [row for row in rows if row.name == name]
            sizes = [row.size for row in rows_of_name]
            medians = [float(np.median(row.times)) for row in rows_of_name]
            style = "-o" if name.startswith("toolroute") else "--s"
            drawn.plot(sizes, medians, style, label=name)


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
    measured = list[Measured]()
    for size in given.sizes:
        rows = measure(catalogue_of(given.data, size), queries, given.rounds)
        print(table(rows), flush=True)
        measured += rows
    renewed = renewal_table(catalogue_of(given.data, max(given.sizes)))
    print(renewed, flush=True)
    started = startup_table(
        {size: catalogue_of(given.data, size) for size in (258, max(given.sizes))}
    )
    print(started)
    if given.json:
        given.json.write_text(json.dumps([row.to_json() for row in measured]))
    if given.write:
        write(given.write, "\n\n".join([table(measured), renewed, started, installed_table()]))
        picture(measured, given.write.with_suffix(".svg"))


if __name__ == "__main__":
    main()
