"""A run's token budget: reserved before a step, settled after it. Plain arithmetic, so workflow code may use it.

used = settled + reserved; remaining = max_total - used - reserve; a step may start while remaining > max_per_step.
A step's reservation is also the allowance that is enforced inside it, so steps side by side cannot overspend.
"""

from dataclasses import dataclass
from enum import StrEnum

from orchestrator.records.budget import BudgetReport, Limits

LEAST_RESULT_TOKENS = 500
"""Of a step's allowance, for its result, or half of a smaller limit: a call whose result is thrown away is no use."""


class Verdict(StrEnum):
    """What the guard says to a step that wants to start."""

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
    """Reservations and settlements of one run, which owns it. Limits from outside are validated by the run."""

    def __init__(self, limits: Limits | None = None, *, settled: int = 0, warnings: tuple[str, ...] = ()) -> None:
        self.limits = limits or Limits()
        self._settled = settled
        self._reserved: dict[str, int] = {}
        self._warnings = list(warnings)
        self._warned = any(text.startswith("budget:") for text in warnings)
        self._warn()

    @property
    def settled(self) -> int:
        """Tokens really used."""
        return self._settled

    @property
    def reserved(self) -> int:
        """Tokens promised to steps that run now."""
        return sum(self._reserved.values())

    @property
    def remaining(self) -> int:
        """Tokens that steps may still take; the reserve for the synthesis is never among them."""
        return self._for_steps - self._settled - self.reserved

    @property
    def steps_left(self) -> int:
        """The number of further steps that may start, each taking the most that a step may."""
        return max(0, -(-self.remaining // max(1, self.limits.max_tokens_per_step)) - 1)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings in order: of the threshold once, of every overrun."""
        return tuple(self._warnings)

    def reserve(self, step: str, estimate: int) -> Grant:
        """Grant `min(estimate, max_tokens_per_step)` to the step, tell it to wait for others, or refuse it.

        Waiting helps while others hold reservations that they may not use up; without them the answer is final.
        """
        if step in self._reserved:
            raise ValueError(f"step {step!r} holds a reservation already: settle it first")
        if self.remaining > self.limits.max_tokens_per_step:
            allowance = max(0, min(estimate, self.limits.max_tokens_per_step))
            self._reserved[step] = allowance
            self._warn()
            return Grant(verdict=Verdict.GRANTED, allowance=allowance)
        if self.remaining + self.reserved > self.limits.max_tokens_per_step:
            return Grant(verdict=Verdict.WAIT, reason=self._reason(step))
        return Grant(verdict=Verdict.REFUSED, reason=self._reason(step))

    def no_room(self, step: str, left: int) -> str:
        """Return why a step is not called that has `left` tokens for its result; "" where they are enough."""
        most = self.limits.max_tokens_per_step
        if left >= min(LEAST_RESULT_TOKENS, most // 2):
            return ""
        return (
            f"budget: of the {most:,} tokens that a step may take, the arguments of {step} leave {max(0, left):,} for "
            "its result: give it less, or raise max_tokens_per_step"
        )

    def settle(self, step: str, used: int) -> None:
        """Replace the step's reservation by what it really used; more than was granted counts and is reported."""
        if step not in self._reserved:
            raise ValueError(f"step {step!r} holds no reservation")
        granted = self._reserved.pop(step)
        self._settled += max(0, used)
        if used > granted:
            self._warnings.append(f"overrun: step {step} used {used:,} tokens of {granted:,} reserved")
        self._warn()

    @property
    def for_planning(self) -> int:
        """Tokens that planning may take so that a step can start after it."""
        return max(0, self.remaining - self.limits.max_tokens_per_step - 1)

    def charge(self, what: str, used: int, granted: int) -> None:
        """Count tokens that no step reserved, those of planning or of the answer; report more than was granted."""
        self._settled += max(0, used)
        if used > granted:
            self._warnings.append(f"overrun: {what} took {used:,} tokens of {granted:,} granted")
        self._warn()

    def report(self) -> BudgetReport:
        """Return the figures as they stand."""
        limits = self.limits
        return BudgetReport(
            max_total_tokens=limits.max_total_tokens,
            max_tokens_per_step=limits.max_tokens_per_step,
            reserve_for_synthesis=limits.reserve_for_synthesis,
            settled=self._settled,
            reserved=self.reserved,
            remaining=self.remaining,
            steps_left=self.steps_left,
            warnings=self.warnings,
        )

    @property
    def _for_steps(self) -> int:
        return self.limits.max_total_tokens - self.limits.reserve_for_synthesis

    def _warn(self) -> None:
        """Warn once, at the threshold of what steps may use before the first refusal: 64,000 by default.

        Reservations do not count: steps side by side reserve far more than they use.
        """
        usable = self._for_steps - self.limits.max_tokens_per_step
        used = self._settled
        if self._warned or used < self.limits.warning_threshold * usable:
            return
        self._warned = True
        if usable > 0:
            self._warnings.append(f"budget: {used:,} of {usable:,} tokens used, {self.steps_left} steps left")
        else:
            needed = self.limits.max_tokens_per_step + self.limits.reserve_for_synthesis
            total = self.limits.max_total_tokens
            self._warnings.append(f"budget: {total:,} tokens let no step start: give more than {needed:,}")

    def _reason(self, step: str) -> str:
        limits = self.limits
        return (
            f"budget: step {step} may start while more than {limits.max_tokens_per_step:,} tokens remain; "
            f"{max(0, self.remaining):,} remain of {limits.max_total_tokens:,} ({self._settled:,} used, "
            f"{self.reserved:,} reserved, {limits.reserve_for_synthesis:,} kept for the answer)"
        )
