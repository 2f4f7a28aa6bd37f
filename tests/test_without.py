"""What a task does without: deeds, things to be made, and things that another is wanted instead of."""

import pytest

from orchestrator.language.negation import split_negated
from tests.timing import seconds


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        ("calculate the payroll only, no submitting", "no submitting"),
        ("list the direct debits, no cancelling please", "no cancelling"),
        ("show the drafts, no sending yet", "no sending yet"),
        ("fetch the logs (no restarting)", "no restarting"),
        ("what's in my basket? no checkout please", "no checkout"),
        ("add it to my tasks, no calendar event please", "no calendar event"),
        ("create a bug for the login, no incident needed", "no incident needed"),
        ("draft the contract, no envelope for now", "no envelope for now"),
        ("book a desk, no zoom meeting please", "no zoom meeting"),
    ],
)
def test_a_deed_or_a_thing_that_is_not_asked_for_is_left_out(text: str, forbidden: str) -> None:
    asked, (found,) = split_negated(text)
    assert found == forbidden
    assert forbidden.split()[1] not in asked


@pytest.mark.parametrize(
    "text",
    [
        "book a hotel, no smoking",
        "find a flight, no changing planes",
        "a cake, no baking",
        "find a flat in Lisbon, no payment needed",
        "find the customers, no emails yet",
        "choose a phone plan, no invoice required",
        "order a pizza, no event",
        "rent a house, no living room",
        "list the customers with no sending address",
        "open a ticket: customers see no refund please",
        "note that I phoned Lena, no sequence needed",
    ],
)
def test_a_trait_of_what_is_sought_or_described_stays(text: str) -> None:
    assert split_negated(text) == (text, ())


@pytest.mark.parametrize(
    "text",
    [
        "no invoice yet, create one",
        "there is no invoice yet, create one",
        "order 12 shipped, no invoice yet, please create one",
        "no reminder yet; set one for Friday",
        "No draft yet. Write one to Ana",
        "no email yet, send one to Bo",
        "no messages yet, check the inbox",
        "no review yet, request one from Ana",
        "no refund at all, issue one now",
        "nudge the customer, no payment yet",
    ],
)
def test_what_is_missing_is_not_forbidden(text: str) -> None:
    assert split_negated(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        ("no push yet, just commit the change", "no push yet"),
        ("draft a note to Kim, no email yet", "no email yet"),
        ("no alert for now, only log the error", "no alert for now"),
        ("no meeting needed, just send the notes", "no meeting needed"),
        ("no emails, call the one who asked", "no emails"),
        ("create a task for Bo, no invoice at all", "no invoice at all"),
    ],
)
def test_what_shall_wait_or_is_not_needed_is_forbidden(text: str, forbidden: str) -> None:
    assert split_negated(text)[1] == (forbidden,)


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        ("they want a quote, not an invoice", "not an invoice"),
        ("we'd like a call, not an email", "not an email"),
        ("write this down in the vault rather than in a file: the code is 12", "rather than in a file"),
        ("put it in my vault, not as a task: call the bank", "not as a task"),
        ("post it in the channel instead of on a page", "instead of on a page"),
    ],
)
def test_what_another_thing_is_wanted_instead_of_is_left_out(text: str, forbidden: str) -> None:
    assert split_negated(text)[1] == (forbidden,)


@pytest.mark.parametrize(
    "text",
    [
        "they want to know why it is a text, not an email",
        "we want a report that is a table, not a chart",
        "they want it from the template, not as a new envelope",
        "answer in German, not in English",
        "deploy to staging, not to production",
    ],
)
def test_how_a_thing_shall_be_or_is_forbids_nothing(text: str) -> None:
    assert split_negated(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "asked", "forbidden"),
    [
        ("let's not email the customers, only tag the leads", "only tag the leads", "let's not email the customers"),
        ("never mind the invoice, just show the balance", "just show the balance", "never mind the invoice"),
        ("forget about the meeting; book a desk", "book a desk", "forget about the meeting"),
        ("don't you dare delete the bucket, list the pods", "list the pods", "don't you dare delete the bucket"),
        ("without touching production, roll back staging", "roll back staging", "without touching production"),
        ("rename the page without breaking any links", "rename the page ", "without breaking any links"),
    ],
)
def test_what_a_task_goes_on_from_or_leaves_as_it_is_is_left_out(text: str, asked: str, forbidden: str) -> None:
    assert split_negated(text) == (asked, (forbidden,))


@pytest.mark.parametrize(
    "text",
    [
        "never mind",
        "never mind that, show the balance",
        "Never mind the Gap",
        "forget Ana's birthday, remember Bo's",
        "don't forget the milk, add it to the list",
        "she will never forget the trip, write her a card",
    ],
)
def test_what_is_only_said_to_be_forgotten_stays(text: str) -> None:
    assert split_negated(text) == (text, ())


@pytest.mark.parametrize("repeated", [", no sending", ", no event please", ", not as a b", "no calling ", "we want a "])
def test_such_a_part_that_is_repeated_all_over_a_text_costs_no_time(repeated: str) -> None:
    text = f"list it{repeated * (3_900 // len(repeated))}"
    # It takes up to 30 ms.
    assert seconds(lambda: split_negated(text), runs=3) < 0.1
