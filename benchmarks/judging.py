"""One development query, judged with maps that were fitted without its set: what each way of ranking finds."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.confidence import Calibration, top_features
from orchestrator.features import KEYWORD
from orchestrator.models import Fusion
from orchestrator.stages.merge import merge
from training.confidence import Example, by_both, by_keyword

Numbers = NDArray[np.float64]
GATE = 0.7
WAYS = ("bm25", "keyword", "semantic", "weighted", "rrf", "learnt", "auto")


@dataclass(slots=True)
class Judged:
    """Each way's recall at 5 and 10, what was claimed of the answer, and what with its right tools removed."""

    recall: dict[str, tuple[float, float]]
    confidence: float
    gate: float
    right: bool
    removed: float


def judge(example: Example, maps: Calibration) -> Judged:
    """Ranks the query's candidates in every way; `auto` goes as `route` does."""
    everything = np.ones(len(example.relevant), np.bool_)
    legs = {"keyword": maps.keyword, "semantic": maps.semantic, "merged": maps.merged}
    keyword = np.zeros(len(everything))
    keyword[example.overlap] = by_keyword(legs, example, everything)[0]
    semantic = maps.semantic(example.semantic, example.query)
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
    nearest = None if rows.shape[1] == len(KEYWORD) else example.nearest(kept, probability[kept])
    return float(chance(top_features(probability[kept], rows[kept], example.query, nearest))[0])


def _recall(example: Example, order: NDArray[np.int64], cut: int) -> float:
    return float(example.relevant[order[:cut]].sum()) / max(example.gold, 1)
