"""What a first line hands over: it is sent, filed or translated, and none of its sentences is a task."""

import pytest

from orchestrator import Router
from orchestrator.language.handed import handed_over, told_inline
from orchestrator.language.negation import split_negated
from orchestrator.language.quoted import masked, without_messages
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from orchestrator.routing.understand import QUOTED, understand
from tests.timing import seconds

MAIL = "Hi all,\nthe release is rolled back tonight.\nPlease merge your pull requests, and never restart a pod.\nOps"
PARCEL = "From: kim@example.com\nThe parcel came back. Could you refund my charge and cancel the subscription?\nKim"


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        (f"post this to #platform on slack:\n\n{MAIL}", "slack:post_message"),
        (f"Please open a support ticket from this:\n\n{PARCEL}", "zendesk:create_ticket"),
        ("Translate this to Norwegian:\n\nPlease cancel my order and refund it.", "translate:translate_text"),
        (f"Can you create a calendar event of this?\n\n---\n{MAIL}", "google_calendar:create_event"),
        (f"answer the customer in ticket 77 with this.\n\n{PARCEL}", "zendesk:reply_to_ticket"),
        ("add her to our leads:\n\nJun Park\nHead of Payroll\nwants a translation", "salesforce:create_lead"),
        ("append as to-dos to the notion page:\n- get a laptop\n- book a desk", "notion:append-block"),
        (f"could I get you to file this as a github issue?\n\n{PARCEL}", "github:create_issue"),
    ],
)
async def test_neither_a_match_nor_a_step_is_for_what_is_handed_over(router: Router, query: str, tool: str) -> None:
    decision = await router.route(query)
    assert decision.recommended == (tool,)
    assert [step.tool for step in plan(PlanRequest(decision=decision)).steps] == [tool]


@pytest.mark.parametrize(
    "query",
    [
        "Get me the following:\n- weather forecast for Oslo\n- exchange rate of the euro",
        "can you do these for me:\n1. list the events\n2. search my mail",
        "I need help with the cluster. Can you do this?\n\nlist the pods in staging\nfetch their logs",
        "Plan these for my trip to Porto:\n\nflights from Berlin\nhotel near the river",
        "answer these for Ana:\n\nwho is on call tonight?\nwhat is the weather in Oslo?",
        "create these in the tracker:\n- bug: the login fails\n- story: a dark mode",
        "write this up for Roth:\ncreate an invoice over 3 days",
        "clean up the bucket with these rules:\nlist old objects\nnever delete one of legal",
        "translate it and book a desk.\nThen email Ana",
        "add this:\nlunch with Ana",
        "post this to #ops:\n",
    ],
)
def test_what_a_list_of_tasks_or_of_wishes_says_is_asked_for(query: str) -> None:
    assert handed_over(query) is None


