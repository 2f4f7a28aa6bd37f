"""Fits the maps of `orchestrator/data/calibration.json`: `python -m training.confidence --data ../shared`.

Each map is a logistic regression, fitted by Newton's method with a small ridge. Every set of queries weighs the same,
so that the largest does not decide. `--leave-out SET` fits on the others: what `benchmarks/quality.py` measures with.
"""

import argparse
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue import Catalogue
from orchestrator.confidence import CONFIDENCE, GATE, Calibration, LogisticMap, from_json, top_features
from orchestrator.embed import Embedder, embedder_for
from orchestrator.features import KEYWORD, QUERY, SEMANTIC
from orchestrator.index import Index
from orchestrator.options import Options
from orchestrator.search import Search
from orchestrator.stages.merge import blend
from orchestrator.stages.semantic import SemanticIndex
from orchestrator.stages.understand import Understood, understand
from training.strays import stray

SETS = (
    "api_bank",
    "azure_mcp",
    "bfcl",
    "bfcl_multi_turn",
    "metatool",
    "restbench",
    "seal_tools",
    "toolalpaca",
    "toolbench_stable",
)
"""The development sets whose labels name tools."""
WIDTH = 30
RIDGE = 1.0
REMOVED = 0.1
"""How much a query without its relevant tools weighs beside the real one (docs/decisions.md)."""
SMALL = 0.3
"""How much a set's small catalogues weigh beside the set."""
SMALL_CATALOGUES = 40
CARE = {"gate": 0.2, "confidence": 0.12}
"""Taken off the fitted log-odds: where the gate opens wrongly the other leg's help is lost, too (docs/decisions.md)."""
MOST_QUERIES = 800
"""Queries read of a set; the maps have 23 weights at most."""

Rows = NDArray[np.float64]


@dataclass(slots=True)
class Example:
    """One query's candidates: features by map, which are relevant, and how many relevant tools there are.

    `alike`: the candidates' cosines with one another, [candidates, candidates], 0 with themselves. `absent`: the same
    query searched with its relevant tools out of the catalogue; None where it has none.
    """

    keyword: Rows
    semantic: Rows
    query: list[float]
    overlap: NDArray[np.bool_]
    relevant: NDArray[np.bool_]
    gold: int
    alike: NDArray[np.float16]
    absent: "Example | None" = None

    def nearest(self, chances: Rows) -> float:
        """The largest cosine of the best candidate with another one."""
        return float(self.alike[np.argmax(chances)].max(initial=0))


@dataclass(slots=True)
class Collected:
    """All examples of one set."""

    name: str
    examples: list[Example] = field(default_factory=list)
    weight: float = 1.0


def neutral() -> Calibration:
    """Maps that say one half of everything: enough to collect features with."""
    sizes = {"keyword": KEYWORD + QUERY, "semantic": SEMANTIC + QUERY, "merged": KEYWORD + SEMANTIC + QUERY}
    names = {**sizes, "gate": GATE, "confidence": CONFIDENCE}
    return from_json({name: {"weights": dict.fromkeys(columns, 0.0), "bias": 0.0} for name, columns in names.items()})


def collect(folder: Path, embedder: Embedder, asked: Sequence[dict[str, Any]] | None = None) -> Collected:
    """The features of the labelled queries of a set, of those asked for or of all that are read."""
    records = sampled(folder) if asked is None else asked
    return Collected(folder.name, _examples(Index(Catalogue.read(folder)), records, embedder))


