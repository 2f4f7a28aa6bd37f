"""Fitting to one catalogue: queries, labelled or made, are tried on it; from the trials come a Fit and its worth.

A confidence is corrected by a slope and an offset on its log-odds, held near 1 and 0 by a prior, so that a few queries
move little. The floor parts queries whose tool is there from the same queries asked of the catalogue without it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import EmbedderUnavailable, InvalidInput
from orchestrator.evaluate import metrics
from orchestrator.evaluate.runner import Answer, Query, failures
from orchestrator.index import coverage as shipped_coverage
from orchestrator.index.calibration import LEAST_SLOPE, Calibration, Correction, Fit, log_odds, shipped
from orchestrator.index.coverage import Coverage, Legs, conformity, fit_thresholds
from orchestrator.options import Options
from orchestrator.records.decision import Decision
from orchestrator.records.request import MAX_LIMIT, RouteHint, RouteRequest
from orchestrator.routing.router import Router

PRIOR_LABELLED, PRIOR_MADE = 10.0, 200.0
"""How many queries the built-in map counts as, against labelled queries and against made ones: chosen on the
development sets (docs/calibration.md)."""
LEAST_QUERIES = 20
LEAST_FOR_COVERAGE = 50
FOLDS = 5
COVERAGE = 0.9
"""The coverage that cross-validation measures."""
MOST_REFUSED = 0.1
"""Most tasks have a tool: a floor that parts best, and refuses a fifth of them, costs more than it saves."""
_NEARLY = 0.02
"""Of two floors that part about as well, the lower one refuses fewer tasks that have a tool."""
_FLOORS: list[float] = np.arange(0.05, 0.96, 0.05).tolist()
_HINTS: dict[Legs, RouteHint] = {"keyword": RouteHint.KEYWORD, "both": RouteHint.SEMANTIC}

Progress = Callable[[int, int], None]
"""Called with how many are done, of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """How sure the gate is; how sure the keyword leg and both legs are of their best tool, and whether it is right."""

    gate: float
    keyword: tuple[float, bool]
    both: tuple[float, bool]

    def under(self, fit: Fit, gate: float) -> tuple[float, bool]:
        """Return what routing would claim with this fit."""
        by_words, by_both = fit.gate or Correction(), fit.confidence or Correction()
        if by_words(self.gate) >= gate:
            return by_words(self.keyword[0]), self.keyword[1]
        return by_both(self.both[0]), self.both[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The scores of a query's best 50, best first, which of them it needs, and how many it needs in all."""

    scores: tuple[float, ...]
    needed: tuple[bool, ...]
    gold: int

    @property
    def conformity(self) -> float:
        return conformity(self.scores, self.needed, self.gold)

    @property
    def needs(self) -> float:
        """The number of best tools that hold all needed ones."""
        return (
            inf if sum(self.needed) < self.gold else max((n for n, own in zip(count(1), self.needed) if own), default=0)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One query tried on a catalogue, with its tools there and taken away. `ranked` is by both legs."""

    answerable: bool
    ranked: tuple[str, ...]
    there: Claims
    away: Claims
    best: Mapping[Legs, Best]


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
        """Return which figures are worse than the other's, `held` only where it is below what was wanted, too."""
        worse = {
            "ece": self.ece > other.ece,
            "none": self.none < other.none,
            "refused": self.refused > other.refused,
            "held": self.held < min(other.held, COVERAGE),
        }
        return tuple(name for name in worse if worse[name])


async def try_all(
    catalogue: Catalogue,
    queries: Sequence[Query],
    options: Options,
    on_progress: Progress = lambda done, total: None,
    *,
    maps: Calibration | None = None,
) -> list[Trial]:
    """Return a Trial of each query, in order, by the embedder of the options and the built-in maps, or by these.

    Of the queries a fifth at a time is asked of a catalogue without all their tools. Raises EmbedderUnavailable.
    """
    there: list[tuple[Claims, dict[Legs, Decision]]] = []
    away: dict[str, Claims] = {}
    done, maps = count(1), maps or shipped()
    async with Router(catalogue, options=options, calibration=maps) as router:
        for query in queries:
            deep = {legs: await _routed(router, query, hint, MAX_LIMIT) for legs, hint in _HINTS.items()}
            there.append((await _claims(router, query), deep))
            on_progress(next(done), 2 * len(queries))
        for fold in (queries[number::FOLDS] for number in range(FOLDS)):
            gone = frozenset().union(*(query.relevant for query in fold))
            rest = Catalogue([tool for tool in catalogue.tools if tool.key not in gone])
            async with Router(rest, embedder=router.embedder, options=options, calibration=maps) as without:
                for query in fold:
                    away[query.id] = await _claims(without, query)
                    on_progress(next(done), 2 * len(queries))
    return [
        Trial(
            answerable=not query.relevant.isdisjoint(catalogue.positions),
            ranked=tuple(match.tool.key for match in deep["both"].matches),
            there=claims,
            away=away[query.id],
            best={legs: _best(decision, query, catalogue) for legs, decision in deep.items()},
        )
        for query, (claims, deep) in zip(queries, there, strict=True)
    ]


async def _routed(router: Router, query: Query, hint: RouteHint, limit: int) -> Decision:
    decision = await router.route(RouteRequest(query=query.text, tenant="local", route_hint=hint, limit=limit))
    for reason in failures([Answer(query=query, decision=decision, ms=0.0)]):
        raise EmbedderUnavailable(reason)
    return decision


async def _claims(router: Router, query: Query) -> Claims:
    # At the usual limit: how sure routing is depends on how many candidates it looks at.
    keyword, both = [await _routed(router, query, hint, 10) for hint in _HINTS.values()]
    claims = [
        (decision.confidence, bool(decision.matches) and decision.matches[0].tool.key in query.relevant)
        for decision in (keyword, both)
    ]
    return Claims(gate=keyword.gate_confidence, keyword=claims[0], both=claims[1])


def _best(decision: Decision, query: Query, catalogue: Catalogue) -> Best:
    # By score, as coverage cuts: near-duplicates stand at the end of a Decision's matches.
    matches = sorted(decision.matches, key=lambda match: -match.score)
    return Best(
        scores=tuple(match.score for match in matches),
        needed=tuple(match.tool.key in query.relevant for match in matches),
        gold=sum(key in catalogue.positions for key in query.relevant),
    )


def fit_made(trials: Sequence[Trial], options: Options) -> Fit:
    """Return a fit to made queries: the floor alone, which the corrections fitted to them did not improve."""
    return Fit(floor=fit_floor(trials, options, Fit()))


def fit_labelled(trials: Sequence[Trial], options: Options) -> Fit:
    """Return a fit to labelled queries: corrections, floor, and with enough of them the thresholds of coverage sets.

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
    fit = Fit(
        gate=_correction([trial.there.keyword for trial in trials]),
        confidence=_correction([trial.there.both for trial in trials]),
    )
    if coverage:
        own = [trial.best for trial in trials if trial.answerable]
        thresholds = {legs: fit_thresholds({"own": [best[legs].conformity for best in own]}) for legs in _HINTS}
        fit = replace(fit, coverage=Coverage(thresholds=thresholds))
    return replace(fit, floor=fit_floor(trials, options, fit))


def _correction(claims: Sequence[tuple[float, bool]]) -> Correction:
    found = [(confidence, right) for confidence, right in claims if confidence > 0]
    return fit_correction([c for c, _ in found], [right for _, right in found], PRIOR_LABELLED)


def cross_validated(trials: Sequence[Trial], options: Options) -> tuple[Worth, Worth]:
    """Return the worth of the built-in numbers, and of fits to four fifths of the queries on the other fifth."""
    coverage = _enough_for_coverage(trials)
    folds = [trials[number::FOLDS] for number in range(FOLDS)]
    parts = []
    for fold in folds:
        others = [trial for other in folds if other is not fold for trial in other]
        parts.append((_fitted(others, options, coverage=coverage), fold))
    return worth([(Fit(), fold) for fold in folds], options), worth(parts, options)


def worth(parts: Sequence[tuple[Fit, Sequence[Trial]]], options: Options) -> Worth:
    """Return the worth of fits, each on its own trials, taken together."""
    pairs = [(fit, trial) for fit, fold in parts for trial in fold]
    confidences, right = zip(*(trial.there.under(fit, options.gate) for fit, trial in pairs), strict=True)
    settled, precision = metrics.settled(confidences, right, options.gate)
    # How far over the floor of its own fit each query is claimed, with its tool there and taken away.
    there = [t.there.under(fit, options.gate)[0] - fit.options(options).floor for fit, t in pairs if t.answerable]
    away = [t.away.under(fit, options.gate)[0] - fit.options(options).floor for fit, t in pairs]
    held, sizes = zip(*(_covers(fit, trial.best["both"]) for fit, trial in pairs if trial.answerable), strict=True)
    return Worth(
        ece=round(metrics.calibration_error(confidences, right), 4),
        settled=round(settled, 4),
        precision=None if precision is None else round(precision, 4),
        none=round(metrics.balanced(there, away, 0.0), 4),
        refused=round(metrics.mean([over < 0 for over in there]), 4),
        held=round(metrics.mean(held), 4),
        tools=round(metrics.mean(sizes), 2),
    )


def _covers(fit: Fit, best: Best) -> tuple[bool, int]:
    """Return whether the coverage set holds all that is needed, and its size."""
    known = fit.coverage or shipped_coverage.shipped()
    size = known.smallest(best.scores, COVERAGE, "both", most=MAX_LIMIT, everything=False).count
    return best.needs <= size, size


def fit_correction(chances: ArrayLike, right: ArrayLike, prior: float) -> Correction:
    """Return the likeliest slope and offset, where the built-in map counts as `prior` queries; by Newton's method."""
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


def fit_floor(trials: Sequence[Trial], options: Options, fit: Fit) -> float:
    """Return the lowest floor that parts nearly best and refuses at most MOST_REFUSED of the queries that have a tool.

    The usual floor counts as PRIOR_MADE queries.
    """
    there = [trial.there.under(fit, options.gate)[0] for trial in trials if trial.answerable]
    away = [trial.away.under(fit, options.gate)[0] for trial in trials]
    if not there:
        return options.floor
    few = [floor for floor in _FLOORS if metrics.mean([claim < floor for claim in there]) <= MOST_REFUSED]
    few = few or _FLOORS[:1]
    parted = [metrics.balanced(there, away, floor) for floor in few]
    best = next(floor for floor, right in zip(few, parted, strict=True) if right >= max(parted) - _NEARLY)
    blend = (best * len(trials) + options.floor * PRIOR_MADE) / (len(trials) + PRIOR_MADE)
    return round(min(blend, max(few)), 3)
