"""Where a dot ends no sentence: dates, titles, numbers, short words; and where it does."""

import pytest

from orchestrator.language.clauses import split_clauses, told_beside
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


@pytest.mark.parametrize(
    "task",
    [
        "No invoice yet for Acme, create one over 400 euros",
        "no ticket yet, open one for the broken projector",
        "no replies from Acme since Monday, send them a follow-up",
        "no direct flight to Dunhuang, what stopover works best?",
    ],
)
def test_what_is_missing_is_no_part_of_its_own(task: str) -> None:
    assert split_clauses(task) == [task]
    assert [part.text for part in cut_task(task)] == [task]


@pytest.mark.parametrize(
    "task",
    [
        "Here's a mail from a customer, please open a ticket from it",
        "You can go ahead and restart the api deployment",
        "This is urgent, page the engineer on call",
        "try and find the contract of Acme",
        "The report isn't in the bucket. Upload it",
        "Ana hasn't answered yet, remind her by text",
        "I don't need the report any more, delete it from the bucket",
        'Kim wrote: "please restart the api". Put that in a Jira issue',
    ],
)
def test_what_is_said_first_is_no_step_of_its_own(task: str) -> None:
    assert [part.text for part in cut_task(task)] == [task]


@pytest.mark.parametrize(
    ("first", "joint", "second"),
    [
        ("find users who haven't paid", ", then ", "email them"),
        ("where should we go", ", and ", "what does it cost?"),
        ("why doesn't the build run", ", and ", "who broke it?"),
        ("I want a quote that isn't binding", ", then ", "email it to Bo"),
        ("find the mail where Bo said yes", ". ", "Forward it to Ana"),
        ("look up what the lease says about pets", " and ", "email the landlord"),
        ("find out where Bo wants to go", " and ", "book a hotel there"),
        ("users who haven't paid since May", ", then ", "email them"),
        ("Don't forget to close the ticket", " and ", "email Ana"),
        ("any orders not shipped?", " ", "Email the customers"),
    ],
)
def test_what_is_asked_for_first_is_a_step(first: str, joint: str, second: str) -> None:
    assert [part.text for part in cut_task(f"{first}{joint}{second}")] == [first, second]


def test_what_is_missing_ends_where_the_tasks_begin() -> None:
    assert split_clauses("No draft of the offer yet. Write one to Ana") == ["Write one to Ana"]
    assert told_beside("No draft of the offer yet. Write one to Ana", ["Write one to Ana"]) == [
        "No draft of the offer yet"
    ]
    task = "There is no ticket for the projector, open one, then email Bo Berg"
    assert [part.text for part in cut_task(task)] == [task.partition(", then ")[0], "email Bo Berg"]
    task = "find a flat, no pets allowed, and book a viewing"
    assert [part.text for part in cut_task(task)] == ["find a flat, no pets allowed", "book a viewing"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("if the build fails, open a Jira issue", "tell the team in the channel"),
        ("Once the parcel is there, close ticket 9", "refund the postage"),
        ("For the offsite, book a room in Porto", "invite Bo Berg"),
        ("No idea how one pays that, so find the invoice", "send it to Kim Berg"),
    ],
)
def test_what_says_when_or_how_belongs_to_the_first_task_alone(first: str, second: str) -> None:
    assert split_clauses(f"{first}, then {second}") == [first, second]
    assert split_clauses(f"{first} and {second}") == [first, second]
    assert split_clauses(first) == [first]


@pytest.mark.parametrize("joint", ["; ", ". "])
def test_orders_in_lower_case_are_parts_of_their_own(joint: str) -> None:
    parts = ["cancel order 12", "refund charge ch_3", "mail Bo about it"]
    assert [part.text for part in cut_task(joint.join(parts))] == parts


@pytest.mark.parametrize("task", ["I have the file open; show me the tests", "list all kinds of e.g. read errors"])
def test_what_no_order_stands_before_is_no_part_in_lower_case(task: str) -> None:
    assert [part.text for part in cut_task(task)] == [task]
