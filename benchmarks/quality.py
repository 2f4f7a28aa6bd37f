"""Measures routing quality on the development sets, each with maps fitted on the others: `make bench`.

Prints, and writes between the marks of docs/measured/quality.md: recall of each ranking and of the peers, the quality
of the confidence, toolroute's own tasks, and how often a query that needs no tool ends in `none`.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks import peers
from benchmarks.page import write
from orchestrator import (
    Calibration,
    Catalogue,
    Decision,
    Embedder,
    Fusion,
    Options,
    RouteHint,
    Router,
    RouteRequest,
    Stage,
    Tool,
)
from orchestrator.evaluate import metrics
from orchestrator.evaluate.runner import Query, read_set
from orchestrator.index.embedders.by_name import embedder_for
from research.confidence import (
    Collection,
    collect_all,
    data_parser,
    left_out_maps,
    maps_without,
)
from research.sources import FURTHER, SETS
from research.tasks import tasks

MOST_QUERIES = 300
"""Evenly spaced ones of a set: some peers need a quarter of a second for each."""
WAYS: dict[str, tuple[RouteHint, Fusion | None]] = {
    "keyword": (RouteHint.KEYWORD, None),
    "semantic": (RouteHint.SEMANTIC, None),
    "weighted": (RouteHint.SEMANTIC, Fusion.WEIGHTED),
    "rrf": (RouteHint.SEMANTIC, Fusion.RRF),
    "learnt": (RouteHint.SEMANTIC, Fusion.LEARNT),
    "auto": (RouteHint.AUTO, None),
}
PEERS: dict[str, tuple[str, Callable[[Sequence[Tool]], peers.Ranker]]] = {
    "rank-bm25": ("rank-bm25", peers.rank_bm25),
    "bm25s": ("bm25s", lambda tools: peers.bm25s(tools)[0]),
    "FastMCP": ("fastmcp", peers.fastmcp),
    "Haystack": ("haystack-ai", peers.haystack),
}
"""Each peer's distribution, and how its ranker is made."""
Recalls = list[tuple[float, float]]
"""At 5 and at 10, a query."""


