"""The records of a run's budget: what it may use, and how its figures stand."""

from dataclasses import dataclass

from orchestrator.errors import InvalidInput
from orchestrator.records.forms import Form, check_forms


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use, in tokens. The warning comes at that share of what steps may use, before any refusal."""

    max_total_tokens: int = 100_000
    max_tokens_per_step: int = 16_000
    reserve_for_synthesis: int = 4_000
    warning_threshold: float = 0.8

    def validate(self) -> None:
        """Raises InvalidInput for limits that mean nothing; limits that let no step run are refusals, not errors."""
        check_forms(self, _LIMITS)
        for name in ("max_total_tokens", "max_tokens_per_step"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name}={getattr(self, name)!r}: give a number of tokens above 0")
        if self.reserve_for_synthesis < 0:
            raise InvalidInput(f"reserve_for_synthesis={self.reserve_for_synthesis!r}: give 0 or more tokens")
        if not 0 < self.warning_threshold <= 1:
            raise InvalidInput(f"warning_threshold={self.warning_threshold!r}: give a share above 0, at most 1")


_LIMITS: dict[str, Form] = {
    "max_total_tokens": ((int,), "a number of tokens above 0"),
    "max_tokens_per_step": ((int,), "a number of tokens above 0"),
    "reserve_for_synthesis": ((int,), "0 or more tokens"),
    "warning_threshold": ((int, float), "a share above 0, at most 1"),
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
