"""The fitted maps from features to probabilities, and the gate. Fitted by `python -m training.confidence`."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from operator import mul
from typing import Self

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import InvalidConfig
from orchestrator.index.features import ASKED, KEYWORD, SEMANTIC, Rows

Probabilities = NDArray[np.float64]
"""Shape [candidates]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticMap:
    """Logistic regression: probability = 1 / (1 + exp(-(bias + sum of weight * feature)))."""

    features: tuple[str, ...]
    weights: NDArray[np.float64]
    bias: float

    @classmethod
    def from_json(cls, name: str, record: dict[str, object]) -> Self:
        weights = record["weights"]
        if not isinstance(weights, dict) or not isinstance(record["bias"], int | float):
            raise InvalidConfig(f"calibration map {name!r} is broken: give weights by feature name, and a bias")
        return cls(
            features=tuple(weights), weights=np.array(list(weights.values()), np.float64), bias=float(record["bias"])
        )

    def __call__(self, rows: NDArray[np.float64], query: Sequence[float] | Rows = ()) -> Probabilities:
        """Probabilities [rows] for rows [rows, features] with columns in the order of `features`.

        The last columns may be given apart, as `query`: the same for every row, or [rows, columns]. What this map does
        not read of it is left out.
        """
        own = rows.shape[1]
        rest = self.weights[own:]
        same = np.asarray(query, np.float64)[..., : len(rest)] @ rest if len(rest) else 0.0
        return probability(rows @ self.weights[:own] + (same + self.bias))

    def chance(self, features: Sequence[float]) -> float:
        """The probability for one row."""
        odds = self.bias + sum(map(mul, self.weights.tolist(), features))
        return 1 / (1 + math.exp(-min(max(odds, -30.0), 30.0)))


