"""Understanding a query: clauses where a task begins anew, and nowhere else."""

import pytest

from orchestrator.language.clauses import MAX_CLAUSES, MAX_TOLD
from orchestrator.language.words import MAX_CUT
from orchestrator.routing.understand import understand
from tests.timing import seconds


def clauses(query: str) -> list[str]:
    return [clause.text for clause in understand(query).clauses]


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        (
            "search my documents for the travel policy and send it to Ana by email",
            ["search my documents for the travel policy", "send it to Ana by email"],
        ),
        ("Find flights to Rome. Book a hotel there.", ["Find flights to Rome.", "Book a hotel there."]),
        ("get the revenue by country, then post it to #sales", ["get the revenue by country", "post it to #sales"]),
        (
            "translate the letter, summarize it in three points, and email it to Bo",
            ["translate the letter", "summarize it in three points", "email it to Bo"],
        ),
        ("how tall is the tower and who built the bridge", ["how tall is the tower", "who built the bridge"]),
        ("what is the weather; book a desk for Monday", ["what is the weather;", "book a desk for Monday"]),
        ("list open bugs\nassign them to Kim", ["list open bugs", "assign them to Kim"]),
        ("查询北京的天气。发送邮件给王芳。", ["查询北京的天气", "发送邮件给王芳"]),
        (
            "list overdue invoices, search flights, request time off and email him",
            ["list overdue invoices", "search flights", "request time off", "email him"],
        ),
        ("search the logs, then deploy, then email her", ["search the logs", "deploy", "email her"]),
        ("void invoice 12 -> search flights → email him", ["void invoice 12", "search flights", "email him"]),
        ("find the letter & print it & book a desk", ["find the letter", "print it", "book a desk"]),
        ("find the letter - print it - book a desk", ["find the letter", "print it", "book a desk"]),
        ("suche Flüge nach Rom und dann buche ein Hotel", ["suche Flüge nach Rom", "buche ein Hotel"]),
        ("cherche un vol pour Rome, puis réserve un hôtel", ["cherche un vol pour Rome", "réserve un hôtel"]),
        ("busca vuelos a Roma y luego reserva un hotel", ["busca vuelos a Roma", "reserva un hotel"]),
        ("查询北京的天气，然后发送邮件给王芳", ["查询北京的天气", "发送邮件给王芳"]),
        (
            "email Bo 'I will check it and send the invoice' and list my drafts",
            ["email Bo 'I will check it and send the invoice'", "list my drafts"],
        ),
        (
            "find this error\nTraceback (most recent call last):\n  File 'a.py'\n    raise Foo(x)\nFoo\nopen an issue",
            ["find this error", "open an issue"],
        ),
        (
            "Dear team,\nbook a desk for Monday. Find flights to Rome.\n--\nAna Lee\nCall the office: 555",
            ["book a desk for Monday.", "Find flights to Rome."],
        ),
    ],
)
def test_a_compound_task_is_cut_where_an_action_begins_anew(query: str, parts: list[str]) -> None:
    assert [part.rstrip(".;") for part in clauses(query)] == [part.rstrip(".;") for part in parts]


@pytest.mark.parametrize(
    "query",
    [
        "1) list overdue invoices 2) search flights 3) email him",
        "1. list overdue invoices 2. search flights 3. email him",
        "Please do these: (1) list overdue invoices, (2) search flights, (3) email him",
        "a) list overdue invoices b) search flights c) email him",
        "Step 1: list overdue invoices. Step 2: search flights. Step 3: email him",
        "1- list overdue invoices\n2- search flights\n3- email him",
        "1. list overdue invoices\n2. search flights\n3. email him",
        "- list overdue invoices\n- search flights\n  * email him",
        "- [ ] list overdue invoices\n- [x] search flights\n[ ] email him",
    ],
)
def test_a_numbered_list_is_cut_at_its_marks_which_are_no_words(query: str) -> None:
    assert clauses(query) == ["list overdue invoices", "search flights", "email him"]
    assert not {"1", "2", "3", "a", "b", "c", "x", "step"} & understand(query).terms.keys()


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("install version 3.5 at 9:00 for issue 12", {"3", "5", "9", "00", "12"}),
        ("explain the theorem in (1) and the proof in (2)", {"1", "2"}),
        ("Close issue 1. Reopen issue 2. Comment on issue 3.", {"1", "2", "3"}),
        ("the invoice of step 2) is missing", {"2"}),
        ("mix 1: 2: 3 parts of sand", {"1", "2", "3"}),
    ],
)
def test_a_number_that_marks_no_item_stays_a_word(query: str, numbers: set[str]) -> None:
    assert numbers <= understand(query).terms.keys()


