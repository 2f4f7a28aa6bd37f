"""Where a dot ends no sentence: dates, titles, numbers, short words; and where it does."""

import pytest

from orchestrator.language.clauses import split_clauses
from orchestrator.language.negation import split_negated
from orchestrator.planning.seams import cut_task


@pytest.mark.parametrize(
    "task",
    [
        "Urlaub vom 3. bis 7. Juli beantragen",
        "Termin am 3.7. um 9 Uhr eintragen",
        "block my calendar on 3. July for the dentist",
        "cancel order no. 512 for the customer",
        "Find invoice Nr. 12 of Nowak",
        "Call Dr. Berg about the scan",
        "Find a seat for Prof. Weber near the window",
        "Book tickets for Leeds vs. Wigan on Friday",
        "find jobs at Acme Ltd. in Berlin",
        "Schedule the review at 3 p.m. on Friday",
        "Find the case Brown v. Harris from 1974",
        "show fig. 3 of the paper",
    ],
)
def test_a_dot_within_a_sentence_ends_no_part(task: str) -> None:
    assert split_clauses(task) == [task]
    assert [part.text for part in cut_task(task)] == [task]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Lösche Rechnung 12", "Und schick Ana eine Mail"),
        ("Cancel order 45", "April Jones wants a refund"),
        ("Book a desk for May 3", "Invite Bo to lunch"),
        ("Close ticket 4", "May I see invoice 12"),
        ("Schedule the call at 3 p.m", "Then email Bo"),
        ("Stop the job after 200 ms", "Restart the worker"),
        ("Email the minutes to Berg", "Find a room for Monday"),
    ],
)
def test_a_dot_behind_a_number_or_a_name_may_end_a_part(first: str, second: str) -> None:
    assert split_clauses(f"{first}. {second}") == [first, second]
    assert len(cut_task(f"{first}. {second}")) == 2


def test_what_is_forbidden_goes_on_behind_such_a_dot() -> None:
    assert split_negated("list the orders, but don't cancel order no. 5")[1] == ("don't cancel order no. 5",)