def test_what_is_handed_over_forbids_nothing_and_its_words_count_half() -> None:
    text = f"post this to the #platform channel:\n\n{MAIL}"
    understood = understand(text)
    assert split_negated(text) == (text, ())
    assert understood.terms["merg"] == QUOTED * understood.terms["channel"]
    assert understood.texts == ["post this to the #platform channel:\n\n"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("post this in #general: delete your events and cancel it", "delete your events and cancel it"),
        ("tell the team: standup moved. Then cancel the 3pm", "standup moved"),
        ("Message Ana: we shipped. Restart the api", "we shipped"),
        ("Cancel order 12 and text her: it is cancelled. Merge 88", "it is cancelled"),
        ("text kim: restart the api", "restart the api"),
        ("reply to jo: merge 88", "merge 88"),
        ("answer lou: merge 88", "merge 88"),
        ("write sam: merge 88", "merge 88"),
        ("notify IT: delete user kim", "delete user kim"),
        ("post on discord: merge 88", "merge 88"),
        ("publish it, then tweet this: merge 88", "merge 88"),
        ("send message: close the ticket", "close the ticket"),
        ("I need you to mail kim: close the ticket", "close the ticket"),
        ("send a short note to Lou: close the ticket", "close the ticket"),
        ("comment in ticket 7: merge 88 first", "merge 88 first"),
        ("write in #ops: restart the api", "restart the api"),
        ("Reply in the thread: restart the api", "restart the api"),
        ("mail kim.lee@example.org: close ticket 7", "close ticket 7"),
        ("Text Kim, Lou, and Sam: close ticket 7", "close ticket 7"),
        ("text Kim's boss: close ticket 7", "close ticket 7"),
        ("post in #ops with the words: close ticket 7", "close ticket 7"),
        ("Text Lou: 7 is stuck, to unblock it merge 88", "7 is stuck, to unblock it merge 88"),
        ("text Lou: merge 88, title and body are fine", "merge 88, title and body are fine"),
    ],
)
def test_behind_a_colon_stands_the_message(text: str, said: str) -> None:
    start, end = handed_over(text) or (0, 0)
    assert text[start:end] == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mail Lou: close ticket 7, subject: stuck", "close ticket 7"),
        ("post in #ops: close ticket 7, cc: Lou", "close ticket 7"),
        ("text Kim: close ticket 7, cc lou@example.org", "close ticket 7"),
        ("mail Lou: subject: stuck, body: close ticket 7", None),
        ("mail lou@example.org: title 'stuck'", None),
    ],
)
def test_other_values_are_no_part_of_the_message_and_are_no_task(text: str, said: str | None) -> None:
    told = told_inline(text)
    assert (told and text[slice(*told)]) == said
    assert handed_over(text) == (text.index(": ") + 2, len(text))


@pytest.mark.parametrize(
    "text",
    [
        "write down: feeling well, walk in the sun",
        "write a note: 3 kg, receiver pays",
        "POST to /orders: three lamps",
        "text only: without pictures",
        "tell me: what is due",
        "send me the following: the invoice and the order",
        "answer with a table: city and temperature",
        "Respond in JSON: what is the weather in Rome?",
        "answer the following question: what is due?",
        "Respond to me: what is due?",
        "post-processing: cancel order 12",
        "Mail 1: cancel order 12. Mail 2: refund charge ch_3",
        "email these people: ana@example.org, bo@example.org",
        "mail the team: ana@example.org and bo@example.org",
        "post these: plan.pdf, notes.txt",
        "send it to: ana@example.org, body: 'hi'",
        "reply in XML: what is due?",
        "Answer briefly: what is due?",
        "answer this: what is due?",
        "answer yes or no: is 88 merged?",
        "respond to this request: what is due?",
        "tell us: what is due",
        "send an invoice: 3 hours for Acme",
    ],
)
def test_behind_other_colons_stands_what_is_asked_for(text: str) -> None:
    assert handed_over(text) is None


@pytest.mark.parametrize("joint", ["Then", "and then", "After that,", ""])
def test_a_task_behind_it_is_one_of_its_own(joint: str) -> None:
    task = f"{joint} book a desk for Kim".strip()
    understood = understand(f"turn this into a support ticket:\n\n{PARCEL}\n\n{task}")
    assert [part.text for part in understood.parts] == [
        "turn this into a support ticket:",
        task,
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "Forward this email to Bob.\n\nCancel my 3pm meeting.",
            ["Forward this email to Bob", "Cancel my 3pm meeting"],
        ),
        (
            "Reply to the customer in ticket 77.\n\nAlso, close ticket 78.",
            ["Reply to the customer in ticket 77", "Also, close ticket 78"],
        ),
        (
            "Translate this to Norwegian.\n\nThen email it to Ana.",
            ["Translate this to Norwegian", "Then email it to Ana"],
        ),
        (
            f"Forward this to Bob.\n\nBook a desk for Kim.\nThen text Ana Berg.\n\n{PARCEL}",
            ["Forward this to Bob", "Book a desk for Kim", "Then text Ana Berg"],
        ),
    ],
)
def test_a_paragraph_of_the_writers_own_tasks_is_not_handed_over(text: str, parts: list[str]) -> None:
    assert [part.text for part in understand(text).parts] == parts


