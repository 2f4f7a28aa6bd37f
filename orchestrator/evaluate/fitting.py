"""Fitting to one catalogue: from trials of its queries, labelled or made, to a Fit; and what that is worth.

A confidence is corrected by a slope and an offset on its log-odds, held near 1 and 0 by a prior, so that a few queries
move little.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from orchestrator.errors import InvalidInput
from orchestrator.evaluate import metrics
from orchestrator.evaluate.trials import Trial
from orchestrator.index import coverage as shipped_coverage
from orchestrator.index.coverage import Coverage, Legs, fit_thresholds
from orchestrator.index.fit import LEAST_SLOPE, Correction, Fit, log_odds
from orchestrator.options import Options
from orchestrator.records.request import MAX_LIMIT
from orchestrator.routing.found import Opening

PRIOR_LABELLED = 10.0
PRIOR_MADE = 200.0
"""How many queries the shipped map counts as, beside labelled queries and beside made ones: chosen on the development
sets (docs/calibration.md)."""
LEAST_QUERIES = 20
"""With fewer labelled queries there is nothing to fit."""
LEAST_FOR_COVERAGE = 50
FOLDS = 5
COVERAGE = 0.9
"""The coverage that cross-validation measures."""
MOST_REFUSED = 0.1
"""Most tasks have a tool: a floor that parts best, and refuses a fifth of them, costs more than it saves."""
_NEARLY = 0.02
"""Of two floors that part about as well the lower one refuses fewer tasks that a tool is there for."""
_FLOORS = np.arange(0.05, 0.96, 0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a fit is worth on queries that it has not seen.

    `ece`: calibration error of the confidence. `settled`, `precision`: share at the gate or above, and right of those.
    `none`: mean share of right answers whether any tool fits, with the right tools there and taken away. `refused`:
    share of the queries whose tool is there that end below the floor. `held`, `tools`: how often a coverage set of 0.9
    held all needed tools, and its mean size.
    """

    ece: float
    settled: float
    precision: float | None
    none: float
    refused: float
    held: float
    tools: float

    def worse_than(self, other: Self) -> tuple[str, ...]:
        """Which figures are worse than the other's, `held` only where it is below what was wanted, too."""
        worse = {
            "ece": self.ece > other.ece,
            "none": self.none < other.none,
            "refused": self.refused > other.refused,
            "held": self.held < min(other.held, COVERAGE),
        }
        return tuple(name for name in worse if worse[name])


def fit_made(trials: Sequence[Trial], options: Options, *, maps: bool) -> Fit:
    """From made queries: the floor; with `maps` the corrections of both maps, too."""
    fit = Fit(floor=fit_floor(trials, options.gate, options.floor))
    return _with_corrections(fit, trials, PRIOR_MADE) if maps else fit


def fit_labelled(trials: Sequence[Trial], options: Options) -> Fit:
    """From labelled queries: corrections, floor, and from LEAST_FOR_COVERAGE answerable ones on the thresholds of
    coverage sets.

    Raises InvalidInput for fewer than LEAST_QUERIES, and where the catalogue has no tool of any of them.
    """
    if len(trials) < LEAST_QUERIES:
        raise InvalidInput(f"{len(trials)} queries are too few to fit anything to: give {LEAST_QUERIES} or more")
    if not any(trial.answerable for trial in trials):
        raise InvalidInput("no query's tool is in the catalogue: name them as tools.jsonl does, server:name")
    return _fitted(trials, options, coverage=_enough_for_coverage(trials))


def _enough_for_coverage(trials: Sequence[Trial]) -> bool:
    return sum(trial.answerable for trial in trials) >= LEAST_FOR_COVERAGE


def _fitted(trials: Sequence[Trial], options: Options, *, coverage: bool) -> Fit:
    fit = _with_corrections(Fit(), trials, PRIOR_LABELLED)
    if coverage:
        own = [trial for trial in trials if trial.answerable]
        own_thresholds: dict[Legs, tuple[float, ...]] = {
            "keyword": fit_thresholds({"own": [trial.keyword.conformity for trial in own]}),
            "both": fit_thresholds({"own": [trial.both.conformity for trial in own]}),
        }
        fit = replace(fit, coverage=Coverage(thresholds=own_thresholds))
    return replace(fit, floor=fit_floor(trials, options.gate, options.floor, fit))


def _with_corrections(fit: Fit, trials: Sequence[Trial], prior: float) -> Fit:
    def correction(claims: Sequence[tuple[float, bool]]) -> Correction:
        found = [(confidence, right) for confidence, right in claims if confidence > 0]
        return fit_correction([c for c, _ in found], [right for _, right in found], prior)

    return replace(
        fit,
        gate=correction([(trial.keyword.confidence, trial.keyword.right) for trial in trials]),
        confidence=correction([(trial.both.confidence, trial.both.right) for trial in trials]),
    )


