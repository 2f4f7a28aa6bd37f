"""Fits slope and bias of gate and confidence to the tenant's outcomes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from orchestrator.common.arrays import Mask
from orchestrator.experience.actors import newest, usual
from orchestrator.index.calibration import Calibration, Correction, log_odds
from orchestrator.records.outcome import Outcome

PRIOR = 5.0
"""The number of Outcomes that the built-in maps count as."""
LATEST = 500
"""The number of latest claims for a fit. Claims from the time when little was known are no longer informative."""
NEAR_GATE = 0.6
"""The minimum of the gate's claims for a fit. Lower claims are limited by their own bounds and do not
describe the map."""
SURE = 0.7
RIGHT = 0.85
LEAST = 20
DOUBT = 10
LOWERED = 0.5
"""If there are LEAST claims of SURE or more, the share RIGHT of them must come true, counted with DOUBT additional
claims of which .9 come true. This lowers the calibration error of overconfident maps from .031 to .025 and does not
change the others. At .87, a third of a set's high claims were lowered too. Log-odds are lowered by at most LOWERED:
after 100 Outcomes the mean calibration error is .078, and .087 without this limit, with as many right answers among the
high claims. Chosen on the development sets."""
_STEP = 0.1
"""The step in which the log-odds are lowered until enough claims come true."""

Claimed = tuple[tuple[float, bool, str], ...]
"""Pairs of a probability and whether it came true, with the actor."""


@dataclass(frozen=True, kw_only=True)
class Claims:
    """The latest chances that routing gave its best tool, by the gate and by both legs, and which came true."""

    words: Claimed = ()
    both: Claimed = ()

    def plus(self, outcomes: Iterable[Outcome]) -> "Claims":
        """Return these with further tasks' confidences. Failed tasks, and choices by routing alone, do not count."""
        words = list(self.words)
        both = list(self.both)
        for outcome in outcomes:
            if not (outcome.worked and outcome.chosen):
                continue
            if outcome.words:
                words.append((outcome.words.chance, outcome.words.right, outcome.actor))
            if outcome.both:
                both.append((outcome.both.chance, outcome.both.right, outcome.actor))
        return Claims(words=_latest(words), both=_latest(both))

    @cached_property
    def gate(self) -> Correction:
        return fitted(_usual([claim for claim in self.words if claim[0] >= NEAR_GATE]))

    @cached_property
    def confidence(self) -> Correction:
        return fitted(_usual(self.both))

    def on(self, base: Calibration) -> Calibration:
        """Return the maps with the gate corrected. The confidence is corrected after past tasks have changed it."""
        return replace(base, gate=self.gate.on(base.gate)) if self.words else base


def _latest(claims: Sequence[tuple[float, bool, str]]) -> Claimed:
    actors = [actor for *_, actor in claims]
    return tuple(newest(claims, actors, LATEST))


def _usual(claims: Sequence[tuple[float, bool, str]]) -> list[tuple[float, bool]]:
    """Return the claims, of one person as many as the median person has."""
    actors = [actor for *_, actor in claims]
    latest = newest(claims, actors, LATEST, usual(actors))
    return [(chance, came_true) for chance, came_true, _ in latest]


def fitted(claims: Sequence[tuple[float, bool]]) -> Correction:
    """Return the most likely correction, lowered until the confidences that stay high are right often enough."""
    correction = Correction.fitted(claims, PRIOR)
    if len(claims) < LEAST:
        return correction
    right = np.array([came_true for _, came_true in claims])
    corrected = [correction(chance) for chance, _ in claims]
    odds = log_odds(corrected, least=1e-6)
    sure = log_odds(SURE)
    lower = 0.0
    while lower < LOWERED and not _come_true(right[odds - lower >= sure]):
        lower += _STEP
    return replace(correction, offset=correction.offset - lower)


def _come_true(right: Mask) -> bool:
    """Return True if the high claims come true often enough, counted with DOUBT further claims."""
    return bool(right.sum() + DOUBT * 0.9 >= RIGHT * (len(right) + DOUBT))
