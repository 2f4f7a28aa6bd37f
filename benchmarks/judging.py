"""One development query, judged with maps that were fitted without its set: what each way of ranking finds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.confidence import Calibration, LogisticMap, most_by_meaning, most_by_words, top_features
from orchestrator.models import Fusion
from orchestrator.retrieval.prerequisites import raised_among
from orchestrator.stages.merge import merge, vote
from orchestrator.stages.parts import chances_of, in_turn
from training.confidence import by_both, by_keyword
from training.examples import Example, Part, Rows

GATE = 0.7
MOST = 10
"""Matches of an answer."""
BY_SCORE, WITHOUT_PREREQUISITES = "by score", "without prerequisites"
"""The learnt merge without tools for each part in turn, and without those that give what others require."""
Places = NDArray[np.int64]
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
    legs = _legs(maps)
    keyword = np.zeros(len(example.overlap))
    keyword[example.overlap] = by_keyword(legs, example)[0]
    semantic = maps.semantic(example.semantic, example.query)
    learnt, _ = by_both(legs, example)
    orders = {"bm25": _best_first(example.keyword[:, 0])}
    orders["semantic"] = _best_first(semantic)
    for fusion in Fusion:
        orders[str(fusion)] = merge(fusion, keyword, semantic, learnt)[1]
    gate, confidence = _claims(example, maps)
    by_words = [(part.places[part.overlap], by_keyword(legs, part)[0]) for part in example.parts]
    by_meaning = [(part.places, by_both(legs, part)[0]) for part in example.parts]
    worth = _with_prerequisites(learnt, example)
    orders["keyword"] = _in_turn(_with_prerequisites(keyword, example), by_words)
    orders["weighted"] = _in_turn(_with_prerequisites(vote(keyword, semantic), example), by_meaning)
    orders["learnt"] = _in_turn(worth, by_meaning)
    orders[BY_SCORE], orders[WITHOUT_PREREQUISITES] = _best_first(worth), _in_turn(learnt, by_meaning)
    orders["auto"] = orders["keyword" if gate >= GATE else "learnt"]
    return Judged(
        recall={way: (_recall(example, order, 5), _recall(example, order, 10)) for way, order in orders.items()},
        confidence=confidence,
        gate=gate,
        right=bool(len(learnt)) and bool(example.relevant[orders["auto"][0]]),
        removed=_claims(example.absent or example, maps)[1],
    )


def _with_prerequisites(scores: Rows, example: Example) -> Rows:
    """The scores, higher for tools that give what others require, as `route` has them."""
    order = _best_first(scores)
    by_score = dict(zip(order.tolist(), scores[order].tolist(), strict=True))
    worth = scores.copy()
    for place, own in raised_among(by_score, lambda place: example.required.get(place, ())).items():
        worth[place] = own.score
    return worth


def _in_turn(scores: Rows, parts: Sequence[tuple[Places, Rows]]) -> Places:
    """The order so that each part of the task has its tools among the first, as `route` has it."""
    order = _best_first(scores)
    if len(parts) < 2:
        return order
    chances = chances_of(parts, len(order))
    return order[in_turn(scores[order].tolist(), chances[:, order], ahead=1, most=MOST)]


def _best_first(scores: Rows) -> Places:
    return np.argsort(-scores, kind="stable")


def _claims(example: Example, maps: Calibration) -> tuple[float, float]:
    """The gate's confidence, that of the least sure part, and the Decision's."""
    sure = [_sure(one, maps) for one in (example, *example.parts)]
    gate = min(map(min, sure))
    if gate >= GATE:
        return gate, sure[0][0]
    chances, rows = by_both(_legs(maps), example)
    if not len(chances):
        return gate, 0.0
    sure = maps.confidence.chance(top_features(chances, rows, example.query, example.nearest(chances)))
    return gate, min(sure, most_by_meaning(chances, rows, example.overlap))


def _sure(asked: Example | Part, maps: Calibration) -> tuple[float, float]:
    """How sure the keyword leg is of its best, and the most that its words support."""
    chances, rows = by_keyword(_legs(maps), asked)
    if not len(chances):
        return 0.0, 0.0
    return maps.gate.chance(top_features(chances, rows, asked.query)), most_by_words(chances, rows, asked.query)


def _legs(maps: Calibration) -> dict[str, LogisticMap]:
    return {"keyword": maps.keyword, "semantic": maps.semantic, "merged": maps.merged}


def _recall(example: Example, order: NDArray[np.int64], cut: int) -> float:
    return float(example.relevant[order[:cut]].sum()) / max(example.gold, 1)
