"""A run's budget: what it may use, and how its figures stand."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Interval

from orchestrator.common.fields import Give, Tokens, check, settings


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The tokens that a run may use. The warning comes at that share of what steps may use, before any refusal."""

    max_total_tokens: Tokens = 100_000
    max_tokens_per_step: Tokens = 16_000
    reserve_for_synthesis: Annotated[int, Ge(0), Give("0 or more tokens")] = 4_000
    warning_threshold: Annotated[float, Interval(gt=0, le=1), Give("a share above 0, at most 1")] = 0.8

    def validate(self) -> None:
        """Raise InvalidInput for limits that mean nothing; limits that let no step run are refusals, not errors."""
        check(self)


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
