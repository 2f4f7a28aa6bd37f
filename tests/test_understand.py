"""Understanding a query: clauses where a task begins anew, and nowhere else."""

import pytest

from orchestrator.stages.understand import MAX_CLAUSES, MAX_CUT, understand


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
    ],
)
def test_a_compound_task_is_cut_where_an_action_begins_anew(query: str, parts: list[str]) -> None:
    assert [part.rstrip(".;") for part in clauses(query)] == [part.rstrip(".;") for part in parts]


@pytest.mark.parametrize(
    "query",
    [
        "create a page with title, body and tags",
        "use slack and github to announce the release",
        "compare revenue and order history of the last quarter",
        "find a hotel in Paris, France",
        "list the employees and managers of the sales team",
        "using bullet points, summarize the text",
        "when the build fails, open a ticket",
        "for my trip to Rome, find flights",
        "Hello! Please find flights to Rome. Thanks!",
        "My printer is broken. Order a new one for me.",
        "write a letter to Dr. Chen about the results",
        "weather",
    ],
)
def test_a_single_task_stays_whole(query: str) -> None:
    assert clauses(query) == [query]


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
