from typing import Any

import pytest
from hypothesis import given, strategies as st

from orchestrator import Limits
from orchestrator.errors import InvalidInput
from orchestrator.planning.budget import Budget, Verdict

STEP = 16_000


def test_the_sixth_full_step_is_refused_after_a_warning() -> None:
    budget = Budget()
    warned_at = 0
    for number in range(1, 6):
        assert budget.reserve(f"s{number}", STEP).verdict is Verdict.GRANTED
        budget.settle(f"s{number}", STEP)
        warned_at = warned_at or (budget.settled if budget.warnings else 0)
    refused = budget.reserve("s6", 1)
    assert warned_at == 64_000
    assert budget.warnings == ("budget: 64,000 of 80,000 tokens used, 1 steps left",)
    assert refused.verdict is Verdict.REFUSED
    assert "needs more than 16,000 remaining tokens, but 16,000 of 100,000 remain (80,000 used" in refused.reason
    assert budget.remaining == 16_000


def test_a_step_that_could_fit_later_waits() -> None:
    budget = Budget()
    for number in range(5):
        budget.reserve(f"s{number}", STEP)
    assert budget.reserve("late", STEP).verdict is Verdict.WAIT
    budget.settle("s0", 100)
    assert budget.reserve("late", STEP).verdict is Verdict.GRANTED


def test_an_overrun_is_settled_and_reported() -> None:
    budget = Budget()
    budget.reserve("s1", 1_000)
    budget.settle("s1", 1_200)
    assert budget.settled == 1_200
    assert budget.warnings == ("budget overrun: step s1 used 1,200 tokens, but only 1,000 were reserved",)


def test_limits_that_let_no_step_run_refuse_with_a_warning_first() -> None:
    budget = Budget(Limits(max_total_tokens=10_000))
    assert budget.warnings == ("budget: 10,000 tokens are too few for any step: give more than 20,000",)
    assert budget.steps_left == 0
    assert budget.reserve("s1", 10).verdict is Verdict.REFUSED


@pytest.mark.parametrize(
    "limits",
    [{"max_total_tokens": 0}, {"warning_threshold": 0}, {"max_tokens_per_step": 1.5}, {"reserve_for_synthesis": None}],
)
def test_limits_that_mean_nothing_are_refused_by_name_and_value(limits: dict[str, Any]) -> None:
    [(name, value)] = limits.items()
    with pytest.raises(InvalidInput, match=rf"^{name}={value!r}: give "):
        Limits(**limits).validate()


@pytest.mark.parametrize(
    ("most", "left", "fits"), [(16_000, 500, True), (16_000, 499, False), (50, 25, True), (50, 24, False), (1, 0, True)]
)
def test_a_step_needs_room_for_its_result(most: int, left: int, fits: bool) -> None:
    reason = Budget(Limits(max_tokens_per_step=most)).no_room("s1", left)
    assert (reason == "") is fits
    assert fits or f"leave only {left} of {most:,} tokens for its result" in reason


LIMITS = st.builds(
    Limits,
    max_total_tokens=st.integers(1, 200_000),
    max_tokens_per_step=st.integers(1, 40_000),
    reserve_for_synthesis=st.integers(0, 20_000),
)
SCHEDULE = st.lists(st.tuples(st.booleans(), st.integers(0, 60_000), st.floats(0, 1)), max_size=80)


@given(limits=LIMITS, schedule=SCHEDULE)
def test_no_schedule_of_parallel_steps_overspends(limits: Limits, schedule: list[tuple[bool, int, float]]) -> None:
    """Steps start and settle in any order, and each uses any share of its allowance."""
    budget, running = Budget(limits), {}
    usable = limits.max_total_tokens - limits.reserve_for_synthesis
    for number, (start, estimate, share) in enumerate(schedule):
        if start or not running:
            answer = budget.reserve(f"s{number}", estimate)
            if answer.verdict is Verdict.GRANTED:
                running[f"s{number}"] = answer.allowance
            if answer.verdict is Verdict.WAIT:
                assert running
            if answer.verdict is Verdict.REFUSED:
                assert any(text.startswith("budget:") for text in budget.warnings)
        else:
            step, allowance = running.popitem()
            budget.settle(step, int(share * allowance))
        assert budget.settled + budget.reserved <= max(usable, 0)
        assert budget.report().remaining == usable - budget.settled - budget.reserved
    for step, allowance in running.items():
        budget.settle(step, allowance)
    assert budget.settled <= max(usable, 0)


@given(limits=LIMITS)
def test_steps_left_is_how_many_full_steps_still_start(limits: Limits) -> None:
    budget = Budget(limits)
    promised, started = budget.steps_left, 0
    while started <= 500 and budget.reserve(f"s{started}", limits.max_tokens_per_step).verdict is Verdict.GRANTED:
        started += 1
    assert started == promised or started > 500
