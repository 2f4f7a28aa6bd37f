"""What a task quotes: its words count less, and meaning is read from what stands around them."""

import pytest

from orchestrator import Router
from orchestrator.language.negation import split_negated
from orchestrator.language.quoted import masked, reported, without_messages
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from orchestrator.records.tool import Stage
from orchestrator.routing.understand import QUOTED, understand
from tests.timing import seconds

TRACE = 'Traceback (most recent call last):\n  File "send_email.py", line 3\nSMTPError: connection refused'
PODS = (
    "$ kubectl get pods\nNAME READY STATUS RESTARTS\napi-7d9f 0/1 Error 12\n$ kubectl delete pod api\nError: not found"
)
SHELL = "me@host:~/app$ ./send_email.sh\nsubscription cancelled\n"
LOG = "2026-05-01 12:00:01 ERROR send an email\n2026-05-01T12:00:02.5Z never refund the charge"
JOURNAL = "May  3 10:11:12 host sshd[233]: cancel the subscription\n[10:11:13] INFO delete the object"


def test_what_is_summarised_asks_for_nothing() -> None:
    task = understand("Summarize this email: 'Hi, please cancel order 12 and refund me.'")
    assert task.texts == ["Summarize this email: "]
    assert task.terms["cancel"] == 0.5


@pytest.mark.parametrize("quoted", ['"{}"', "'{}'", "“{}”", "«{}»"])
def test_words_that_only_a_quoted_message_has_count_half(quoted: str) -> None:
    terms = understand(f"send the team a mail saying {quoted.format('cancel the mail order')}").terms
    assert terms["cancel"] == terms["order"] == QUOTED * terms["team"]
    assert terms["mail"] == 2**0.5


def test_an_embedder_reads_what_stands_around_a_quote_in_every_part() -> None:
    read = understand(
        'post "the build is red" to the ops channel, then send the whole team the text "please look"'
    ).texts
    assert len(read) == 3
    assert not any("red" in text or "look" in text for text in read)
    assert all(any(word in text for text in read) for word in ("channel", "team"))


@pytest.mark.parametrize(
    "query", ["email bob@acme.com: “refund it”", "find who is on call and text her 'please refund it'"]
)
def test_no_part_with_a_verb_of_writing_is_read_for_its_message(query: str) -> None:
    understood = understand(query)
    assert not any("refund" in text for text in understood.texts)
    assert {clause.terms.get("refund", QUOTED) for clause in understood.clauses} == {QUOTED}


@pytest.mark.parametrize(
    "query",
    [
        "post 'cancel the subscription'",
        "'cancel the subscription'",
        "the user asked: 'what is the weather in Oslo'",
        "my boss said 'book a desk for Monday'",
        "call the tool 'book desk' for me",
        "show the sales report 'profit and loss'",
        "create a 'profit and loss' report",
        "tell me 'the weather in Oslo' for tomorrow",
        "send me the report 'profit and loss'",
        "what does the error message 'permission denied' mean",
        "answer the question 'who is on call tonight'",
        "answer this: 'who is on call tonight'",
        "start the workflow called 'rollback release'",
        "my boss says 'book a desk'",
    ],
)
def test_a_quote_that_may_be_the_task_or_its_object_is_read_in_full(query: str) -> None:
    understood = understand(query)
    assert set(understood.terms.values()) == {1.0}
    assert understood.texts == [query]


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("send Ana an email saying 'cancel the subscription'", "gmail:send_email"),
        ('email Bo the text "roll back the release and restart the pods"', "gmail:send_email"),
        ("translate 'the invoice was refunded' into German", "translate:translate_text"),
        ('The user asked: "what is the weather in Oslo tomorrow?"', "weather:get_forecast"),
        ("My boss said: 'book a desk in the Berlin office for Monday'", "facilities:book_desk"),
        ("use 'refund_charge' for ch_123", "stripe:refund_charge"),
        ('translate: "please cancel my order"', "translate:translate_text"),
        ('search gmail for "book a desk"', "gmail:search_messages"),
        ("send bob an email: 'please refund order 4411 and cancel the subscription'", "gmail:send_email"),
        ('sms the customer: "your refund is on its way"', "twilio:send_sms"),
        ('open a github issue called "Merge pull request button missing"', "github:create_issue"),
        ('make a notion page "Onboarding checklist"', "notion:create-page"),
        ("open a bug in jira with the summary 'cannot delete event from calendar'", "jira:create_issue"),
        ('create a calendar event "Refund review with Stripe" for tomorrow', "google_calendar:create_event"),
        ("share the doc 'Refund policy'", "google_drive:shareFile"),
        ("find the page 'book a desk'", "notion:search-pages"),
        ('reply to ticket 31: "we cancelled the order and refunded the charge"', "zendesk:reply_to_ticket"),
        ('respond to Ana on slack "I will book a desk and restart the pods"', "slack:post_message"),
        ('answer ticket 47 "your subscription was cancelled, a text message follows"', "zendesk:reply_to_ticket"),
        ('find the drive file named "severe weather alerts.pdf"', "google_drive:searchFiles"),
        ("look for a file called 'expense reimbursement of Q3' in the drive", "google_drive:searchFiles"),
        (f"{TRACE}\n\nopen a github issue for this", "github:create_issue"),
        ('send Ana an email saying "he said "cancel the subscription" to me"', "gmail:send_email"),
    ],
)
async def test_the_tool_is_for_what_is_asked_and_not_for_what_is_quoted(router: Router, query: str, tool: str) -> None:
    assert (await router.route(query)).matches[0].tool.key == tool


