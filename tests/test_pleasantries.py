"""Greetings and thanks are no parts of a task: no step, and no further route, is for them."""

import pytest

from orchestrator import Router
from orchestrator.planner import plan
from orchestrator.planning.seams import cut_task
from orchestrator.plans import PlanRequest


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


async def test_no_step_is_for_them(router: Router) -> None:
    made = plan(PlanRequest(decision=await router.route("Hi team. Refund charge ch_3. Thanks a lot")))
    assert [step.tool for step in made.steps] == ["stripe:refund_charge"]
