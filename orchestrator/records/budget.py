"""A run's budget: what it may use, and how its figures stand."""

from dataclasses import dataclass

from orchestrator.common.forms import TOKENS, Form, check_forms


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The tokens that a run may use. The warning comes at that share of what steps may use, before any refusal."""

    max_total_tokens: int = 100_000
    max_tokens_per_step: int = 16_000
    reserve_for_synthesis: int = 4_000
    warning_threshold: float = 0.8

    def validate(self) -> None:
        """Raise InvalidInput for limits that mean nothing; limits that let no step run are refusals, not errors."""
        check_forms(self, _LIMITS)


_LIMITS = {
    "max_total_tokens": TOKENS,
    "max_tokens_per_step": TOKENS,
    "reserve_for_synthesis": Form((int,), "0 or more tokens", lambda tokens: tokens >= 0),
    "warning_threshold": Form((int, float), "a share above 0, at most 1", lambda share: 0 < share <= 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """A run's budget in tokens: used = settled + reserved; remaining = max_total - used - reserve."""

    max_total_tokens: int
    max_tokens_per_step: int
    reserve_for_synthesis: int
    settled: int
    reserved: int
    remaining: int
    steps_left: int
    warnings: tuple[str, ...] = ()
