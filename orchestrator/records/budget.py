"""The budget of a run: its limits and its current figures."""

from dataclasses import dataclass
from typing import Annotated

from orchestrator.common.fields import Give, Tokens, check, settings


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The tokens that a run may use.

    Attributes:
        max_total_tokens: Tokens for the whole run.
        max_tokens_per_step: Tokens for one step.
        reserve_for_synthesis: Tokens that stay free for the answer.
        warning_threshold: The share of the steps' tokens, above 0 and at most 1, from which the report has a warning.
            The warning comes before any step is refused.

    Examples:
        >>> from orchestrator import Limits
        >>> Limits(max_total_tokens=20_000).reserve_for_synthesis
        4000
    """

    max_total_tokens: Tokens = 100_000
    max_tokens_per_step: Tokens = 16_000
    reserve_for_synthesis: Annotated[int, Give("0 or more tokens", ge=0)] = 4_000
    warning_threshold: Annotated[float, Give("a number above 0, at most 1", gt=0, le=1)] = 0.8

    def validate(self) -> None:
        """Check the values. Limits that are too small for any step are valid: the run refuses its steps then.

        Raises:
            InvalidInput: A value is out of range.
        """
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """The budget of a run, in tokens.

    The tokens in use are `settled + reserved`. The rest is `remaining = max_total_tokens - settled - reserved
    - reserve_for_synthesis`.

    Attributes:
        max_total_tokens: The limit of the whole run.
        max_tokens_per_step: The limit of one step.
        reserve_for_synthesis: Tokens that stay free for the answer.
        settled: Tokens that finished steps used.
        reserved: Tokens that are reserved for running steps.
        remaining: Tokens that further steps may use.
        steps_left: The number of steps that `remaining` allows.
        warnings: Warnings, such as a nearly used budget.

    Examples:
        >>> from orchestrator import BudgetReport
        >>> report = BudgetReport(
        ...     max_total_tokens=10_000, max_tokens_per_step=2_000, reserve_for_synthesis=4_000,
        ...     settled=1_000, reserved=0, remaining=5_000, steps_left=2,
        ... )
        >>> report.remaining
        5000
    """

    max_total_tokens: int
    max_tokens_per_step: int
    reserve_for_synthesis: int
    settled: int
    reserved: int
    remaining: int
    steps_left: int
    warnings: tuple[str, ...] = ()
