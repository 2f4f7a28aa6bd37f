"""A run's token budget: reserved before a step, settled after it. It is plain arithmetic, so workflow code may use it.

The tokens in use are settled + reserved. The remaining tokens are max_total - used - reserve. A step may start
while the remaining tokens are more than max_per_step. A step's reservation is also its limit, so parallel
steps cannot overspend.
"""

from dataclasses import dataclass
from enum import StrEnum

from orchestrator.records.budget import BudgetReport, Limits

LEAST_RESULT_TOKENS = 500
"""The tokens of a step that its result needs at least, or half of a smaller limit. A call without room
for its result is useless."""


class Verdict(StrEnum):
    """The budget's answer to a step that wants to start."""

    GRANTED = "granted"
    WAIT = "wait"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The budget's answer.

    Attributes:
        verdict: The answer.
        allowance: The tokens that the step may use, if it may start.
        reason: Why it may not start.
    """

    verdict: Verdict
    allowance: int = 0
    reason: str = ""


class Budget:
    """The reservations and settlements of one run.

    Attributes:
        limits: The run's limits, already validated.
        settled: The tokens that were used.
        warnings: The warnings in order: one at the threshold, and one for every overrun.
    """

    def __init__(
        self, limits: Limits | None = None, *, settled: int = 0, warnings: tuple[str, ...] = ()
    ) -> None:
        self.limits = limits or Limits()
        self.settled = settled
        self.warnings = warnings
        self._reserved: dict[str, int] = {}
        self._warn()

    @property
    def reserved(self) -> int:
        """The tokens that are reserved for running steps."""
        return sum(self._reserved.values())

    @property
    def remaining(self) -> int:
        """The tokens that steps may still use, without the reserve for the answer."""
        return (
            self.limits.max_total_tokens
            - self.limits.reserve_for_synthesis
            - self.settled
            - self.reserved
        )

    @property
    def steps_left(self) -> int:
        """The number of further steps that may start, if each uses its maximum."""
        return max(0, -(-self.remaining // max(1, self.limits.max_tokens_per_step)) - 1)

    @property
    def for_planning(self) -> int:
        """The tokens that planning may use so that a step can still start."""
        return max(0, self.remaining - self.limits.max_tokens_per_step - 1)

    def reserve(self, step: str, estimate: int) -> Grant:
        """Grant `min(estimate, max_tokens_per_step)` to the step, let it wait for others, or refuse it.

        Waiting helps while other steps have reservations that they may not use up. Without those, the answer is final.
        """
        if step in self._reserved:
            raise ValueError(f"step {step!r} already has a reservation: settle it first")
        limit = self.limits.max_tokens_per_step
        if self.remaining > limit:
            allowance = max(0, min(estimate, limit))
            self._reserved[step] = allowance
            return Grant(verdict=Verdict.GRANTED, allowance=allowance)
        verdict = Verdict.WAIT if self.remaining + self.reserved > limit else Verdict.REFUSED
        return Grant(verdict=verdict, reason=self._reason(step))

    def no_room(self, step: str, left: int) -> str:
        """Return the reason for not calling a step with `left` tokens for its result. Empty if they are enough."""
        most = self.limits.max_tokens_per_step
        if left >= min(LEAST_RESULT_TOKENS, most // 2):
            return ""
        return (
            f"budget: the arguments of step {step} leave only {max(0, left):,} of {most:,} tokens for its result: "
            "shorten the arguments, or raise max_tokens_per_step"
        )

    def settle(self, step: str, used: int) -> None:
        """Replace the step's reservation with the tokens that it used."""
        if step not in self._reserved:
            raise ValueError(f"step {step!r} has no reservation")
        self.charge(f"step {step}", used, self._reserved.pop(step))

    def charge(self, what: str, used: int, granted: int) -> None:
        """Count used tokens. Add a warning if more were used than granted.

        Args:
            what: The name of the user, for the warning.
            used: The used tokens.
            granted: The granted tokens.
        """
        self.settled += max(0, used)
        if used > granted:
            self.warnings += (
                f"budget overrun: {what} used {used:,} tokens, but only {granted:,} were reserved",
            )
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
        """Warn once, at the threshold of the tokens that steps may use before the first refusal (64,000 by default).

        Reservations do not count, because parallel steps reserve far more than they use.
        """
        limits = self.limits
        needed = limits.max_tokens_per_step + limits.reserve_for_synthesis
        usable = limits.max_total_tokens - needed
        if self.settled < limits.warning_threshold * usable or any(
            w.startswith("budget:") for w in self.warnings
        ):
            return
        if usable > 0:
            text = (
                f"budget: {self.settled:,} of {usable:,} tokens used, {self.steps_left} steps left"
            )
        else:
            text = f"budget: {limits.max_total_tokens:,} tokens are too few for any step: give more than {needed:,}"
        self.warnings += (text,)

    def _reason(self, step: str) -> str:
        limits = self.limits
        return (
            f"budget: step {step} needs more than {limits.max_tokens_per_step:,} remaining tokens, but "
            f"{max(0, self.remaining):,} of {limits.max_total_tokens:,} remain ({self.settled:,} used, "
            f"{self.reserved:,} reserved, {limits.reserve_for_synthesis:,} kept for the answer)"
        )