def spaced(queries: Sequence[Query]) -> list[Query]:
    """Return the queries that have a right tool, at most MOST_QUERIES of them."""
    labelled = [query for query in queries if query.relevant]
    return labelled[:: -(-len(labelled) // MOST_QUERIES)]


def semantic_alone(maps: Calibration) -> Calibration:
    """Return maps with the semantic leg's own probability in place of both legs'."""
    own = dict(zip(maps.semantic.features, maps.semantic.weights.tolist(), strict=True))
    weights = np.array([own.get(name, 0.0) for name in maps.merged.features])
    return replace(maps, merged=replace(maps.merged, weights=weights, bias=maps.semantic.bias))


async def routed(
    catalogue: Catalogue, queries: Sequence[Query], maps: Calibration, embedder: Embedder, way: str
) -> list[Decision]:
    """Return each query's Decision, ranked in one way.

    Args:
        catalogue: The tools.
        queries: The queries.
        maps: The fitted maps.
        embedder: The embedder.
        way: The name of the way, a key of `WAYS`.
    """
    hint, fusion = WAYS[way]
    maps = semantic_alone(maps) if way == "semantic" else maps
    async with Router(catalogue, embedder=embedder, calibration=maps) as router:
        asked = (
            RouteRequest(query=q.text, tenant="local", route_hint=hint, fusion=fusion)
            for q in queries
        )
        return [await router.route(request) for request in asked]


def recalls(ranked: Sequence[Sequence[str]], queries: Sequence[Query]) -> Recalls:
    """Return the recall at 5 and at 10 of each order of keys."""
    found = []
    for order, query in zip(ranked, queries, strict=True):
        needed = query.needed(order, query.relevant)
        found.append((metrics.recall(order, needed, 5), metrics.recall(order, needed, 10)))
    return found


def peer_recalls(
    name: str, tools: Sequence[Tool], queries: Sequence[Query], keep: Path | None
) -> dict[str, Recalls]:
    """Return every peer's recalls. Some need seconds for a query, so `keep` is a file of earlier results.

    Args:
        name: The set's name.
        tools: The tools.
        queries: The queries.
        keep: The file of earlier results.
    """
    kept = json.loads(keep.read_text(encoding="utf-8")) if keep and keep.exists() else {}
    content = repr([[query.text for query in queries], [peers.text_of(tool) for tool in tools]])
    found: dict[str, Recalls] = {}
    for peer, (distribution, make) in PEERS.items():
        key = f"{distribution} {version(distribution)}, {name}, {hashlib.sha256(content.encode()).hexdigest()[:12]}"
        if key not in kept:
            ranker = make(tools)
            kept[key] = recalls([ranker(query.text) for query in queries], queries)
        found[peer] = kept[key]
        if keep:
            keep.write_text(json.dumps(kept), encoding="utf-8")
    return found


def keys_of(decisions: Sequence[Decision]) -> list[list[str]]:
    return [[match.tool.key for match in decision.matches] for decision in decisions]


def claims(decisions: Sequence[Decision], queries: Sequence[Query]) -> list[float]:
    """Return the quality of the confidence: share right, calibration error, settled, precision, gate open, area."""
    gate = Options().gate
    pairs = zip(keys_of(decisions), queries, strict=True)
    right = np.array([metrics.hit(order, query.relevant) for order, query in pairs])
    confidences = np.array([decision.confidence for decision in decisions])
    worth = metrics.confidence(confidences, right, gate=gate)
    surest = right[np.argsort(-confidences, kind="stable")]
    area = np.mean(np.cumsum(surest) / np.arange(1, len(surest) + 1))
    opened = np.mean([not decision.semantic_ran for decision in decisions])
    precision = 1.0 if worth["precision"] is None else worth["precision"]
    return [
        float(x or 0)
        for x in (right.mean(), worth["ece"], worth["resolved"], precision, opened, area)
    ]


def table(columns: Sequence[str], rows: Mapping[str, Sequence[object]]) -> str:
    lines = [f"| | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for name, row in rows.items():
        lines.append(f"| {name} | " + " | ".join(_cell(value) for value in row) + " |")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, list):
        five, ten = np.mean(value, axis=0)
        return f"{five:.3f} / {ten:.3f}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def of_sets(
    data: Path,
    names: Sequence[str],
    maps: Mapping[str, Calibration],
    embedder: Embedder,
    keep: Path | None,
) -> list[str]:
    """Return the tables of recall and of confidence.

    Args:
        data: The folder with `bench/`.
        names: The names of the sets.
        maps: The fitted maps for each set.
        embedder: The embedder.
        keep: A file of earlier results of the peers.
    """
    recall_rows: dict[str, list[Recalls]] = {}
    claim_rows: dict[str, list[float]] = {}
    pooled: tuple[list[Decision], list[Query]] = ([], [])
    for name in names:
        found = read_set(data / "bench" / name)
        queries = spaced(found.queries)
        decisions = {
            way: asyncio.run(routed(found.catalogue, queries, maps[name], embedder, way))
            for way in WAYS
        }
        own = peer_recalls(name, found.catalogue.tools, queries, keep)
        own |= {way: recalls(keys_of(decided), queries) for way, decided in decisions.items()}
        recall_rows[name] = [own[column] for column in (*PEERS, *WAYS)]
        claim_rows[name] = claims(decisions["auto"], queries)
        pooled[0].extend(decisions["auto"])
        pooled[1].extend(queries)
    means = [
        [tuple(np.mean(row[column], axis=0)) for row in recall_rows.values()]
        for column in range(len(PEERS) + len(WAYS))
    ]
    claim_rows["**pooled**"] = claims(*pooled)
    columns = ("right", "ece", "settled", "precision", "gate open", "area")
    return [
        "Recall at 5 / at 10:",
        table((*PEERS, *WAYS), {**recall_rows, "**mean**": means}),
        "Confidence of `auto` (a query is right if `matches[0]` is relevant):",
        table(columns, claim_rows),
    ]


def of_tasks(data: Path, collection: Collection, embedder: Embedder) -> list[str]:
    """Return the table of the tasks of our own, with maps that were not fitted to tasks of our own."""
    maps = maps_without(collection, "tasks", "abroad")
    rows = {}
    for one in tasks(data):
        queries = [
            Query(id=str(number), text=record["query"], relevant=frozenset(record["relevant"]))
            for number, record in enumerate(one.records)
            if record["relevant"]
        ]
        ranked = keys_of(asyncio.run(routed(one.catalogue, queries, maps, embedder, "auto")))
        rows[one.name] = [len(queries), recalls(ranked, queries)]
    return [
        "Tasks of our own over real servers, recall at 5 / at 10:",
        table(("tasks", "auto"), rows),
    ]


def of_no_tool(data: Path, maps: Calibration, embedder: Embedder) -> list[str]:
    """Return the number of queries that end in `none`, among those labelled as needing a tool and the others.

    Args:
        data: The folder of the data.
        maps: The maps.
        embedder: The embedder.
    """
    labels = (
        (data / "bench" / "metatool_gate" / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    )
    records = [json.loads(line) for line in labels]
    queries = [
        Query(id=str(n), text=record["query"], relevant=frozenset())
        for n, record in enumerate(records)
    ]
    decisions = asyncio.run(
        routed(Catalogue.read(data / "bench" / "metatool"), queries, maps, embedder, "auto")
    )
    rows: dict[str, list[object]] = {}
    for needed, name in ((False, "needs no tool"), (True, "needs a tool")):
        ended = [
            d.stage is Stage.NONE
            for d, record in zip(decisions, records, strict=True)
            if record["needs_tool"] is needed
        ]
        rows[name] = [len(ended), metrics.mean(ended)]
    return ["Queries that end in `none`, by their label:", table(("queries", "`none`"), rows)]


def main() -> None:
    parser = data_parser(__doc__)
    parser.add_argument("--write", type=Path, help="rewrite the tables of this Markdown file")
    parser.add_argument(
        "--keep", type=Path, help="where the peers' figures are kept for the next time"
    )
    parser.add_argument(
        "--sets", nargs="+", choices=(*SETS, *FURTHER), default=SETS, help="only these sets"
    )
    given = parser.parse_args()
    embedder = embedder_for(Options())
    collection = collect_all(given.data, given.vendors, embedder)
    maps = left_out_maps(collection)
    parts = of_sets(given.data, given.sets, maps, embedder, given.keep)
    parts += of_tasks(given.data, collection, embedder) + of_no_tool(
        given.data, maps["metatool"], embedder
    )
    text = "\n\n".join(parts)
    print(text)
    if given.write:
        write(given.write, text)


if __name__ == "__main__":
    main()