def sampled(folder: Path) -> list[dict[str, Any]]:
    """The labelled queries that are read of a set, evenly spaced."""
    records = _records(folder)
    return records[:: max(1, len(records) // MOST_QUERIES)]


def collect_small(folder: Path, embedder: Embedder) -> Collected:
    """The same in catalogues of two to forty tools, drawn at random around a few queries: what many users have.

    Each is asked two things besides that no tool answers.
    """
    draw = random.Random(folder.name)
    records, tools = _records(folder), Catalogue.read(folder)
    collected = Collected(f"{folder.name} (small)", weight=SMALL)
    for _ in range(SMALL_CATALOGUES):
        asked = draw.sample(records, 4)
        wanted = {key for record in asked for key in record["relevant"] if key in tools.positions}
        others = draw.sample(tools.tools, min(draw.randint(1, 40), len(tools)))
        index = Index(Catalogue([*(tools[key] for key in sorted(wanted)), *others]))
        unanswerable = [{"query": stray(draw), "relevant": []} for _ in range(2)]
        collected.examples += _examples(index, [*asked, *unanswerable], embedder)
    return collected


def _records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]


def _examples(index: Index, records: Sequence[dict[str, Any]], embedder: Embedder) -> list[Example]:
    examples: list[Example] = []
    for record in records:
        understood = understand(record["query"])
        parts = [clause.text for clause in understood.clauses] if len(understood.clauses) > 1 else []
        vectors = embedder.embed([understood.text, *parts])
        right = [index.catalogue.positions[key] for key in record["relevant"] if key in index.catalogue.positions]
        others = np.ones(len(index.catalogue), np.bool_)
        others[right] = False
        search = partial(_example, index, index.semantic(embedder), understood, vectors, set(record["relevant"]))
        examples.append(replace(search(), absent=search(allowed=others) if right else None))
    return examples


def _example(
    index: Index,
    semantic: SemanticIndex,
    understood: Understood,
    vectors: NDArray[np.float32],
    wanted: set[str],
    *,
    allowed: NDArray[np.bool_] | None = None,
) -> Example:
    """The candidates of one search, among all tools or among those allowed."""
    search = Search(index, understood, neutral(), width=WIDTH, allowed=allowed)
    found = search.by_both(semantic, vectors)
    keys = [index.catalogue.tools[position].key for position in found.chosen.tolist()]
    return Example(
        keyword=found.rows[:, : len(KEYWORD)],
        semantic=found.rows[:, len(KEYWORD) :],
        query=found.query,
        overlap=found.overlap,
        relevant=np.isin(keys, list(wanted)),
        gold=len(wanted),
        alike=_alike(semantic.vectors[found.chosen]),
    )


def _alike(vectors: NDArray[np.float32]) -> NDArray[np.float16]:
    cosines = (vectors @ vectors.T).astype(np.float16)
    np.fill_diagonal(cosines, 0)
    return cosines


def fit(rows: Rows, target: Rows, weight: Rows) -> tuple[Rows, float]:
    """Weights and bias of a logistic regression on standardised columns, given back for raw columns."""
    mean, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    inputs = np.hstack([(rows - mean) / scale, np.ones((len(rows), 1))])
    weight = weight / weight.mean()
    ridge = RIDGE * np.eye(inputs.shape[1])
    ridge[-1, -1] = 0
    solution = np.zeros(inputs.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ solution, -30, 30)))
        slope = inputs.T @ (weight * (target - chance)) - ridge @ solution
        curve = (inputs * (weight * chance * (1 - chance))[:, None]).T @ inputs + ridge
        step = np.linalg.solve(curve, slope)
        solution += step
        if np.abs(step).max() < 1e-7:
            break
    weights = solution[:-1] / scale
    return weights, float(solution[-1] - mean @ weights)


def _stack(sets: Sequence[Collected], part: str) -> tuple[Rows, Rows, Rows]:
    rows, target, weight = [], [], []
    for collected in sets:
        for example in collected.examples:
            columns = {
                "keyword": [example.keyword],
                "semantic": [example.semantic],
                "merged": [example.keyword, example.semantic],
            }[part]
            kept = example.overlap if part == "keyword" else np.ones(len(example.overlap), np.bool_)
            if not kept.any() or not example.gold:
                continue
            query = np.broadcast_to(example.query[: len(QUERY)], (int(kept.sum()), len(QUERY)))
            rows.append(np.hstack([*(column[kept] for column in columns), query]))
            target.append(example.relevant[kept].astype(np.float64))
            weight.append(np.full(int(kept.sum()), collected.weight / len(collected.examples)))
    return np.vstack(rows), np.concatenate(target), np.concatenate(weight)


