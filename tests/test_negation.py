"""What a task forbids: those words are nobody's to read, and no tool is found by them."""

import pytest

from orchestrator.language.negation import split_negated
from tests.timing import seconds


def without_negated(text: str) -> str:
    return split_negated(text)[0]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("don't delete anything, only list the s3 objects", "only list the s3 objects"),
        ("List the issues. Do not create a new issue.", "List the issues. ."),
        ("please do not restart the pod, just show its logs", "the pod, just show its logs"),
        ("delete nothing, just list the events", "just list the events"),
        ("never delete files; archive what is old", "archive what is old"),
        ("don't use slack, send an email to Ana", "send an email to Ana"),
        ("don’t send an email but post a message", "but post a message"),
        ("open an issue and don't assign it", "open an issue "),
        ("import the file without creating duplicates, then email Ana", "import the file , then email Ana"),
    ],
)
def test_a_forbidden_action_is_left_out_to_the_end_of_its_part(text: str, asked: str) -> None:
    assert without_negated(text) == asked


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("You must not delete rows. Query the orders.", "Query the orders."),
        ("Query the orders. You may not delete any.", "Query the orders. ."),
        ("Query the orders. You must never delete rows.", "Query the orders. ."),
        ("show the locks, under no circumstances restart anything", "show the locks, "),
        ("dont delete anything, only list the objects", "only list the objects"),
        ("make sure not to send any email, only list the invoices", "only list the invoices"),
        ("I don't want you to send an email, post to the chat", "post to the chat"),
        ("no no don't restart it, show the logs", "no no , show the logs"),
        ("no need to commit, just show the diff", "just show the diff"),
        ("avoid sending emails; create a ticket", "create a ticket"),
        ("wait before merging 88, show the diff", "show the diff"),
        ("hold off on the release, close the tickets", "close the tickets"),
        ("leave order 1001 alone and cancel order 1002", "and cancel order 1002"),
        ("don't deploy the api until the tests pass, list the pods", "list the pods"),
        ("Refund ch_9. If the build fails, don't deploy the api.", "Refund ch_9. ."),
        ("If it is declined, don't retry it, email Bo", "If it is declined, , email Bo"),
        ("don't bother emailing, just call Bob", "just call Bob"),
        ("don't bother creating a ticket, close the old one", "ticket, close the old one"),
        ("deactivate the user. No email necessary.", "deactivate the user. ."),
        ("refrain from deleting files. List the folder.", "List the folder."),
        ("rather than searching the web, look into the wiki", "look into the wiki"),
        ("update the page instead of creating a new one", "update the page "),
        ("list the rows (do not delete any).", "list the rows ( )."),
        ("don't create, edit or delete files; search the folder", "search the folder"),
        ("List the issues\nDon't close any", "List the issues\n "),
        ("Pods\nDon't close the old pods", "Pods\n "),
        ("don't skip, pause", "pause"),
        ("Approve invoice 77? No, approve invoice 78.", "approve invoice 78."),
        ("Please merge 88? Absolutely not. Close 89.", "Close 89."),
        ("List the bugs. Delete them? No way!", "List the bugs. !"),
        ("Merge 88? Nah. Close 89.", "Close 89."),
        ("Should we merge 88? I don't think so. Close 89.", "Close 89."),
        ("Merge 88? Don't. Close 89.", "Close 89."),
        ("Please do not escalate it; just acknowledge it", "it; just acknowledge it"),
        ("show me which files are in /old but don't move or delete anything", "show me which files are in /old "),
        ("find out who is on call and don't call anyone", "find out who is on call "),
    ],
)
def test_a_forbidden_action_is_known_in_its_many_forms(text: str, asked: str) -> None:
    assert without_negated(text) == asked


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("scale the deployment without restarting pods and send me a list", "scale the deployment and send me a list"),
        ("don't restart the pod and send me its logs", "the pod and send me its logs"),
        ("don't stop and delete the pod, show its logs", "the pod, show its logs"),
        ("do not stop until you have crawled www.example.com", "until you have crawled www.example.com"),
        ("don't open www.example.com, search the docs", "search the docs"),
        ("print the plan without applying it (dry-run)", "print the plan (dry-run)"),
        ("don't stop the pod, show me its logs", "the pod, show me its logs"),
        ("hold off on cancelling order 12, show me its status", "order 12, show me its status"),
    ],
)
def test_what_is_wanted_behind_a_forbidden_action_stays(text: str, asked: str) -> None:
    assert without_negated(text).split() == asked.split()


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("summarise this text, no web search", "summarise this text,"),
        ("Summarise this text. No web search.", "Summarise this text. ."),
        ("can you reply to Ana - no emails please", "can you reply to Ana - please"),
        ("list the events, no emails, no slack messages", "list the events, ,"),
        ("list the events\nno notifications", "list the events"),
        ("no emails, just list the invoices", "just list the invoices"),
        ("No web search, look in the handbook", "look in the handbook"),
        ("no emails, call Bob", "call Bob"),
        ("No search please. What is our policy?", "please. What is our policy?"),
        ("no slack, no email - just book a desk", "no slack, just book a desk"),
        ("no posts to the channel, only email the team", "only email the team"),
        ("summarise the meeting (no email)", "summarise the meeting ( )"),
        ("list the overdue invoices (no messages to customers)", "list the overdue invoices ( )"),
        ("what is our travel policy? no web search", "what is our travel policy?"),
        ("who is on call tonight (no calls)?", "who is on call tonight ( )?"),
        ("what's our travel policy (no web search)", "what's our travel policy ( )"),
        ("list it, no email", "list it,"),
        ("list the contacts, no email please", "list the contacts, please"),
        ("post it instead of emailing, then log the call", "post it , then log the call"),
        ("rather than calling Bob, send him a text", "send him a text"),
    ],
)
def test_what_is_not_to_be_used_is_left_out_where_it_is_a_part_beside_a_task(text: str, asked: str) -> None:
    assert without_negated(text).split() == asked.split()


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("send a text, not an email", "send a text,"),
        ("send a text not an email to Ana and book a desk", "send a text and book a desk"),
        ("can you send a text (not an email) to Ana?", "can you send a text ( ) to Ana?"),
        ("create a task, not an issue, and assign it to Kim", "create a task, , and assign it to Kim"),
        ("reply in the ticket, not by email", "reply in the ticket,"),
        ("message Ana, not by text but by email", "message Ana, but by email"),
        ("send Bo a text instead of an email", "send Bo a text"),
        ("text him instead of emailing him", "text him"),
        ("without emailing anyone, book a desk", "book a desk"),
        ("instead of an email, send a text to Bob", "send a text to Bob"),
        ("Rather than an issue, create a page", "create a page"),
    ],
)
def test_a_thing_that_another_is_wanted_instead_of_is_left_out(text: str, asked: str) -> None:
    assert without_negated(text).split() == asked.split()