@pytest.mark.parametrize(
    "query",
    [
        "create a page with title, body and tags",
        "get the name, order number, phone and email address",
        "write a report on search, filter and sort options",
        "show the price list, stock list and order list",
        "track the parcel with the Pack & Send number",
        "find search & rescue teams near Bergen",
        "convert 10 USD -> EUR",
        "go to Settings -> Export -> CSV",
        "copy and paste it",
        "I need a strong password, can you generate it for me?",
        "find the policy, and show it to me",
        "wenn es regnet, dann sage das Treffen ab",
        "use slack and github to announce the release",
        "compare revenue and order history of the last quarter",
        "find a hotel in Paris, France",
        "list the employees and managers of the sales team",
        "using bullet points, summarize the text",
        "when the build fails, open a ticket",
        "for my trip to Rome, find flights",
        "except on weekends, book a desk",
        "add a task with the content - go to the gym",
        "find the account with name - Ana Lee, city - Rome, age - 40",
        "Can you help me with these tasks? Book a desk for Monday.",
        "open issues for: login broken, search slow, email missing",
        "Please do the following for me today:\nbook a desk\nSent from my iPhone",
        "Until all desks are booked, go on. Find flights to Rome. Thanks!",
        "Hello! Please find flights to Rome. Thanks!",
        "My printer is broken. Order a new one for me.",
        "write a letter to Dr. Chen about the results",
        'post "book a desk for Monday and find flights. Then call me" to #ops',
        "translate ‘where is it? I don’t find the train and need a ticket’ into Greek",
        "what is 17 * 23 - 4?",
        "run this\n```\nfind flights to Rome\nbook a hotel there\n```\nfor me",
        "answer this mail\n> book a desk for Monday.\n> find flights to Rome.",
        "weather",
    ],
)
def test_a_single_task_stays_whole(query: str) -> None:
    assert clauses(query) == [query]


@pytest.mark.parametrize(
    "query",
    [
        "Ich möchte vom 3. bis 7. Juli Urlaub beantragen",
        "Termin am 14. März um 9 Uhr eintragen",
        "Sæt mødet den 4. maj i kalenderen",
    ],
)
def test_the_day_of_a_date_ends_no_sentence(query: str) -> None:
    assert [part.text for part in understand(query).clauses] == [query]


@pytest.mark.parametrize("query", ["get invoice 17. Send it to Bo Berg", "close ticket 4. May I see invoice 12"])
def test_a_number_may_end_a_sentence(query: str) -> None:
    assert len(understand(query).parts) == 2


def test_the_whole_query_is_kept_beside_its_clauses() -> None:
    query = "My trip is near. Find flights to Rome and book a hotel there."
    understood = understand(query)
    assert understood.text == query
    assert {term for clause in understood.clauses for term in clause.terms} <= set(understood.terms)
    assert {"trip", "near"} <= set(understood.terms)


def test_a_pasted_document_is_no_list_of_tasks() -> None:
    text = "Send the letter to Ana. Book a desk for Monday. " * 100
    assert len(text) > MAX_CUT
    assert clauses(text) == [text.strip()]


def test_of_many_tasks_the_last_ones_are_one_clause() -> None:
    query = " ".join(f"Send letter number {number} to Ana." for number in range(20))
    assert len(clauses(query)) == MAX_CLAUSES
    assert "number 19" in clauses(query)[-1]


def test_a_repeated_term_weighs_more_but_not_in_full() -> None:
    assert understand("invoice invoices invoicing letter").terms == {"invoic": pytest.approx(3**0.5), "letter": 1.0}