def fit_all(sets: Sequence[Collected]) -> dict[str, dict[str, object]]:
    """All five maps in their JSON form."""
    names = {"keyword": KEYWORD + QUERY, "semantic": SEMANTIC + QUERY, "merged": KEYWORD + SEMANTIC + QUERY}
    maps = {part: _record(columns, *fit(*_stack(sets, part))) for part, columns in names.items()}
    legs = {part: LogisticMap.from_json(part, maps[part]) for part in names}
    tops = {"gate": (GATE, by_keyword), "confidence": (CONFIDENCE, by_both)}
    for name, (columns, chances) in tops.items():
        weights, bias = _fit_top(sets, partial(chances, legs))
        maps[name] = _record(columns, weights, bias - CARE[name])
    return maps


Chances = Callable[[Example], tuple[Rows, Rows]]
"""An example's candidates to their probabilities [candidates] and feature rows [candidates, features]."""


def by_keyword(maps: Mapping[str, LogisticMap], example: Example) -> tuple[Rows, Rows]:
    """As the keyword leg alone has it: the candidates that share a word with the query."""
    rows = example.keyword[example.overlap]
    return maps["keyword"](_with_query(rows, example)), rows


def by_both(maps: Mapping[str, LogisticMap], example: Example) -> tuple[Rows, Rows]:
    """As both legs have it, blended."""
    keyword = maps["keyword"](_with_query(example.keyword, example)) * example.overlap
    semantic = maps["semantic"](_with_query(example.semantic, example))
    rows = np.hstack([example.keyword, example.semantic])
    return blend(keyword, semantic, maps["merged"](_with_query(rows, example))), rows


def _with_query(rows: Rows, example: Example) -> Rows:
    return np.hstack([rows, np.broadcast_to(example.query[: len(QUERY)], (len(rows), len(QUERY)))])


def _fit_top(sets: Sequence[Collected], chances: Chances) -> tuple[Rows, float]:
    """A map of the best candidate's chance to be right, that falls when the right tools are not there.

    Fitted with each query a second time, searched without its relevant tools and nothing right; then slope and bias are
    fitted again on the real queries alone, which are what the confidence is about.
    """
    rows, target, weight = _tops(sets, chances, removed=False)
    none, never, light = _tops(sets, chances, removed=True)
    weights, bias = fit(
        np.vstack([rows, none]), np.concatenate([target, never]), np.concatenate([weight, REMOVED * light])
    )
    (slope,), shift = fit((rows @ weights + bias)[:, None], target, weight)
    return weights * slope, bias * slope + shift


def _tops(sets: Sequence[Collected], chances: Chances, *, removed: bool) -> tuple[Rows, Rows, Rows]:
    """One row a query: the features of its best candidate, and whether that is relevant."""
    rows, target, weight = [], [], []
    for collected in sets:
        for example in collected.examples:
            asked = (example.absent or example) if removed else example
            probabilities, own = chances(asked)
            if not len(probabilities) or not (example.gold or removed):
                continue
            by_words = own.shape[1] == len(KEYWORD)
            nearest = None if by_words else asked.nearest(probabilities)
            rows.append(top_features(probabilities, own, asked.query, nearest))
            seen = asked.relevant[asked.overlap] if by_words else asked.relevant
            target.append(float(seen[int(np.argmax(probabilities))]))
            weight.append(collected.weight / len(collected.examples))
    return np.vstack(rows), np.array(target), np.array(weight)


def _record(columns: Iterable[str], weights: Rows, bias: float) -> dict[str, object]:
    rounded = {name: round(float(value), 5) for name, value in zip(columns, weights, strict=True)}
    return {"weights": rounded, "bias": round(bias, 5)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--out", type=Path, default=Path("orchestrator/data/calibration.json"))
    parser.add_argument("--leave-out", choices=SETS)
    arguments = parser.parse_args()
    embedder = embedder_for(Options())
    folders = [arguments.data / "bench" / name for name in SETS if name != arguments.leave_out]
    sets = [way(folder, embedder) for way in (collect, collect_small) for folder in folders]
    maps = {**fit_all(sets), "about": {"embedder": embedder.id, "sets": [collected.name for collected in sets]}}
    arguments.out.write_text(json.dumps(maps, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
