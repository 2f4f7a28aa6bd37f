"""One development query, judged with maps that were fitted without its set: what each way of ranking finds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.calibration import Calibration, LogisticMap, most_by_meaning, most_by_words, top_features
from orchestrator.index.features import QUERY
from orchestrator.index.prerequisites import raised_among
from orchestrator.records.request import Fusion
from orchestrator.routing.merge import merge, vote
from orchestrator.routing.parts import in_turn, raised_by_parts
from orchestrator.routing.support import support, supported, supported_behind_best
from research.confidence import by_both, by_keyword, for_parts
from research.examples import Example, Part, Rows

GATE = 0.7
MOST = 10
"""Matches of an answer."""
BY_SCORE, WITHOUT_SERVERS, WITHOUT_PREREQUISITES = "by score", "without servers", "without prerequisites"
"""The learnt merge without tools for each part in turn, without the word of each server's best, and without the tools
that give what others require."""
Places = NDArray[np.int64]
Chances = tuple[Rows, ...]
"""Of the candidates of the whole task, and of each part's; where both legs run, of what is told beside them, too."""
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
    keyword = _widened(by_keyword(legs, example)[0], example.overlap)
    semantic = supported(maps.semantic(example.semantic, example.query), example.fits)
    learnt, _ = by_both(legs, example)
    orders = {"bm25": _best_first(example.keyword[:, 0])}
    orders["semantic"] = _best_first(semantic)
    for fusion in Fusion:
        orders[str(fusion)] = merge(fusion, keyword, semantic, learnt)[1]
    gate, confidence = _claims(example, maps)
    by_words = keyword, *(_widened(by_keyword(legs, part)[0], part.overlap) for part in example.parts)
    said = (*example.parts, *example.told)
    by_meaning = learnt, *(supported(by_both(legs, part)[0], part.asking) for part in said)
    words, meaning = _support(by_words, example), _support(by_meaning, example)
    orders["keyword"] = _ranked(by_words, words, example)
    orders["weighted"] = _ranked((vote(keyword, semantic), *by_meaning[1:]), meaning, example)
    orders["learnt"] = _ranked(by_meaning, meaning, example)
    orders[BY_SCORE] = _ranked(by_meaning, meaning, example, turns=False)
    orders[WITHOUT_SERVERS] = _ranked(by_meaning, tuple(map(np.ones_like, by_meaning)), example)
    orders[WITHOUT_PREREQUISITES] = _ranked(by_meaning, meaning, example, prerequisites=False)
    orders["auto"] = orders["keyword" if gate >= GATE else "learnt"]
    return Judged(
        recall={way: (_recall(example, order, 5), _recall(example, order, 10)) for way, order in orders.items()},
        confidence=confidence,
        gate=gate,
        right=bool(len(learnt)) and bool(example.relevant[orders["auto"][0]]),
        removed=_claims(example.absent or example, maps)[1],
    )


def _widened(chances: Rows, overlap: NDArray[np.bool_]) -> Rows:
    """The chances of those that share a term with the query among all candidates, whose own are 0."""
    widened = np.zeros(len(overlap))
    widened[overlap] = chances
    return widened


def _support(chances: Chances, example: Example) -> Chances:
    """What each candidate's server says for it; chances: of the whole, of each part, and of what is told, if any."""
    parts = (*example.parts, *example.told)[: len(chances) - 1]
    servers = np.concatenate([example.servers, *(part.servers for part in parts)])
    terms = round(np.expm1(example.query[QUERY.index("log_terms")]))
    ends = np.cumsum([len(own) for own in chances])[:-1]
    return tuple(np.split(support(servers, np.concatenate(chances), terms), ends))


def _ranked(
    chances: Chances, support: Chances, example: Example, *, prerequisites: bool = True, turns: bool = True
) -> Places:
    """The order by these chances, as `route` has it."""
    of_parts = example.of_parts(list(map(supported, chances[1:], support[1:])))
    scores = supported_behind_best(chances[0], support[0])
    scores = raised_by_parts(scores, of_parts[: len(example.parts) or None])
    if prerequisites:
        scores = _with_prerequisites(scores, example)
    order = _best_first(scores)
    if not turns or len(of_parts) < 2:
        return order
    return order[in_turn(scores[order].tolist(), of_parts[:, order], ahead=1, most=MOST)]


def _with_prerequisites(scores: Rows, example: Example) -> Rows:
    """The scores, higher for tools that give what others require, as `route` has them."""
    order = _best_first(scores)
    by_score = dict(zip(order.tolist(), scores[order].tolist(), strict=True))
    worth = scores.copy()
    for place, own in raised_among(by_score, lambda place: example.required.get(place, ())).items():
        worth[place] = own.score
    return worth


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
    sure = maps.confidence.chance(top_features(chances, rows, example.query, for_parts(_legs(maps), example)))
    return gate, min(sure, most_by_meaning(chances, rows, example.overlap, example.idle))


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
