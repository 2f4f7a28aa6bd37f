"""Routing quality on the development sets, each measured with maps fitted on the others: `make bench-quality`.

Prints, and writes between the marks of docs/quality.md: recall of each way of ranking, what the confidence is worth,
and what happens when the right tools are not there. Ways of ranking share the candidates of one run of both legs.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orchestrator.confidence import Calibration, from_json, top_features
from orchestrator.embed import embedder_for
from orchestrator.features import QUERY
from orchestrator.models import Fusion
from orchestrator.options import Options
from orchestrator.stages.merge import merge
from training.confidence import SETS, Collected, Example, by_both, by_keyword, collect, collect_small, fit_all

Numbers = NDArray[np.float64]
GATE = 0.7
MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")
WAYS = ("bm25", "keyword", "semantic", "weighted", "rrf", "learnt", "auto")


@dataclass(slots=True)
class Judged:
    """One query: each way's recall at 5 and 10, and what was claimed of the answer."""

    recall: dict[str, tuple[float, float]]
    confidence: float
    gate: float
    right: bool
    removed: float


def judge(example: Example, maps: Calibration) -> Judged:
    """Ranks one query's candidates in every way, with maps that have not seen its set."""
    everything = np.ones(len(example.relevant), np.bool_)
    legs = {"keyword": maps.keyword, "semantic": maps.semantic, "merged": maps.merged}
    keyword = np.zeros(len(everything))
    keyword[example.overlap] = by_keyword(legs, example, everything)[0]
    semantic = maps.semantic(np.hstack([example.semantic, np.broadcast_to(example.query, (len(keyword), len(QUERY)))]))
    learnt, both = by_both(legs, example, everything)
    orders = {"bm25": np.argsort(-example.keyword[:, 0], kind="stable"), "keyword": np.argsort(-keyword, kind="stable")}
    orders["semantic"] = np.argsort(-semantic, kind="stable")
    for fusion in Fusion:
        orders[str(fusion)] = merge(fusion, keyword, semantic, learnt)[1]
    gate = _sure(maps.gate, keyword, example.keyword, example, example.overlap)
    orders["auto"] = orders["keyword" if gate >= GATE else "learnt"]
    confidence = gate if gate >= GATE else _sure(maps.confidence, learnt, both, example, everything)
    absent = ~example.relevant
    gate_absent = _sure(maps.gate, keyword, example.keyword, example, example.overlap & absent)
    removed = gate_absent if gate_absent >= GATE else _sure(maps.confidence, learnt, both, example, absent)
    return Judged(
        recall={way: (_recall(example, order, 5), _recall(example, order, 10)) for way, order in orders.items()},
        confidence=confidence,
        gate=gate,
        right=bool(len(both)) and bool(example.relevant[orders["auto"][0]]),
        removed=removed,
    )


def _sure(
    chance: Callable[[Numbers], Numbers], probability: Numbers, rows: Numbers, example: Example, kept: NDArray[np.bool_]
) -> float:
    if not kept.any():
        return 0.0
    return float(chance(top_features(probability[kept], rows[kept], example.query))[0])


def _recall(example: Example, order: NDArray[np.int64], cut: int) -> float:
    return float(example.relevant[order[:cut]].sum()) / max(example.gold, 1)


def ece(claimed: Numbers, right: Numbers, bins: int = 10) -> float:
    """Expected calibration error over equal bins of 0 to 1."""
    place = np.minimum((claimed * bins).astype(int), bins - 1)
    parts = [(place == number) for number in range(bins)]
    return float(sum(abs(claimed[p].mean() - right[p].mean()) * p.mean() for p in parts if p.any()))


def ece_of_the_perfect(claimed: Numbers, runs: int = 200) -> float:
    """What a perfectly calibrated model of these claims would show in a sample of this size, by simulation."""
    random = np.random.default_rng(0)
    return float(np.mean([ece(claimed, (random.random(len(claimed)) < claimed).astype(float)) for _ in range(runs)]))


def auc(high: Numbers, low: Numbers) -> float:
    """The chance that one of the first is above one of the second; ties count half."""
    both = np.sort(low)
    below = np.searchsorted(both, high, side="left")
    equal = np.searchsorted(both, high, side="right") - below
    return float((below + equal / 2).mean() / len(low))


def risk_coverage(claimed: Numbers, right: Numbers) -> float:
    """Area under the curve of precision against coverage, most confident first."""
    ordered = right[np.argsort(-claimed, kind="stable")]
    return float((np.cumsum(ordered) / np.arange(1, len(ordered) + 1)).mean())


def recall_table(judged: dict[str, list[Judged]]) -> list[str]:
    lines = [f"| set | {' | '.join(WAYS)} |", f"| --- |{' --- |' * len(WAYS)}"]
    means = {
        name: {way: np.mean([q.recall[way] for q in rows], axis=0) for way in WAYS} for name, rows in judged.items()
    }
    means["**mean**"] = {way: np.mean([row[way] for row in list(means.values())], axis=0) for way in WAYS}
    for name, row in means.items():
        lines.append(f"| {name} | " + " | ".join(f"{row[way][0]:.3f} / {row[way][1]:.3f}" for way in WAYS) + " |")
    return lines


def confidence_table(judged: dict[str, list[Judged]]) -> list[str]:
    columns = ("right", "ece", "ece if perfect", "settled", "precision", "gate open", "area", "oracle's", "auc absent")
    lines = [f"| set | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}"]
    pooled = [row for rows in judged.values() for row in rows]
    for name, rows in {**judged, "**pooled**": pooled}.items():
        lines.append(f"| {name} | " + " | ".join(f"{value:.3f}" for value in _confidence_row(rows)) + " |")
    return lines


def _confidence_row(rows: Sequence[Judged]) -> list[float]:
    claimed = np.array([row.confidence for row in rows])
    right = np.array([float(row.right) for row in rows])
    settled = claimed >= GATE
    return [
        right.mean(),
        ece(claimed, right),
        ece_of_the_perfect(claimed),
        settled.mean(),
        right[settled].mean() if settled.any() else 1.0,
        float(np.mean([row.gate >= GATE for row in rows])),
        risk_coverage(claimed, right),
        risk_coverage(right, right),
        auc(claimed, np.array([row.removed for row in rows])),
    ]


def measure(sets: Sequence[Collected], small: Sequence[Collected]) -> list[str]:
    """All tables, in Markdown. `small` are the sets' small catalogues, in the same order."""
    judged = {}
    for place, one in enumerate(sets):
        others = [*sets[:place], *sets[place + 1 :], *small[:place], *small[place + 1 :]]
        maps = from_json(fit_all(others))
        judged[one.name] = [judge(example, maps) for example in one.examples]
    return [
        "Recall at 5 / at 10:",
        "",
        *recall_table(judged),
        "",
        "What the confidence is worth (event: `matches[0]` is relevant):",
        "",
        *confidence_table(judged),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--write", type=Path, help="rewrite the tables of this Markdown file")
    arguments = parser.parse_args()
    embedder = embedder_for(Options())
    folders = [arguments.data / "bench" / name for name in SETS]
    sets, small = ([way(folder, embedder) for folder in folders] for way in (collect, collect_small))
    tables = "\n".join(measure(sets, small))
    print(tables)
    if arguments.write:
        before, _, rest = arguments.write.read_text(encoding="utf-8").partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        text = f"{before}{MARKS[0]}\n\n{tables}\n\n{MARKS[1]}{after}"
        arguments.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
