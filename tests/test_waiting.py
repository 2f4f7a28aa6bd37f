"""What a task puts off to a later time is told where its tool takes none: it would be done at once."""

from typing import Any

import pytest

from orchestrator.planning.planner import plan
from orchestrator.planning.waiting import put_off
from orchestrator.records.plan import PlanRequest
from tests.catalogues import tool
from tests.decisions import TEXT, decision, schema


def approve(**others: Any) -> Any:
    return tool("pay:approve_invoice", "Approve an invoice.", input_schema=schema("invoice", invoice=TEXT, **others))


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("approve invoice INV-77 next Monday", "next Monday"),
        ("approve invoice INV-77 tomorrow at 9", "tomorrow at 9"),
        ("in two hours, approve invoice INV-77", "in two hours"),
        ("approve invoice INV-77 in two hours, please", "in two hours"),
        ("approve the invoice of next week's order", ""),
        ("approve the invoice of next week", ""),
        ("approve invoice 'next Monday'", ""),
        ("approve invoice INV-77", ""),
    ],
)
def test_a_later_time_is_told(task: str, said: str) -> None:
    assert put_off(task, approve()) == said


@pytest.mark.parametrize("other", ["day", "when", "note"])
def test_a_tool_that_takes_a_time_or_words_may_take_it(other: str) -> None:
    assert put_off("approve invoice INV-77 next Monday", approve(**{other: TEXT})) == ""


def test_what_only_tells_something_waits_for_nothing() -> None:
    assert put_off("list the invoices due next week", tool("pay:list_invoices", "List the invoices.")) == ""


def test_a_plan_warns_that_nothing_waits() -> None:
    made = plan(PlanRequest(decision=decision("approve invoice INV-77 next Monday", [approve()])))
    assert made.warnings == (
        "no step waits for 'next Monday': pay:approve_invoice takes no time and is called at once",
    )
