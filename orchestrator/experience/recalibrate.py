"""Recalibrate: slope and bias of gate and confidence, fitted to what a tenant's Outcomes made of them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from orchestrator.index.calibration import Calibration, Correction
from orchestrator.records.outcome import Outcome

PRIOR = 10.0
"""The Outcomes that the shipped maps count as. Chosen on the development sets by `python -m research.experience`."""
LATEST = 500
"""The claims that are fitted to: what was claimed before much was known says little by now."""

Claimed = tuple[tuple[float, bool], ...]


@dataclass(frozen=True, kw_only=True)
class Claims:
    """The latest chances that routing gave its best tool, by the gate and by both legs, and which came true."""

    words: Claimed = ()
    both: Claimed = ()

    def plus(self, outcomes: Iterable[Outcome]) -> "Claims":
        """Return these with what was claimed of further tasks; one that failed says nothing."""
        words, both = list(self.words), list(self.both)
        for outcome in (outcome for outcome in outcomes if outcome.worked and outcome.chosen):
            for claim, claims in ((outcome.words, words), (outcome.both, both)):
                claims += [(claim.chance, claim.right)] if claim else []
        return Claims(words=tuple(words[-LATEST:]), both=tuple(both[-LATEST:]))

    @cached_property
    def gate(self) -> Correction:
        return Correction.fitted(self.words, PRIOR)

    @cached_property
    def confidence(self) -> Correction:
        return Correction.fitted(self.both, PRIOR)

    def on(self, base: Calibration) -> Calibration:
        """Return the maps with the gate corrected; the confidence is, once past tasks have moved it."""
        return replace(base, gate=self.gate.on(base.gate)) if self.words else base