def cross_validated(trials: Sequence[Trial], options: Options) -> tuple[Worth, Worth]:
    """The worth of the shipped numbers, and of fits to four fifths of the queries on the fifth that they don't see;
    of queries that `fit_labelled` takes, and fitted what it fits to all of them."""
    folds = [trials[number::FOLDS] for number in range(FOLDS)]
    coverage = _enough_for_coverage(trials)
    parts = []
    for fold in folds:
        others = [trial for other in folds if other is not fold for trial in other]
        parts.append((_fitted(others, options, coverage=coverage), fold))
    return worth([(Fit(), fold) for fold in folds], options), worth(parts, options)


def worth(parts: Sequence[tuple[Fit, Sequence[Trial]]], options: Options) -> Worth:
    """Of fits, each on its trials, taken together."""
    claims = [corrected(fit, trial, options.gate) for fit, fold in parts for trial in fold]
    there, away = _over_the_floor(parts, options)
    confidences, right = [c for c, _ in claims], [r for _, r in claims]
    settled, precision = metrics.settled(confidences, right, options.gate)
    held, sizes = zip(*(_covers(fit, trial) for fit, fold in parts for trial in fold if trial.answerable), strict=True)
    return Worth(
        ece=round(metrics.calibration_error(confidences, right), 4),
        settled=round(settled, 4),
        precision=None if precision is None else round(precision, 4),
        none=round(metrics.balanced(there, away, 0.0), 4),
        refused=round(metrics.mean([over < 0 for over in there]), 4),
        held=round(metrics.mean(held), 4),
        tools=round(metrics.mean(sizes), 2),
    )


def _over_the_floor(parts: Sequence[tuple[Fit, Sequence[Trial]]], options: Options) -> tuple[list[float], list[float]]:
    """How far over the floor of its own fit each query is claimed, where its tool is there, and with it taken away."""
    there, away = [], []
    for fit, fold in parts:
        floor = fit.options(options).floor
        there += [corrected(fit, t, options.gate)[0] - floor for t in fold if t.answerable]
        away += [corrected_absent(fit, t, options.gate) - floor for t in fold]
    return there, away


def _covers(fit: Fit, trial: Trial) -> tuple[bool, int]:
    """Whether the coverage set holds all that is needed, and its size."""
    known = fit.coverage or shipped_coverage.shipped()
    count = known.smallest(trial.both.scores, COVERAGE, "both", most=MAX_LIMIT, everything=False).count
    return trial.both.needs <= count, count


def fit_correction(chances: ArrayLike, right: ArrayLike, prior: float) -> Correction:
    """The likeliest slope and offset, where the shipped map counts as `prior` queries; by Newton's method."""
    odds, truth = log_odds(np.asarray(chances, np.float64)), np.asarray(right, np.float64)
    inputs = np.column_stack([odds, np.ones(len(odds))])
    start = np.array([1.0, 0.0])
    solution = start.copy()
    for _ in range(50):
        claimed = 1 / (1 + np.exp(-np.clip(inputs @ solution, -30, 30)))
        slope = inputs.T @ (truth - claimed) - prior * (solution - start)
        curve = (inputs * (claimed * (1 - claimed))[:, None]).T @ inputs + prior * np.eye(2)
        step = np.linalg.solve(curve, slope)
        solution += step
        if np.abs(step).max() < 1e-7:
            break
    return Correction(slope=max(float(solution[0]), LEAST_SLOPE), offset=float(solution[1]))


def fit_floor(trials: Sequence[Trial], gate: float, usual: float, fit: Fit | None = None) -> float:
    """The lowest confidence that parts queries with their tools there from the same without them nearly best, and
    refuses no more than MOST_REFUSED of the former.

    The usual floor counts as PRIOR_MADE queries.
    """
    known = fit or Fit()
    there = [corrected(known, trial, gate)[0] for trial in trials if trial.answerable]
    away = [corrected_absent(known, trial, gate) for trial in trials]
    if not there:
        return usual
    floors: list[float] = _FLOORS.tolist()
    few = [floor for floor in floors if metrics.mean([claim < floor for claim in there]) <= MOST_REFUSED] or floors[:1]
    parted = [metrics.balanced(there, away, floor) for floor in few]
    best = next(floor for floor, right in zip(few, parted, strict=True) if right >= max(parted) - _NEARLY)
    blend = (best * len(trials) + usual * PRIOR_MADE) / (len(trials) + PRIOR_MADE)
    return round(min(blend, max(few)), 3)


def corrected(fit: Fit, trial: Trial, gate: float) -> tuple[float, bool]:
    """What routing would claim of the trial's query with the fit, and whether its best tool is right."""
    by_words = fit.gate or Correction()
    if _opens(by_words, trial.opening, gate):
        return by_words(trial.keyword.confidence), trial.keyword.right
    return (fit.confidence or Correction())(trial.both.confidence), trial.both.right


def corrected_absent(fit: Fit, trial: Trial, gate: float) -> float:
    """What routing would claim with the fit if the right tools were taken away."""
    by_words = fit.gate or Correction()
    if _opens(by_words, trial.opening_absent, gate):
        return by_words(trial.keyword.absent)
    return (fit.confidence or Correction())(trial.both.absent)


def _opens(by_words: Correction, opening: Opening, gate: float) -> bool:
    return min(by_words(opening.least), opening.most) >= gate
