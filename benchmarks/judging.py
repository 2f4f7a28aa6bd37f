"""One development query, judged with maps that were fitted without its set: what each way of ranking finds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.confidence import Calibration, top_features
from orchestrator.models import Fusion
from orchestrator.stages.merge import merge
from training.confidence import Example, by_both, by_keyword

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
    legs = {"keyword": maps.keyword, "semantic": maps.semantic, "merged": maps.merged}
    keyword = np.zeros(len(example.overlap))
    keyword[example.overlap] = by_keyword(legs, example)[0]
    semantic = maps.semantic(example.semantic, example.query)
    learnt, _ = by_both(legs, example)
    orders = {"bm25": np.argsort(-example.keyword[:, 0], kind="stable"), "keyword": np.argsort(-keyword, kind="stable")}
    orders["semantic"] = np.argsort(-semantic, kind="stable")
    for fusion in Fusion:
        orders[str(fusion)] = merge(fusion, keyword, semantic, learnt)[1]
    gate, confidence = _claims(example, maps)
    orders["auto"] = orders["keyword" if gate >= GATE else "learnt"]
    return Judged(
        recall={way: (_recall(example, order, 5), _recall(example, order, 10)) for way, order in orders.items()},
        confidence=confidence,
        gate=gate,
        right=bool(len(learnt)) and bool(example.relevant[orders["auto"][0]]),
        removed=_claims(example.absent or example, maps)[1],
    )


def _claims(example: Example, maps: Calibration) -> tuple[float, float]:
    """The gate's confidence, and the Decision's."""
    legs = {"keyword": maps.keyword, "semantic": maps.semantic, "merged": maps.merged}
    chances, rows = by_keyword(legs, example)
    gate = maps.gate.chance(top_features(chances, rows, example.query)) if len(chances) else 0.0
    if gate >= GATE:
        return gate, gate
    chances, rows = by_both(legs, example)
    if not len(chances):
        return gate, 0.0
    return gate, maps.confidence.chance(top_features(chances, rows, example.query, example.nearest(chances)))


def _recall(example: Example, order: NDArray[np.int64], cut: int) -> float:
    return float(example.relevant[order[:cut]].sum()) / max(example.gold, 1)
