"""Greetings and thanks are no parts of a task: no step, and no further route, is for them."""

import pytest

from orchestrator import Router
from orchestrator.language.pleasantries import is_pleasantry, without_closing
from orchestrator.planning.planner import plan
from orchestrator.planning.seams import cut_task
from orchestrator.records.plan import PlanRequest
from tests.timing import seconds


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        ("Hi team. Refund charge ch_3. Thanks a lot", ["Refund charge ch_3."]),
        ("Hi, can you cancel order 12?", ["can you cancel order 12?"]),
        ("Got it. Refund charge ch_3", ["Refund charge ch_3"]),
        ("ok great, now cancel order 12", ["cancel order 12"]),
        ("Good morning! Which invoices are overdue? Cheers, Tom", ["Which invoices are overdue?"]),
        ("refund charge ch_3, thanks!", ["refund charge ch_3"]),
        ("Merge 88. Perfect. Then restart the api", ["Merge 88", "restart the api"]),
        ("cancel order 12, many thanks, Kim", ["cancel order 12"]),
        ("Merge 88. Thanks everyone! Cheers, Lou", ["Merge 88."]),
    ],
)
def test_they_are_no_parts(task: str, parts: list[str]) -> None:
    assert [part.text for part in cut_task(task)] == parts


@pytest.mark.parametrize("task", ["Thanks a lot!", "ok", "Good morning, team"])
def test_what_is_nothing_else_is_one_part(task: str) -> None:
    assert [part.text for part in cut_task(task)] == [task]


@pytest.mark.parametrize(
    ("task", "last"),
    [("tag it red, cool", "cool"), ("make a poll with right, fine", "fine"), ("Hi Ana is late, tell Bo", "tell Bo")],
)
def test_words_of_a_list_and_of_a_sentence_are_parts(task: str, last: str) -> None:
    assert cut_task(task)[-1].text == last


@pytest.mark.parametrize(
    "task",
    [
        'Open an issue titled "It works. Many thanks"',
        "Text Lou: we are done. Cheers!",
        "post in #ops: it is fixed. Thanks all!",
        'Post "It is late. Best regards"',
        "summarise this:\n> It is late.\n> Thanks!",
    ],
)
def test_the_thanks_of_a_quote_or_of_a_message_stay(task: str) -> None:
    assert cut_task(task)[-1].text == task


@pytest.mark.parametrize(
    "repeated", ["Thanks all. ", "Thanks! ", "Thanks Thanks ", "Cheers, All ", "thanks\n", "Hi Hi "]
)
def test_many_of_them_cost_no_time(repeated: str) -> None:
    text = f"Merge 88. {repeated * (3_700 // len(repeated))}x"
    # It takes up to 5 ms.
    assert seconds(lambda: (without_closing(text), is_pleasantry(f"{repeated * 5}x"), text), runs=3) < 0.05


async def test_no_step_is_for_them(router: Router) -> None:
    made = plan(PlanRequest(decision=await router.route("Hi team. Refund charge ch_3. Thanks a lot")))
    assert [step.tool for step in made.steps] == ["stripe:refund_charge"]
