"""A fit to labelled queries of one's own: a slope and an offset on the log-odds of gate and confidence.

Both are held near 1 and 0 by a prior, so that a few queries move little.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.errors import EmbedderUnavailable, InvalidInput
from orchestrator.evaluate import metrics
from orchestrator.evaluate.runner import Answer, QuerySet, answer_all, failures
from orchestrator.index.calibration import Calibration, Correction, Fit, shipped
from orchestrator.options import Options
from orchestrator.records.request import RouteHint
from orchestrator.runtime.router import Router

PRIOR = 10.0
"""The number of queries that the built-in map counts as. Chosen on the development
sets (docs/how-to/calibration.md)."""
LEAST_QUERIES = 20
FOLDS = 5
"""With LEAST_QUERIES, each fifth has only four queries. With fewer, the figures of a fold would say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The confidence of the gate, of the keyword leg and of both legs for one query, and whether the best tool
    is right.
    """

    gate: float
    keyword: tuple[float, bool]
    both: tuple[float, bool]

    def under(self, fit: Fit, gate: float) -> tuple[float, bool]:
        """Return the confidence of routing with this fit."""
        by_words = fit.gate or Correction()
        by_both = fit.confidence or Correction()
        if by_words(self.gate) >= gate:
            return by_words(self.keyword[0]), self.keyword[1]
        return by_both(self.both[0]), self.both[1]


async def try_all(
    query_set: QuerySet,
    options: Options,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    maps: Calibration | None = None,
) -> list[Trial]:
    """Return a Trial of each query, in order.

    Args:
        query_set: The queries.
        options: The settings.
        on_progress: Called with the number of finished queries and their total.
        maps: The maps. Default: the shipped maps.

    Raises:
        EmbedderUnavailable: Semantic search failed.
    """
    queries = query_set.queries
    total = 2 * len(queries)
    async with Router(
        query_set.catalogue, options=options, calibration=maps or shipped()
    ) as router:
        words = await answer_all(
            router,
            queries,
            route_hint=RouteHint.KEYWORD,
            on_progress=lambda n: on_progress(n, total),
        )
        both = await answer_all(
            router,
            queries,
            route_hint=RouteHint.SEMANTIC,
            on_progress=lambda n: on_progress(len(queries) + n, total),
        )
    for reason in failures(both):
        raise EmbedderUnavailable(reason)
    return [
        Trial(
            gate=by_words.decision.gate_confidence, keyword=_claim(by_words), both=_claim(by_both)
        )
        for by_words, by_both in zip(words, both, strict=True)
    ]


def _claim(answer: Answer) -> tuple[float, bool]:
    return answer.decision.confidence, not answer.query.relevant.isdisjoint(answer.ranked[:1])


def fitted(trials: Sequence[Trial]) -> Fit:
    """Return a fit to these trials. Raises InvalidInput for fewer than LEAST_QUERIES, or if none is right."""
    if len(trials) < LEAST_QUERIES:
        raise InvalidInput(
            f"{len(trials)} queries are too few for a fit: give {LEAST_QUERIES} or more"
        )
    if not any(trial.both[1] for trial in trials):
        raise InvalidInput(
            "routing finds no relevant tool of any query: write the keys as in tools.jsonl, server:name"
        )
    return _fit(trials)


def _fit(trials: Sequence[Trial]) -> Fit:
    return Fit(
        gate=Correction.fitted([trial.keyword for trial in trials], PRIOR),
        confidence=Correction.fitted([trial.both for trial in trials], PRIOR),
    )


def cross_validated(
    trials: Sequence[Trial], gate: float
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Return `worth` of the built-in numbers, and of fits to four fifths of the trials on the other fifth."""
    return _worth([trial.under(Fit(), gate) for trial in trials], gate), _worth(
        held_out(trials, gate), gate
    )


def held_out(trials: Sequence[Trial], gate: float) -> list[tuple[float, bool]]:
    """Return each trial's confidence by a fit to the other fifths, and whether its best tool is right."""
    claims = list[tuple[float, bool]]()
    for number in range(FOLDS):
        others = [trial for position, trial in enumerate(trials) if position % FOLDS != number]
        fit = _fit(others)
        claims += [trial.under(fit, gate) for trial in trials[number::FOLDS]]
    return claims


def _worth(claims: Sequence[tuple[float, bool]], gate: float) -> dict[str, float | None]:
    return metrics.confidence(*zip(*claims, strict=True), gate=gate)