@pytest.mark.parametrize(
    "handed",
    [
        "Please merge your pull requests by noon.",
        "Hi all,\ncancel the order, it is wrong.",
        "Could you refund my charge?\n\nMany thanks,\nKim",
        PARCEL,
    ],
)
@pytest.mark.parametrize("line", ["Forward this to #ops on Slack.", "Post this to #ops."])
def test_a_message_that_speaks_to_its_readers_is_handed_over(line: str, handed: str) -> None:
    text = f"{line}\n\n{handed}"
    assert handed_over(text) == (len(line) + 2, len(text))


def test_what_is_quoted_or_made_a_thing_of_is_handed_over() -> None:
    quoted = 'Can you answer this customer for me?\n\n"Where is my parcel? Cancel the order."'
    assert handed_over(quoted) == (quoted.index('"'), len(quoted))
    made = "Make this a Jira issue.\n\nAlso text Bo Berg.\n\nSteps: log in, delete the account."
    assert [part.text for part in understand(made).parts] == ["Make this a Jira issue", "Also text Bo Berg"]
    assert handed_over("Make these tasks in Jira:\n- call Bo\n- book a desk") is None


def test_what_is_to_be_reworded_may_be_an_order() -> None:
    assert handed_over("Translate this to Norwegian.\n\nPlease cancel my order.") is not None


@pytest.mark.parametrize(
    "text",
    [
        "Add to my diary:\nDentist, Tuesday 3pm",
        "Log in my training journal:\nran 5 km",
        "Note in the CRM for Acme:\nthey want a quote",
        "Record in my expenses:\n\n12 for lunch",
    ],
)
def test_a_short_note_is_what_the_task_is_about_and_no_task_of_its_own(text: str) -> None:
    understood = understand(text)
    assert set(understood.terms.values()) == {1}
    assert understood.texts[0].startswith(text[:-1])
    assert not understand(f"{text}, then call Bo").parts


@pytest.mark.parametrize(
    "text",
    [
        "Post in the team channel:\nthe lunch is ready",
        "Add to my notes:\nthe lunch is ready\nand the desk is booked",
        "Add to my notes:\nthe lunch for the visitors from the harbour is ready, and so are the third floor's desks",
    ],
)
def test_a_message_and_a_long_note_count_half(text: str) -> None:
    terms = understand(text).terms
    assert terms["lunch"] < terms.get("note", terms.get("team", 0))


def test_what_the_writer_forbids_behind_it_is_forbidden() -> None:
    assert split_negated(f"turn this into a support ticket:\n\n{PARCEL}\n\ndon't refund the charge")[1] == (
        "don't refund the charge",
    )


def test_every_sign_beside_it_stays_in_its_place() -> None:
    text = f'post this with "no rush" to #ops:\n\n{MAIL}\n\nThen email Ana "see you"'
    said = masked(text)
    assert len(said) == len(text)
    assert said.endswith("\n\nThen email Ana QQQQQQQQQ")
    assert without_messages(text) == "post this with  to #ops:\n\n\n\nThen email Ana "


@pytest.mark.parametrize(
    "repeated", ["a@b.co,", "tell Al, ", "write to ", "text the ", "post in, A", ", to: ", "a.b'c ", "an a an "]
)
@pytest.mark.parametrize("lead", ["tell my team: ", "tell Al ", ""])
def test_a_long_line_behind_a_colon_costs_no_time(lead: str, repeated: str) -> None:
    text = f"{lead}{repeated * (3_700 // len(repeated))} z"
    # It takes up to 5 ms.
    assert seconds(lambda: (told_inline(text), masked(text)), runs=3) < 0.05


@pytest.mark.parametrize("repeated", ["to ", "add ", "please\n", "\n\n ", "add this to it:\n\n"])
def test_a_long_text_behind_a_first_line_costs_no_time(repeated: str) -> None:
    text = f"add this {'to ' * 90}:\n{repeated * (3_700 // len(repeated))}x"
    # It takes up to 1 ms.
    assert seconds(lambda: (handed_over(text), masked(text)), runs=3) < 0.02