async def test_a_server_that_only_a_message_names_is_not_asked_for(router: Router) -> None:
    quoted = await router.route('post "please create tickets with jira" in the team channel')
    asked = await router.route('the user asked: "create a ticket with jira"')
    assert quoted.stage is not Stage.EXPLICIT
    assert asked.stage is Stage.EXPLICIT


@pytest.mark.parametrize("pasted", [PODS, SHELL, LOG, JOURNAL])
@pytest.mark.parametrize("task", ["{}\nopen a jira issue for this", "open a jira issue for this:\n{}"])
async def test_what_a_program_said_is_no_step_and_finds_no_tool(router: Router, task: str, pasted: str) -> None:
    decision = await router.route(task.format(pasted))
    assert decision.recommended == ("jira:create_issue",)
    assert [step.tool for step in plan(PlanRequest(decision=decision)).steps] == ["jira:create_issue"]
    assert split_negated(task.format(pasted))[1] == ()


@pytest.mark.parametrize("task", ["restart the deployment", "why does it fail?", "I need a desk"])
def test_a_line_behind_a_console_that_begins_like_a_task_or_a_sentence_is_read(task: str) -> None:
    assert task in understand(f"{PODS}\n{task}\nopen a jira issue").texts[0]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("$ Email the log to Bo", "$ Email the log to Bo"),
        ("may 03 12:00:02 is when it ended, email Bo", "may 03 12:00:02 is when it ended, send email Bo"),
    ],
)
def test_a_line_behind_a_log_that_is_none_of_it_is_read(line: str, read: str) -> None:
    assert read in understand(f"{LOG}\n{line}\nopen a jira issue").texts[0]


@pytest.mark.parametrize(
    "repeated", ["$ a\n", "10:10:10 x\n", "a@b", ' "a "b"', 'Al wrote: "a" ', 'post "a ', "answer a ", "answer 'a "]
)
def test_signs_of_quotes_and_pastes_all_over_a_text_cost_no_time(repeated: str) -> None:
    text = f"list it\n{repeated * (3_900 // len(repeated))}"
    # It takes up to 6 ms.
    assert seconds(lambda: masked(text) and without_messages(text), runs=3) < 0.05


@pytest.mark.parametrize(
    "query",
    [
        "$ 50 for lunch\nbook it as an expense",
        "12:30 lunch with Ana\n14:00 call Bo",
        "# Tasks\nbook a desk\nemail Ana",
        "00:11:22:33:44:55 is the address of a guest\nbook a desk",
    ],
)
def test_prices_times_and_headings_are_no_console_and_no_log(query: str) -> None:
    assert understand(query).texts[0] == query.replace("email Ana", "send email Ana")


ASKED = "Can you send me the invoice? Also cancel my subscription."


@pytest.mark.parametrize(
    "head", ["From: Bo <bo@acme.io>\nSubject: invoice\n", "Von: Bo\nAn: Kim\nBetreff: Rechnung\n\n"]
)
def test_a_mail_with_its_head_asks_for_nothing(head: str) -> None:
    understood = understand(f"{head}{ASKED}\n\nOpen a ticket for the refund and text Ana Berg")
    assert [part.text for part in understood.parts] == ["Open a ticket for the refund", "text Ana Berg"]
    assert understood.terms["cancel"] == QUOTED * understood.terms["ticket"]


@pytest.mark.parametrize(
    "task", ["Can you take care of this?", "FYI, see below", "please look into it and deal with it"]
)
def test_a_mail_that_a_task_only_points_to_is_the_task(task: str) -> None:
    mail = f"From: Bo <bo@acme.io>\nSubject: invoice\n\n{ASKED}"
    for text in (f"{mail}\n\n{task}", f"{task}\n\n{mail}"):
        assert understand(text).terms["cancel"] == 1