@pytest.mark.parametrize(
    "text",
    [
        "create a user with a phone, not an email",
        "users who have a phone, not an email",
        "find a movie, not a series",
        "a hotel, not a hostel, in Paris",
        "is this a bug, not a feature?",
        "it is a text not an email",
        "explain why I got an error instead of a result",
        "add a note: it is a bug, not a feature",
        "tell Bob that I'm not a robot",
        "post 'send a text, not an email' to #ops",
        "not an issue, but can you list the pods",
        "an issue instead of a pull request",
        "without an email, how can I sign up",
    ],
)
def test_a_thing_that_is_another_one_forbids_nothing(text: str) -> None:
    assert split_negated(text) == (text, ())


@pytest.mark.parametrize(
    "text",
    [
        "no web search",
        "no results found, search again",
        "book it, no later than Monday",
        "clients that we list, no longer search",
        "list the users, no one to call",
        "build a no-code app",
        "create a yes-no search",
        "list customers with no email",
        "find customers with a phone, no email",
        "find contacts - no email",
        "list the contacts (no email)",
        "which employees are new? no email, no phone",
        "no call, call again",
        "no message, no call, send messages to Bob",
        "no call, no message, send messages to Bob",
        "no email, send it again",
        "show the list, no message to show",
        "book a desk, no message to send",
        "create a user named Bob, no email, age 30",
        "use the billing address instead of shipping address",
        "tell Ana that her phone is new, no email",
        "open an issue: the page is blank, no search",
        "my phone rings, no call",
        "list the issues, no search results",
        "there is no email",
        "send it to Ana, no rush",
        "order a pizza, no onions",
        "book a hotel, no fees",
        "find a game, no download",
        "post 'show the list, no search' to #ops",
    ],
)
def test_what_is_not_there_forbids_nothing(text: str) -> None:
    assert split_negated(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("never delete files; archive them", "files; archive them"),
        ("don't stop the container; restart it", "the container; restart it"),
        ("instead of creating a new page, update the old one", "page, update the old one"),
        ("don't send an email, post it in the chat", "post it in the chat"),
        ("don't use slack, post it in the chat", "post it in the chat"),
        ("draft but do not send an email to Bob", "draft an email to Bob"),
        ("tell me rather than showing me the weather", "tell me me the weather"),
    ],
)
def test_a_thing_that_is_meant_all_the_same_stays(text: str, asked: str) -> None:
    assert without_negated(text).split() == asked.split()


