"""What a part of a task wants: to be told, to have something changed, or nothing that it says."""

import pytest

from orchestrator.language.modes import CHANGES, TELLS, TELLS_OF_A_DEED, UNSAID
from orchestrator.language.wanted import wanted
from tests.timing import seconds


@pytest.mark.parametrize(
    "task",
    [
        "which deals are about to close?",
        "show me the open issues",
        "could you please look up the invoice",
        "charts installed?",
        "give me the price of gold",
        "I'd like you to find customer Nowak",
        "Welche Rechnungen sind überfällig?",
    ],
)
def test_a_task_that_asks_wants_to_be_told(task: str) -> None:
    assert wanted(task) == TELLS


@pytest.mark.parametrize(
    "task",
    [
        "delete the old bucket",
        "can you cancel my appointment on Friday?",
        "please send the report to Ana",
        "open a ticket for the broken login",
        "let's give new customers 10% off",
        "I want to book a table for two",
        "My card was stolen, I need to block it",
        "make a new branch called fix/login",
        "make the channel private",
        "make sure to cancel the booking",
        "be sure you book the late ferry",
    ],
)
def test_a_task_that_orders_wants_something_changed(task: str) -> None:
    assert wanted(task) == CHANGES


@pytest.mark.parametrize(
    "task",
    [
        "find the customer and refund her",
        "find the customer and then could you refund her",
        "which deals are stale, and can you close them",
        "create a list of all open issues",
        "convert 3 miles to kilometres",
        "Peux-tu envoyer le rapport ?",
        "the invoice for Dunder",
        "would it carry on to the left?",
    ],
)
def test_a_task_that_says_both_or_neither_wants_nothing_for_sure(task: str) -> None:
    assert wanted(task) == UNSAID


@pytest.mark.parametrize(
    "task",
    [
        "get me a cab to the station",
        "make me an admin of the repo",
        "send me the contract for signing",
        "give me access to the finance folder",
        "bring us three chairs",
        "give us another week",
        "get us two seats on the 9:40",
        "grab me a table for four tonight",
        "make us a playlist for running",
    ],
)
def test_what_somebody_gets_may_be_a_thing(task: str) -> None:
    assert wanted(task) == UNSAID


@pytest.mark.parametrize(
    "task",
    [
        "tell me who is on call",
        "give me a list of open incidents",
        "get us an overview of the budget",
        "send us a short summary of last week's tickets",
        "give me the opening hours of the library",
        "get me all unpaid invoices",
        "give me details about flight 12",
        "not sure if they paid, can you check?",
        "show me the account: name, seats, type",
    ],
)
def test_what_somebody_gets_may_be_an_answer(task: str) -> None:
    assert wanted(task) == TELLS


@pytest.mark.parametrize(
    ("task", "mode"),
    [
        ("get rid of the duplicate contacts", CHANGES),
        ("get it deployed before noon", UNSAID),
        ("get the release notes published", UNSAID),
        ("can you get this invoice paid?", UNSAID),
        ("get the staging database back up", UNSAID),
        ("get Ana onto the call", UNSAID),
        ("get a refund for order 12", UNSAID),
        ("get started with the migration", UNSAID),
        ("get the logs of the payment service", TELLS),
        ("get all closed issues of May", TELLS),
        ("get a list of users", TELLS),
    ],
)
def test_to_get_something_done_is_not_to_get_something(task: str, mode: int) -> None:
    assert wanted(task) == mode


@pytest.mark.parametrize(
    ("task", "mode"),
    [
        ("Do the invoice run", UNSAID),
        ("do a backup of the database", UNSAID),
        ("Have the report sent to finance", UNSAID),
        ("have Bob review the merge request", UNSAID),
        ("do we have any unpaid invoices", TELLS_OF_A_DEED),
        ("have they paid yet", TELLS_OF_A_DEED),
        ("Do the numbers add up?", TELLS),
        ("Have the invoices been sent?", TELLS_OF_A_DEED),
        ("any way to cancel the order?", UNSAID),
        ("is it possible to move the meeting to Friday?", UNSAID),
        ("how about booking a table for six?", UNSAID),
        ("why don't you archive the old channels?", UNSAID),
        ("why not close the stale issues?", UNSAID),
        ("is there a way to pause my plan?", UNSAID),
        ("what if we moved it to Friday?", UNSAID),
        ("do you mind renaming the file?", UNSAID),
        ("why did the build fail?", TELLS_OF_A_DEED),
        ("why can't I merge it", TELLS_OF_A_DEED),
        ("why won't order 12 ship?", TELLS_OF_A_DEED),
        ("how many seats are left?", TELLS),
        ("is there any flight before noon?", TELLS_OF_A_DEED),
        ("when you have a minute cancel the order", UNSAID),
        ("when is the next train to Porto", TELLS),
        ("my old laptop, which is broken, to the shop", UNSAID),
        ("in July, which deals closed", TELLS),
    ],
)
def test_a_question_word_is_no_question_where_it_orders_or_describes(task: str, mode: int) -> None:
    assert wanted(task) == mode