def probability(odds: Probabilities) -> Probabilities:
    """Of log-odds, which are spent: their array is the answer's."""
    np.minimum(odds, 30, out=odds)
    np.maximum(odds, -30, out=odds)
    np.negative(odds, out=odds)
    np.exp(odds, out=odds)
    odds += 1
    return np.reciprocal(odds, out=odds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The five maps.

    `keyword` and `merged` give a tool's probability, by the keyword leg alone and by both; `semantic` by meaning alone;
    `gate` and `confidence` give the chance that the best tool is right, before and after the semantic leg.
    """

    keyword: LogisticMap
    semantic: LogisticMap
    merged: LogisticMap
    gate: LogisticMap
    confidence: LogisticMap


@cache
def shipped() -> Calibration:
    """The maps that come with the package (`orchestrator/data/calibration.json`)."""
    text = (files("orchestrator") / "data" / "calibration.json").read_text(encoding="utf-8")
    return from_json(json.loads(text))


def from_json(record: dict[str, dict[str, object]]) -> Calibration:
    """A Calibration from its JSON form; InvalidConfig names what is missing."""
    names = ("keyword", "semantic", "merged", "gate", "confidence")
    if missing := [name for name in names if name not in record]:
        raise InvalidConfig(f"calibration lacks the maps {', '.join(missing)}; run `python -m training.confidence`")
    return Calibration(**{name: LogisticMap.from_json(name, record[name]) for name in names})


TOP = ("best", "lead", "mass", "second_share", "held")
BEST_KEYWORD = ("kw_share_of_ceiling", "name_in_query", "query_in_name")
BEST_BOTH = ("cos_z", "cos_behind_best", "cos_server")
OF_QUERY = ("log_tools", "unknown")
GATE = (*TOP, *OF_QUERY, *BEST_KEYWORD)
"""What the gate reads: of all candidates' probabilities, of the query, and of the best candidate."""
CONFIDENCE = (*GATE, *BEST_BOTH, "far", "long", "surest")
"""What the confidence reads."""
FAR = 0.35
"""The cosine below which a tool that stands out of the others is still far from what was asked."""
LONG = math.log1p(16)
"""As `log_terms`: a task of so many terms asks for several things, of which one tool answers one."""

_KEYWORD_COLUMNS = [KEYWORD.index(name) for name in BEST_KEYWORD]
_BOTH_COLUMNS = [*_KEYWORD_COLUMNS, *((*KEYWORD, *SEMANTIC).index(name) for name in BEST_BOTH)]
_QUERY_COLUMNS = [ASKED.index(name) for name in OF_QUERY]
_IN_TOOL, _KNOWN = KEYWORD.index("query_in_tool"), ASKED.index("known_weight")
_TERMS, _UNKNOWN = ASKED.index("log_terms"), ASKED.index("unknown")
_COSINE = (*KEYWORD, *SEMANTIC).index("cos")


def top_features(
    probabilities: Probabilities, rows: Rows, query: Sequence[float], parts: Rows | None = None
) -> list[float]:
    """GATE, or CONFIDENCE where the candidates' rows have the semantic features too.

    TOP is the best candidate's log-odds, its lead over the runner-up in log-odds, the log of all candidates' mass, the
    runner-up's share of the two, and how much of what the query says the best candidate holds. `far`: how much its
    cosine lacks to FAR; `long`: how much more than LONG is asked; `surest`: its log-odds for the whole, or for one of
    the parts alone where these are more. parts: the candidates' chances for each part alone [parts, candidates].
    """
    clipped = probabilities.clip(1e-6, 1 - 1e-6).tolist()
    best, second = sorted([*clipped, 1e-6])[:-3:-1]
    odds = _log_odds(best)
    lead = odds - _log_odds(second)
    own = rows[clipped.index(best)].tolist()
    mass = math.log(sum(clipped))
    held = own[_IN_TOOL] * query[_KNOWN]
    top = [odds, lead, mass, second / (best + second), held, *map(query.__getitem__, _QUERY_COLUMNS)]
    if len(own) == len(KEYWORD):
        return [*top, *map(own.__getitem__, _KEYWORD_COLUMNS)]
    surest = best if parts is None or not len(parts) else max(best, float(parts[:, clipped.index(best)].max()))
    far, long = max(0.0, FAR - own[_COSINE]), max(0.0, query[_TERMS] - LONG)
    return [*top, *map(own.__getitem__, _BOTH_COLUMNS), far, long, _log_odds(min(surest, 1 - 1e-6))]


def _log_odds(chance: float) -> float:
    return math.log(chance / (1 - chance))


SEVERAL = 1.5
"""The least words, by their weight, that the gate believes a tool by: one alone has other meanings."""
ABOVE = 0.2
"""How much surer than the best tool's own chance the gate may be: it says how far the others are behind, too."""


def most_by_words(probabilities: Probabilities, rows: Rows, query: Sequence[float]) -> float:
    """The most that the gate believes the keyword leg's best candidate: twice the share of the query's words it holds,
    nothing where that is hardly more than one word, and little more than its own chance.

    "why does this SELECT take so long" shares one word in three with taking a screenshot; the fit knows such queries
    only with the right tool among those searched. And a tool that fits half fits no better where all others change
    what was only asked about.
    """
    if not len(probabilities):
        return 0.0
    best = int(np.argmax(probabilities))
    held = float(rows[best, _IN_TOOL]) * (1 - query[_UNKNOWN])
    few = held * math.expm1(query[_TERMS]) < SEVERAL
    return 0.0 if few else min(1.0, 2 * held, float(probabilities[best]) + ABOVE)


NOT_IDLE = -1.0
"""The cosine of a query with what needs no tool, where the embedder was not taught any: as far as can be."""


def most_by_meaning(probabilities: Probabilities, rows: Rows, overlap: NDArray[np.bool_], idle: float) -> float:
    """The most confidence that the best candidate's cosine supports; less where it shares no word with the query, and
    where the query is about as near to what needs no tool (idle, a cosine).

    In a catalogue of five tools one is always far ahead of the others, also for a query that means nothing. On small
    catalogues drawn from the development sets 8 % of the best tools without a shared word were right at a cosine of
    .25, 56 % at .45; and of those with one, none below .1. A query as near to what needs no tool as to its best tool
    ("good morning", and a tool's "last good version") is claimed with .3 at most, and from .1 nearer with nothing: of
    6,034 queries with an answer ten are, and six of these were right.
    """
    best = int(np.argmax(probabilities))
    cosine = float(rows[best, _COSINE])
    supported = 10 * (cosine - 0.16)
    if not overlap[best]:
        supported = min(supported, 2 * cosine - 0.2)
    return min(1.0, max(0.0, min(supported, 0.3 - 3 * (idle - cosine))))