@pytest.mark.parametrize(
    "text",
    [
        "list customers without billing address",
        "tune a model without training data",
        "find rows without string values",
        "show users without anything the admin has set",
        "customers who order and never pay",
        "users can't log in without resetting passwords; open a ticket",
        "create an issue: the page does not load without refreshing it",
        "hosts that respond but do not run ssh",
        "pods start but do not serve requests",
        "List the customers that\ndo not pay their bills",
        "don't send anything but the summary",
        "list nothing but the titles",
        "my filters match nothing",
        "the orders may not show up, check them",
        "how do I avoid paying fees",
        "will it rain? I don't want to get wet",
        "don't forget to email Bob",
        "why don't my emails arrive",
        "I don't know how to create a chart",
        "don't worry, just list the files",
        "never mind, show the calendar",
        "send it to Ana, not to Bob",
        "list files without a name",
        "nothing works, restart the server",
        "don't stop sending the reports",
        "don't let me forget to call Ana",
        "never let A-100 drop below 40",
        "don't panic. Book a doctor",
        "don't own one, buy one",
        "I never got it, send it again",
        "the light shouldn't flicker, check it",
        "show me which users order but don't pay anything",
        "show me who is active on days that they log in but don't pay anything",
        "find people that order but never pay",
        "Cancel order 12? No problem!",
        "Merge 88? Not a single concern, go",
    ],
)
def test_other_negations_forbid_nothing(text: str) -> None:
    assert split_negated(text) == (text, ())


def test_what_is_forbidden_within_another_is_said_once() -> None:
    text = "book a desk, don't send a text not an email"
    assert split_negated(text) == ("book a desk, ", ("don't send a text not an email",))


def test_a_task_that_only_forbids_stays_whole() -> None:
    assert split_negated("don't delete anything") == ("don't delete anything", ("don't delete anything",))


@pytest.mark.parametrize(
    "repeated",
    [
        ", no email",
        ", a text not an email",
        " a b not a",
        " instead of a text",
        " and avoid sending a",
        " and don't skip a",
    ],
)
def test_a_part_that_is_repeated_all_over_a_text_costs_no_time(repeated: str) -> None:
    text = f"list it{repeated * (9_900 // len(repeated))}, without telling him"
    # A look at all that stands around each one took up to 1.2 s.
    assert seconds(lambda: split_negated(text)[1], runs=3) < 0.1