def test_each_term_is_shown_as_it_was_first_said() -> None:
    assert understand("Sending invoices, an invoice").words == {"send": "sending", "invoic": "invoices"}


def test_stop_words_are_what_is_asked_where_there_is_nothing_else() -> None:
    assert set(understand("Who am I?").terms) == {"who", "am", "i"}


@pytest.mark.parametrize("query", ["", " \n ", "\x00\x07", "...", "\ud800", "🚀"])
def test_a_query_without_words_has_no_terms_and_one_clause(query: str) -> None:
    understood = understand(query)
    assert understood.terms == {}
    assert len(understood.clauses) == 1


def test_control_characters_and_lone_surrogates_separate_words() -> None:
    assert understand("send\x00a\x1bletter\ud800now\x9b").text == "send a letter now"


def test_blanks_in_a_row_are_one_and_cost_no_time() -> None:
    assert seconds(lambda: understand(f"send{' ' * 3_900}a\t \tletter").text == "send a letter") < 0.25
    assert seconds(lambda: understand("a" + " \n" * 1_900 + "b").text.split() == ["a", "b"]) < 0.25


def test_a_paste_with_the_line_ends_of_windows_is_read_as_one_with_plain_ones() -> None:
    task = "$ kubectl get pods\nNAME READY\n\nBilling is down.\n  at a.B(C.java:4)\n  at a.D(C.java:5)\nopen an issue"
    assert understand(task.replace("\n", "\r\n")) == understand(task)
    assert understand(task.replace("\n\n", "\n \n")).terms == understand(task).terms


def told(query: str) -> list[str]:
    return [sentence.text for sentence in understand(query).told]


@pytest.mark.parametrize(
    ("query", "sentences"),
    [
        (
            "Our customer wants her money back. Find the charge, then write to her.",
            ["Our customer wants her money back"],
        ),
        ("My laptop is slow! Look into it.", []),
        ("The lease ends in May. It was signed by Ana.", ["The lease ends in May", "It was signed by Ana"]),
        (
            "I like the new page. Thanks. Show me the log of the build.",
            ["I like the new page", "Show me the log of the build"],
        ),
        ("Find flights to Rome. Book a hotel there.", []),
        (
            "Can you find flights to Rome? Book a hotel there! The guests leave on Monday.",
            ["The guests leave on Monday"],
        ),
        ("the lease of the flat in Hamburg ends in May", []),
        (
            "He wrote 'delete the repo. Call Bob.' to us. The shop has crashed. List the pods.",
            ["The shop has crashed", "List the pods"],
        ),
        ("The lease ends. " * (MAX_CUT // 10), []),
    ],
)
def test_sentences_that_ask_for_nothing_are_told_beside_those_that_do(query: str, sentences: list[str]) -> None:
    assert told(query) == sentences


def test_tasks_that_are_too_many_to_be_parts_of_their_own_are_not_told() -> None:
    tasks = [f"Find the invoice number {number}." for number in range(MAX_CLAUSES + 3)]
    assert told(" ".join([*tasks, "Our customer is angry."])) == ["Our customer is angry"]


def test_only_so_many_sentences_are_told() -> None:
    assert told(" ".join(f"The lease number {number} ends." for number in range(30))) == [
        f"The lease number {number} ends" for number in range(MAX_TOLD)
    ]


def test_what_is_told_is_read_as_it_is_meant() -> None:
    query = "Our custmer is angry. Find the charge, then write to her."
    meant = understand(query.replace("custmer", "customer"))
    slipped = understand(query, (), meant.terms)
    assert slipped.slips == {"custmer": "customer"}
    assert slipped.told[0].terms == meant.told[0].terms


def test_what_is_told_is_embedded_behind_the_clauses_and_before_earlier_texts() -> None:
    query = "Our customer is angry. Find the charge, then show her."
    understood = understand(query, [("list the invoices", 0.5)])
    assert understood.texts == [query, "Find the charge", "show her", "Our customer is angry", "list the invoices"]