@pytest.mark.parametrize(
    ("task", "mode"),
    [
        ("which fields can I filter by", TELLS),
        ("where could I put this file?", TELLS),
        ("show me the invoices I need to approve", TELLS),
        ("list the tickets I want to close", TELLS),
        ("those bills I need to pay this week", UNSAID),
        ("could I move my appointment to 4?", UNSAID),
        ("can I see my invoices", TELLS),
    ],
)
def test_a_request_within_something_else_is_none(task: str, mode: int) -> None:
    assert wanted(task) == mode


@pytest.mark.parametrize(
    ("task", "mode"),
    [
        ("press coverage of the merger", UNSAID),
        ("share of renewables in Spain", UNSAID),
        ("comment and date of the last change", UNSAID),
        ("Order 12 shipped?", TELLS),
        ("schedule for tomorrow?", TELLS),
        ("email Bo?", CHANGES),
        ("book a desk for tomorrow?", CHANGES),
        ("order the parts from Acme", CHANGES),
        ('comment "looks good" on PR 12', CHANGES),
        ("post the minutes in #general", CHANGES),
    ],
)
def test_a_thing_that_is_called_like_an_action_orders_nothing(task: str, mode: int) -> None:
    assert wanted(task) == mode


@pytest.mark.parametrize(
    "task",
    [
        "make sure nobody can edit the page",
        "make sense of this stack trace",
        "turn this page into a PDF",
        "return the shoes I bought last week",
        "track two hours on the website project",
        "collect the rent from flat 3",
        "check me in for flight LH 200",
        "check off the laundry",
        "tell me when the build is done",
        "let me know as soon as the parcel arrives",
        "inform me about the status of my claim",
        "remind me which vendor we picked",
        "export the contacts as CSV",
    ],
)
def test_what_may_be_either_is_unsaid(task: str) -> None:
    assert wanted(task) == UNSAID


@pytest.mark.parametrize("repeated", ["what can I ", "I need to pay the ", ", which ", "get it done ", "please ", "\n"])
def test_a_long_text_costs_no_time(repeated: str) -> None:
    text = f"{repeated * (3_900 // len(repeated))}x"
    # It takes up to 10 ms.
    assert seconds(lambda: (wanted(text),), runs=3) < 0.05


@pytest.mark.parametrize(
    "task",
    [
        "did we cancel order 1234?",
        "so, is it merged yet?",
        "who deleted the bucket",
        "when was the release created?",
        "how many tickets were closed last week",
        "which emails did I send to Bo?",
        "how are the pods doing?",
        "what did the team decide and who was there",
        "Ana, did you merge PR 88?",
        "Quick question: was PR 88 merged?",
        "Good morning. Has anyone answered?",
        "didn't we cancel order 1234?",
        "who's deleted notes.txt?",
        "since when is the api deployed",
        "any PRs merged today?",
        "did Will pause the May campaign?",
        "was PR 88 merged so we can deploy?",
        "should I cancel order 12?",
        "so should we move it to Friday?",
        "what happens if I cancel my plan?",
    ],
)
def test_who_asks_what_was_done_or_how_it_stands_asks_of_a_deed(task: str) -> None:
    assert wanted(task) == TELLS_OF_A_DEED


@pytest.mark.parametrize(
    ("task", "mode"),
    [
        ("show me what was cancelled", TELLS),
        ("which deals are about to close?", TELLS),
        ("is there a way to merge it?", UNSAID),
        ("was the order paid, and ship it", UNSAID),
        ("how do I get started", TELLS),
        ("the old laptop, which was broken, to the shop", UNSAID),
        ("any chance you could merge what was reviewed?", UNSAID),
    ],
)
def test_who_asks_to_be_shown_it_or_to_have_it_done_does_not(task: str, mode: int) -> None:
    assert wanted(task) == mode
