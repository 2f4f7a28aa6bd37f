"""Clauses: the parts of a task that ask for an action, quotations, and exclusions."""

from collections.abc import Awaitable, Callable, Iterator

import pytest

from orchestrator import Catalogue, Router
from orchestrator.index.intent import known_actions
from orchestrator.pipeline.clauses import masked, split_clauses, split_left_out
from tests.catalogues import tool
from tests.timing import seconds

Parts = Callable[[str], Awaitable[list[str]]]
MAX_PARTS = 8
MAX_CUT = 4_000
"""The most characters of a task that is cut."""


@pytest.fixture
def parts() -> Iterator[Parts]:
    """Gives the parts of a task that a Decision shows: none where the task is one."""
    catalogue = Catalogue([tool("a:book_desk", "Book a desk"), tool("a:email_person", "Email a person")])

    async def parts_of(text: str) -> list[str]:
        return list((await router.route(text)).parts)

    with Router(catalogue) as router:
        yield parts_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Find flights to Rome. Book a hotel there.", ["Find flights to Rome", "Book a hotel there"]),
        ("get the revenue by country, then post it to #sales", ["get the revenue by country", "post it to #sales"]),
        ("search my notes for Ana and email them to Bo", ["search my notes for Ana", "email them to Bo"]),
        ("how tall is the tower and who built the bridge", ["how tall is the tower", "who built the bridge"]),
        ("list open bugs\nassign the bugs to Kim", ["list open bugs", "assign the bugs to Kim"]),
        ("void invoice 12 -> search flights → email Ana", ["void invoice 12", "search flights", "email Ana"]),
        ("void invoice 12 & email Ana", ["void invoice 12", "email Ana"]),
        ("查询北京的天气。发送邮件给王芳。", ["查询北京的天气", "发送邮件给王芳"]),
        ("create a page with title, body and tags", []),
        ("list the employees and managers of the team", []),
        ("Hello! Please find flights to Rome. Thanks!", []),
        ("not only post it to Bo but also email Ana", ["not only post it to Bo", "also email Ana"]),
        ("weather", []),
    ],
)
async def test_a_task_is_cut_at_sentences_and_where_an_action_begins_behind_and(
    parts: Parts, text: str, expected: list[str]
) -> None:
    assert await parts(text) == expected


@pytest.mark.parametrize(
    "quoting",
    [
        'post "book a desk for Monday and find flights. Then call me" to #ops',
        "run this\n```\nfind flights to Rome\nbook a hotel there\n```",
        "name it „finde Flüge, dann buche ein Hotel. Danke“",
        "post 'Ana's part and then Bo's part' to all",
    ],
)
async def test_what_is_quoted_is_never_cut(parts: Parts, quoting: str) -> None:
    assert await parts(quoting) == []
    assert await parts(f"{quoting}\n\nand then email Ana") == [quoting, "and then email Ana"]


async def test_many_tasks_end_in_one_clause_and_a_document_is_not_cut(parts: Parts) -> None:
    many = await parts(" ".join(f"Send letter number {number} to Ana." for number in range(20)))
    assert len(many) == MAX_PARTS
    assert "number 19" in many[-1]
    assert await parts("Send the letter to Ana. " * (MAX_CUT // 20)) == []


@pytest.mark.parametrize(
    ("text", "asked", "left_out"),
    [
        ("list the objects but don't delete any", "list the objects", ("but don't delete any",)),
        ("Do not delete it. List the objects.", "List the objects", ("Do not delete it",)),
        ("without the web, search my notes", "search my notes", ("without the web",)),
        ("- don't call Bo\n- email Ana", "- email Ana", ("- don't call Bo",)),
        ("without a browser use curl to fetch it", "use curl to fetch it", ("without a browser",)),
        ("not web search, open the file", "open the file", ("not web search",)),
        ("don't hesitate to create a ticket", "don't hesitate to create a ticket", ()),
        ("do not be afraid to delete the file", "do not be afraid to delete the file", ()),
        ("sum it up. Don't attempt to send it to Bo", "sum it up", ("Don't attempt to send it to Bo",)),
        ("show invoices, don't allow me to delete them", "show invoices", ("don't allow me to delete them",)),
        ("not only create a ticket but also send an email", "not only create a ticket but also send an email", ()),
        ("no, use the other repository and list its issues", "no, use the other repository and list its issues", ()),
        ("list issues that are not in Jira", "list issues that are not in Jira", ()),
        ("I do not know who called", "I do not know who called", ()),
        ("post 'don't delete it' to the channel", "post 'don't delete it' to the channel", ()),
        ("no-code platforms", "no-code platforms", ()),
        ("don't delete it", "don't delete it", ("don't delete it",)),
        ('"don\'t delete it"', '"don\'t delete it"', ('"don\'t delete it"',)),
    ],
)
def test_what_is_not_wanted_is_told_apart_and_never_what_is_quoted(
    text: str, asked: str, left_out: tuple[str, ...]
) -> None:
    assert split_left_out(text) == (asked, left_out)


def test_hostile_texts_take_no_time() -> None:
    texts = (" \n" * 1_900, ". " * 1_900, "'" * 3_900, " '" * 1_900, "and then " * 430, "don't " * 650, "”" * 3_900)
    actions = known_actions()
    assert seconds(lambda: [(split_clauses(text, actions), split_left_out(text), masked(text)) for text in texts]) < 2