def test_a_reply_to_a_mail_is_a_task_of_its_own() -> None:
    text = f"From: Bo\nSubject: invoice\n\n{ASKED}\n\nReply to Bo that we will look into it"
    assert understand(text).terms["cancel"] == QUOTED


@pytest.mark.parametrize("task", ["Subject: demo\nSend it to Ana", "To: do\nFind the invoice", f"From: Bo\n{ASKED}"])
def test_one_line_like_a_mails_head_is_none(task: str) -> None:
    assert masked(task) == task


@pytest.mark.parametrize(
    "text",
    [
        "post the message 'don't delete anything' to #ops",
        'create an issue titled "Users cannot log in without resetting passwords" in the tracker',
        "git commit -m 'fix: do not delete' && git push",
        "answer this mail:\n> Please don't send me links.\n> Never call me.\n",
        "what does this do?\n```\n# don't delete anything, list it\n```",
    ],
)
def test_a_quoted_text_forbids_nothing(text: str) -> None:
    assert split_negated(text) == (text, ())


@pytest.mark.parametrize("quoted", ['"{}"', "'{}'", "“{}”", "„{}“", "‘{}’", "«{}»", "`{}`", '"{}".', "```\n{}\n```"])
def test_a_task_that_is_quoted_as_a_whole_forbids_what_it_says(quoted: str) -> None:
    task = "list the pods and don't delete the user's pods"
    assert split_negated(quoted.format(task)) == ("list the pods ", ("don't delete the user's pods",))
    alone = quoted.format("don't delete the bucket")
    assert split_negated(alone) == (alone, ("don't delete the bucket",))


def test_two_quotes_beside_each_other_are_not_one_quoted_task() -> None:
    text = "'list the pods' and 'don't delete them'"
    assert split_negated(text) == (text, ())


TICKET = 'Ticket from Lena: "please refund charge ch_3 and cancel order 12" - please reply to her that we look into it'


async def test_what_somebody_else_wrote_is_neither_done_nor_a_value_beside_what_is_asked_for(router: Router) -> None:
    decision = await router.route(TICKET)
    assert decision.matches[0].tool.key == "zendesk:reply_to_ticket"
    steps = plan(PlanRequest(decision=decision)).steps
    assert [(step.tool, step.arguments) for step in steps] == [("zendesk:reply_to_ticket", {})]


async def test_what_somebody_else_wrote_is_the_task_where_nothing_else_is_asked_for(router: Router) -> None:
    decision = await router.route('The customer wrote: "please cancel the subscription"')
    assert decision.matches[0].tool.key == "stripe:cancel_subscription"


async def test_what_somebody_else_wrote_is_a_value_where_the_task_points_at_it(router: Router) -> None:
    decision = await router.route('The sign says: "Guten Morgen". Can you translate it to English?')
    (step,) = plan(PlanRequest(decision=decision)).steps
    assert (step.tool, step.arguments["text"]) == ("translate:translate_text", "Guten Morgen")


@pytest.mark.parametrize(
    "beside",
    [
        "Please don't do it.",
        "Do not do that.",
        "We never do that. What is due?",
        "Can you tell her that we should not do that?",
        "Please do that? Never.",
        "Please, never, ever, do that.",
        "Could you forward it to Lou?",
        "Please summarize this.",
        "Why did you do that?",
    ],
)
def test_what_is_forbidden_or_only_passed_on_is_no_task(beside: str) -> None:
    assert reported(f'Kim wrote: "please restart the api". {beside}') == [(4, 35)]


@pytest.mark.parametrize(
    "beside", ["Please do it.", "Can you handle this?", "Please do what she asks.", "Could you look into it?", ""]
)
def test_what_the_writer_asks_to_do_is_the_task(beside: str) -> None:
    assert reported(f'Kim wrote: "please restart the api". {beside}') == []


async def test_what_somebody_else_wrote_is_passed_on_as_it_is(router: Router) -> None:
    decision = await router.route('Kim wrote: "please cancel my subscription". Please translate it to French.')
    (step,) = plan(PlanRequest(decision=decision)).steps
    assert (step.tool, step.arguments["text"]) == ("translate:translate_text", "please cancel my subscription")


async def test_a_sentence_is_no_identifier(router: Router) -> None:
    decision = await router.route('The customer wrote: "please cancel the subscription"')
    (step,) = plan(PlanRequest(decision=decision)).steps
    assert not step.arguments
