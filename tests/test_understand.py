"""Understanding a task without a model: its clean text, its clauses and their weighted terms."""

import pytest

from orchestrator import Turn
from tests.catalogues import tool, understood

BEFORE = (Turn(text="list closed pull requests"),)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("send\x00a\x1bletter\ud800now\x9b \t  please\r\nAna", "send a letter now please\nAna"),
        ("use mcp__toolroute__search to find it", "use to find it"),
        ("call mcp__toolroute__github_create_issue", "call github_create_issue"),
    ],
)
async def test_odd_characters_and_the_gateways_name_are_no_words(query: str, text: str) -> None:
    assert (await understood(query)).text == text


@pytest.mark.parametrize("query", ["\x00\x07", "...", "\ud800", "🚀"])
async def test_a_text_without_words_has_one_clause(query: str) -> None:
    found = await understood(query)
    assert dict(found.terms) == {}
    assert len(found.clauses) == 1
    assert found.parts == ()


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("invoice invoices invoicing letter", {"invoic": pytest.approx(3**0.5), "letter": 1.0}),
        ("post 'book a desk' here", {"post": 1.0, "book": 0.5, "desk": 0.5}),
        ("'book a desk'", {"book": 1.0, "desk": 1.0}),
    ],
    ids=["the root of its count", "half in quotes", "all in quotes"],
)
async def test_a_term_weighs_by_how_it_is_said(query: str, terms: dict[str, float]) -> None:
    assert (await understood(query)).terms == terms


async def test_terms_are_shown_in_the_words_of_the_task() -> None:
    assert (await understood("Sending invoices, an invoice")).words == {"send": "sending", "invoic": "invoices"}
    assert "repos" in (await understood("show my repos")).words.values()


async def test_each_clause_has_its_own_terms_and_action() -> None:
    task = "The lease ends in May. Find flights to Rome and book a hotel."
    found = await understood(task, tool("desk:book", "Book"))
    assert [part.text for part in found.parts] == ["The lease ends in May", "Find flights to Rome", "book a hotel"]
    assert [part.acts for part in found.parts] == [False, True, True]
    assert {term for part in found.parts for term in part.terms} == set(found.terms)
    assert found.texts == [task, *(part.meant for part in found.parts)]


async def test_a_misspelt_word_is_corrected_and_the_text_stays() -> None:
    found = await understood("refund the custmer 'custmer'", tool("shop:refund", "Refund a customer"))
    assert (found.corrected, found.text) == ({"custmer": "customer"}, "refund the custmer 'custmer'")
    assert "custom" in found.terms
    assert found.texts == ["refund the customer  "]


async def test_a_quotation_is_embedded_only_where_it_is_the_task() -> None:
    assert (await understood('click the button "Take snapshot"')).texts == ["click the button  "]
    for kept in ('open "Take snapshot"', "print the contents of 'report.txt'"):
        assert (await understood(kept)).texts == [kept]


@pytest.mark.parametrize("value", ["019f95241e00773f88b464388b37965a", "2026-12-04", "4915123577723"])
async def test_an_identifier_is_neither_searched_nor_embedded(value: str) -> None:
    found = await understood(f"cancel cart {value}", tool("shop:cancel", "Cancel a cart"))
    assert found.texts == ["cancel cart "]
    assert set(found.terms) == {"cancel", "cart"}


async def test_a_number_of_the_catalogue_is_searched() -> None:
    found = await understood("open base64 file 7", tool("disk:base64", "A file"))
    assert set(found.terms) == {"open", "base64", "file"}


async def test_what_is_left_out_has_no_terms_unless_alone() -> None:
    found = await understood("list the objects, don't delete any")
    assert (set(found.terms), found.left_out, found.asks_nothing) == ({"list", "object"}, ("don't delete any",), False)
    assert (await understood("don't delete it")).asks_nothing
    assert not (await understood("don't delete it", conversation=BEFORE)).asks_nothing


async def test_earlier_texts_add_terms_of_less_weight() -> None:
    found = await understood("and the closed ones", conversation=BEFORE)
    assert found.terms["close"] == 1.0
    assert found.terms["pull"] == found.pairs["pull", "request"] < 1.0
    assert found.texts[-1] == "list closed pull requests"


async def test_an_acronym_is_spelt_out_for_the_embedder_alone() -> None:
    task = "merge the PRs of acme/sms and mail ui@acme.io"
    found = await understood(task)
    assert found.text == task
    assert found.texts[0] == "merge the PRs pull request of acme/sms and mail ui@acme.io"


async def test_an_embedder_reads_no_folders_of_a_path() -> None:
    found = await understood("read /tmp/x/fox.txt, ~/a.b/log and list /tmp/photos/ of https://acme.io/a/b and src/a.py")
    assert found.texts[0] == "read fox.txt, log and list photos/ of https://acme.io/a/b and src/a.py"
    assert {"fox", "temporari"} <= found.terms.keys()


@pytest.mark.parametrize("query", ["recuerda que mi madre vive en Oslo", "warna apa yang cocok untuk kamar tidur"])
async def test_a_word_of_another_language_is_not_corrected(query: str) -> None:
    assert (await understood(query, tool("shop:made", "Warn"))).corrected == {}
