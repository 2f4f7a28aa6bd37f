"""The peers' recall on the development sets. Some need seconds a query, so what they found may be kept in a file."""

import hashlib
import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import peers
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.evaluate.metrics import recall
from orchestrator.records.tool import Tool

PEERS: dict[str, tuple[str, Callable[[Sequence[Tool]], peers.Ranker]]] = {
    "rank-bm25": ("rank-bm25", peers.rank_bm25),
    "bm25s": ("bm25s", lambda tools: peers.bm25s(tools)[0]),
    "FastMCP": ("fastmcp", peers.fastmcp),
    "Haystack": ("haystack-ai", peers.haystack),
}
"""Each peer's distribution, and how its ranker is made."""

Recalls = list[tuple[float, float]]
"""At 5 and at 10, a query."""


def of_all(folder: Path, records: Sequence[dict[str, Any]], keep: Path | None = None) -> dict[str, Recalls]:
    """Every peer's recalls for these queries of a set; asks only for what `keep` does not hold yet."""
    kept = json.loads(keep.read_text(encoding="utf-8")) if keep and keep.exists() else {}
    tools = Catalogue.read(folder).tools
    asked = hashlib.sha256(repr([records, [peers.text_of(tool) for tool in tools]]).encode()).hexdigest()[:12]
    found: dict[str, Recalls] = {}
    for name, (distribution, make) in PEERS.items():
        key = f"{distribution} {version(distribution)}, {folder.name}, {asked}"
        if key not in kept:
            ranker = make(tools)
            kept[key] = [_recalls(ranker(record["query"]), record["relevant"]) for record in records]
        found[name] = [tuple(pair) for pair in kept[key]]
        if keep:
            keep.write_text(json.dumps(kept), encoding="utf-8")
    return found


def _recalls(ranked: Sequence[str], relevant: Sequence[str]) -> tuple[float, float]:
    wanted = set(relevant)
    return (recall(ranked, wanted, 5), recall(ranked, wanted, 10)) if wanted else (0.0, 0.0)
