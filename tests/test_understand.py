"""Understanding a task without a model: its clean text, its clauses and their weighted terms."""

import pytest

from orchestrator.index.intent import known_actions
from orchestrator.index.text import terms
from orchestrator.pipeline.clauses import clean
from orchestrator.pipeline.understand import QUOTED, understand


def test_control_characters_and_lone_surrogates_separate_words() -> None:
    assert clean("send\x00a\x1bletter\ud800now\x9b \t  please\r\nAna") == "send a letter now please\nAna"


@pytest.mark.parametrize("query", ["", " \n ", "\x00\x07", "...", "\ud800", "🚀"])
def test_a_text_without_words_has_no_terms_and_one_clause(query: str) -> None:
    found = understand(query)
    assert (dict(found.terms), len(found.clauses), found.parts) == ({}, 1, ())


def test_a_repeated_term_weighs_its_root_and_a_quoted_one_half() -> None:
    assert understand("invoice invoices invoicing letter").terms == {"invoic": pytest.approx(3**0.5), "letter": 1.0}
    assert understand("post 'book a desk' here").terms == {"post": 1.0, "book": QUOTED, "desk": QUOTED}
    assert understand("'book a desk'").terms == {"book": 1.0, "desk": 1.0}
    assert set(understand("Who am I?").terms) == {"who", "am", "i"}  # There is nothing but stop words.


def test_terms_are_shown_in_the_words_of_the_task() -> None:
    assert understand("Sending invoices, an invoice").words == {"send": "sending", "invoic": "invoices"}
    assert understand("show my repos").words[terms("repository")[0]] == "repos"


def test_each_clause_has_terms_of_its_own_and_says_whether_it_acts() -> None:
    task = "The lease ends in May. Find flights to Rome and book a hotel."
    found = understand(task, actions=known_actions() | {"book"})
    assert [part.text for part in found.parts] == ["The lease ends in May", "Find flights to Rome", "book a hotel"]
    assert [part.acts for part in found.parts] == [False, True, True]
    assert {term for part in found.parts for term in part.terms} == set(found.terms)
    assert found.texts == [task, *(part.meant for part in found.parts)]


def test_a_misspelt_word_is_read_as_the_one_of_the_catalogue_and_the_text_stays() -> None:
    found = understand("refund the custmer 'custmer'", known=terms("refund a customer"))
    assert (found.corrected, found.text) == ({"custmer": "customer"}, "refund the custmer 'custmer'")
    assert "custom" in found.terms
    assert found.texts == ["refund the customer 'custmer'"]


@pytest.mark.parametrize("value", ["019f95241e00773f88b464388b37965a", "2026-12-04", "4915123577723"])
def test_an_identifier_is_neither_searched_nor_embedded(value: str) -> None:
    found = understand(f"cancel cart {value}", known=terms("cancel a cart"))
    assert found.texts == ["cancel cart "]
    assert set(found.terms) == {"cancel", "cart"}


def test_a_number_of_the_catalogue_is_searched() -> None:
    assert set(understand("open base64 file 7", known=terms("base64 file")).terms) == {"open", "base64", "file"}


def test_what_is_left_out_has_no_terms_unless_it_is_all_there_is() -> None:
    found = understand("list the objects, don't delete any")
    assert (set(found.terms), found.left_out, found.asks_nothing) == ({"list", "object"}, ("don't delete any",), False)
    assert understand("don't delete it").asks_nothing
    assert not understand("don't delete it", [("list the files", 0.4)]).asks_nothing


def test_earlier_texts_add_terms_by_weight_but_none_of_the_tasks_own() -> None:
    found = understand("and the closed ones", [("list closed pull requests", 0.4)])
    assert found.terms["close"] == 1.0
    assert found.terms["pull"] == 0.4
    assert found.pairs["pull", "request"] == 0.4
    assert found.texts[-1] == "list closed pull requests"


def test_an_acronym_is_spelt_out_for_the_embedder_alone() -> None:
    task = "merge the PRs of acme/sms and mail ui@acme.io"
    found = understand(task)
    assert found.text == task
    assert found.texts[0] == "merge the PRs pull request of acme/sms and mail ui@acme.io"


def test_an_embedder_reads_no_folders_of_a_path() -> None:
    found = understand("read /tmp/x/fox.txt, ~/a.b/log and list /tmp/photos/ of https://acme.io/a/b and src/a.py")
    assert found.texts[0] == "read fox.txt, log and list photos/ of https://acme.io/a/b and src/a.py"
    assert {"fox", "temporari"} <= found.terms.keys()


@pytest.mark.parametrize("query", ["recuerda que mi madre vive en Oslo", "warna apa yang cocok untuk kamar tidur"])
def test_a_word_of_another_language_is_not_corrected(query: str) -> None:
    assert understand(query, known={"made", "warn"}).corrected == {}


def test_the_gateways_name_before_a_tools_is_no_word() -> None:
    assert clean("use mcp__toolroute__search to find it") == "use to find it"
    assert clean("call mcp__toolroute__github_create_issue") == "call github_create_issue"
