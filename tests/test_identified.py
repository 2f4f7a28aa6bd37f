"""A task identifies a thing where it says its identifier, and not where a number is something else's."""

import pytest

from orchestrator.language.identified import identified_in


@pytest.mark.parametrize(
    "task",
    [
        "update order 4711",
        "update order #4711",
        "update orders: 4711 and 4712",
        "update order No. 4711",
        "update order number 4711",
        "update order # 4711",
        "update order AB-4711 for Bob",
        "order_id=4711",
        "update the order whose ID is 'AB4711'",
        "update the order of Bob: the ID of the thing is AB4711",
        "on May 5 update order 4711",
        "update the orders with the IDs 4711 and 4712",
    ],
)
def test_a_number_right_behind_a_thing_or_what_is_called_an_identifier_identifies_it(task: str) -> None:
    assert "order" in identified_in(task)


@pytest.mark.parametrize(
    "task",
    [
        "",
        "update the order",
        "update 3 orders",
        "update the order by 5 pm",
        "update the order of Bob in Room 5",
        "update the order to Room 5",
        "update 2 items of the order",
        "update the order, whatever the id, by 5 pm",
        "keep a key of the order in the vault for 90 days",
        "update the order and spend at most 500 tokens",
    ],
)
def test_a_number_of_something_else_identifies_nothing_more(task: str) -> None:
    assert "order" not in identified_in(task)
