"""What routing is held to on the development sets: the target beside the figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.claims import area, auc, error_of_the_perfect
from benchmarks.judging import GATE, Judged
from orchestrator.evaluate.metrics import calibration_error, settled

MANY = 300
"""Sets with fewer queries say too little of calibration to be held to it one by one."""
Means = Mapping[str, tuple[float, float]]
"""A way of ranking to its recall at 5 and at 10, the mean over the sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What the confidence was worth on one set, or on all."""

    queries: int
    right: float
    error: float
    error_if_perfect: float
    settled: float
    precision: float
    gate_open: float
    area: float
    area_of_oracle: float
    auc: float


def claims_of(judged: Sequence[Judged]) -> Claims:
    claimed, removed = (np.array([getattr(row, name) for row in judged]) for name in ("confidence", "removed"))
    right = np.array([float(row.right) for row in judged])
    share, precision = settled(claimed, right, GATE)
    return Claims(
        queries=len(judged),
        right=float(right.mean()),
        error=calibration_error(claimed, right),
        error_if_perfect=error_of_the_perfect(claimed),
        settled=share,
        precision=1.0 if precision is None else precision,
        gate_open=float(np.mean([row.gate >= GATE for row in judged])),
        area=area(claimed, right),
        area_of_oracle=area(right, right),
        auc=auc(claimed, removed),
    )


def target_table(ranked: Means, peer: Means, sets: Mapping[str, Claims], pooled: Claims) -> list[str]:
    """Each target, the figure of `auto`, and whether it is met."""
    auto, fastmcp = ranked["auto"], peer["FastMCP"]
    means = {name: float(np.mean([getattr(one, name) for one in sets.values()])) for name in ("settled", "precision")}
    over = [(one.error - one.error_if_perfect, name) for name, one in sets.items() if one.queries >= MANY]
    most, where = max(over, default=(0.0, "none is read"))
    low, of = min((one.area / one.area_of_oracle, name) for name, one in sets.items())
    rows = [
        ("miss rate at 10, mean of the sets", 1 - auto[1], "<", (1 - fastmcp[1]) / 2, "half of FastMCP's"),
        ("miss rate at 5", 1 - auto[0], "<", 0.56 * (1 - fastmcp[0]), "0.56 of FastMCP's"),
        ("calibration error, pooled", pooled.error, "<", 0.03, ""),
        (f"above the perfect's, worst set of {MANY}+ queries ({where})", most, "<", 0.03, ""),
        ("settled, mean of the sets", means["settled"], ">", 0.4, ""),
        ("precision of the settled, mean of the sets", means["precision"], ">", 0.85, ""),
        ("area under risk and coverage, pooled, of the oracle's", pooled.area / pooled.area_of_oracle, ">", 0.8, ""),
        (f"the same, worst set ({of})", low, ">", 0.8, ""),
        ("AUC of present against removed, pooled", pooled.auc, ">", 0.8, ""),
        ("the same, worst set", min(one.auc for one in sets.values()), ">", 0.8, ""),
    ]
    lines = ["| | figure | target | |", "| --- | ---: | ---: | --- |"]
    for name, figure, side, target, of_what in rows:
        met = figure <= target if side == "<" else figure >= target
        said = f"{'at most' if side == '<' else 'at least'} {target:.3f}{f', {of_what}' if of_what else ''}"
        lines.append(f"| {name} | {figure:.3f} | {said} | {'met' if met else '**not met**'} |")
    return lines
