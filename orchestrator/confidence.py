"""The fitted maps from features to probabilities, and the gate. Fitted by `python -m training.confidence`."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Self

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import InvalidConfig

Probabilities = NDArray[np.float64]


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

    def __call__(self, rows: NDArray[np.float64]) -> Probabilities:
        """Probabilities [rows] for rows [rows, features] with columns in the order of `features`."""
        return 1 / (1 + np.exp(-np.clip(rows @ self.weights + self.bias, -30, 30)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The four maps.

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


TOP = ("best", "lead", "mass", "second_share", "log_terms", "log_tools", "unknown")
"""What the gate and the confidence read, of all candidates' probabilities and the query."""


def top_features(probabilities: Probabilities, query: list[float]) -> NDArray[np.float64]:
    """One row of TOP: the best's log-odds, its lead, the log of all candidates' mass, the runner-up's share."""
    ordered = np.sort(np.clip(probabilities, 1e-6, 1 - 1e-6))[::-1]
    best = float(ordered[0])
    second = float(ordered[1]) if len(ordered) > 1 else 1e-6
    odds = float(np.log(best / (1 - best)))
    lead = odds - float(np.log(second / (1 - second)))
    return np.array([[odds, lead, float(np.log(ordered.sum())), second / (best + second), *query]])
