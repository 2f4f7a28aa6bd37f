"""A run's token budget: reserved before a step, settled after it. Pure arithmetic, so workflow code may use it.

used = settled + reserved; remaining = max_total - used - reserve; a step may start while remaining > max_per_step. A
step's reservation is also its limit, so concurrent steps cannot overspend.
"""

from dataclasses import dataclass
from enum import StrEnum

from orchestrator.records.budget import BudgetReport, Limits

LEAST_RESULT_TOKENS = 500
"""Of a step's allowance, for its result, or half of a smaller limit: a call whose result is thrown away is no use."""


class Verdict(StrEnum):
    """The budget's answer to a step that wants to start."""

    GRANTED = "granted"
    WAIT = "wait"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The guard's answer: the verdict, the tokens that the step may use when granted, and the reason when not."""

    verdict: Verdict
    allowance: int = 0
    reason: str = ""


class Budget:
    """Reservations and settlements of one run, which owns it.

    Attributes:
        limits: The run's limits, which the run has validated.
        settled: Tokens that were used.
        warnings: The warnings in order: one at the threshold, one for every overrun.
    """

    def __init__(self, limits: Limits | None = None, *, settled: int = 0, warnings: tuple[str, ...] = ()) -> None:
        self.limits = limits or Limits()
        self.settled = settled
        self.warnings = warnings
        self._reserved: dict[str, int] = {}
        self._warn()

    @property
    def reserved(self) -> int:
        """Tokens that are reserved for steps that run now."""
        return sum(self._reserved.values())

    @property
    def remaining(self) -> int:
        """Tokens that steps may still use, without the reserve for the answer."""
        return self.limits.max_total_tokens - self.limits.reserve_for_synthesis - self.settled - self.reserved

    @property
    def steps_left(self) -> int:
        """The number of further steps that may start, each taking the most that a step may."""
        return max(0, -(-self.remaining // max(1, self.limits.max_tokens_per_step)) - 1)

    @property
    def for_planning(self) -> int:
        """Tokens that planning may take so that a step can start after it."""
        return max(0, self.remaining - self.limits.max_tokens_per_step - 1)

    def reserve(self, step: str, estimate: int) -> Grant:
        """Grant `min(estimate, max_tokens_per_step)` to the step, make it wait for others, or refuse it.

        Waiting helps while other steps have reservations that they may not use completely. Otherwise the answer is
        final.
        """
        if step in self._reserved:
            raise ValueError(f"step {step!r} holds a reservation already: settle it first")
        if self.remaining > self.limits.max_tokens_per_step:
            allowance = max(0, min(estimate, self.limits.max_tokens_per_step))
            self._reserved[step] = allowance
            return Grant(verdict=Verdict.GRANTED, allowance=allowance)
        can_fit_later = self.remaining + self.reserved > self.limits.max_tokens_per_step
        return Grant(verdict=Verdict.WAIT if can_fit_later else Verdict.REFUSED, reason=self._reason(step))

    def no_room(self, step: str, left: int) -> str:
        """Return the reason why a step with `left` tokens for its result is not called, or ""."""
        most = self.limits.max_tokens_per_step
        if left >= min(LEAST_RESULT_TOKENS, most // 2):
            return ""
        return (
            f"budget: of the {most:,} tokens that a step may take, the arguments of {step} leave {max(0, left):,} for "
            "its result: give it less, or raise max_tokens_per_step"
        )

    def settle(self, step: str, used: int) -> None:
        """Replace the step's reservation by the tokens that it used."""
        if step not in self._reserved:
            raise ValueError(f"step {step!r} holds no reservation")
        self.charge(f"step {step}", used, self._reserved.pop(step))

    def charge(self, what: str, used: int, granted: int) -> None:
        """Count used tokens. Warn if more were used than granted.

        Args:
            what: The user of the tokens, for the warning.
            used: The used tokens.
            granted: The granted tokens.
        """
        self.settled += max(0, used)
        if used > granted:
            self.warnings += (f"overrun: {what} took {used:,} tokens of {granted:,} granted",)
        self._warn()

    def report(self) -> BudgetReport:
        """Return the current figures."""
        limits = self.limits
        return BudgetReport(
            max_total_tokens=limits.max_total_tokens,
            max_tokens_per_step=limits.max_tokens_per_step,
            reserve_for_synthesis=limits.reserve_for_synthesis,
            settled=self.settled,
            reserved=self.reserved,
            remaining=self.remaining,
            steps_left=self.steps_left,
            warnings=self.warnings,
        )

    def _warn(self) -> None:
        """Warn once, when steps reach the threshold of the tokens before the first refusal, by default 64,000.

        Reservations do not count, because concurrent steps reserve far more than they use.
        """
        limits = self.limits
        needed = limits.max_tokens_per_step + limits.reserve_for_synthesis
        usable = limits.max_total_tokens - needed
        if self.settled < limits.warning_threshold * usable or any(w.startswith("budget:") for w in self.warnings):
            return
        if usable > 0:
            text = f"budget: {self.settled:,} of {usable:,} tokens used, {self.steps_left} steps left"
        else:
            text = f"budget: {limits.max_total_tokens:,} tokens let no step start: give more than {needed:,}"
        self.warnings += (text,)

    def _reason(self, step: str) -> str:
        limits = self.limits
        return (
            f"budget: step {step} may start while more than {limits.max_tokens_per_step:,} tokens remain; "
            f"{max(0, self.remaining):,} remain of {limits.max_total_tokens:,} ({self.settled:,} used, "
            f"{self.reserved:,} reserved, {limits.reserve_for_synthesis:,} kept for the answer)"
        )
