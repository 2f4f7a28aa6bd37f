"""A tool that takes something away is held back where the task says nothing of the kind; nothing is changed instead."""

import pytest

from orchestrator import Catalogue, Router
from orchestrator.language.taking_away import speaks_of_taking_away, takes_away
from orchestrator.planning.planner import plan
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.tool import Annotations, Tool
from tests.catalogues import taking, tool

BOOKING = taking("booking_id", booking_id="Id of the booking")
TRAVEL = Catalogue(
    [
        tool("travel:cancel_booking", "Cancel a booking, so let go of it.", input_schema=BOOKING),
        tool("travel:create_booking", "Create a booking.", input_schema=taking("hotel", hotel="Which hotel")),
    ]
)


@pytest.mark.parametrize(
    "key",
    [
        "shop:cancel_order",
        "stripe:stripe_cancel_order",
        "linear:linear_delete_issue",
        "x:bulk_delete_users",
        "x:user_delete_by_id",
        "x:member-remove",
        "x:account_suspend",
        "fw:edge_remove_protection_rule",
        "crm:mailing_list_delete",
    ],
)
def test_a_name_says_that_its_tool_takes_something_away(key: str) -> None:
    assert takes_away(tool(key))


@pytest.mark.parametrize(
    "key",
    [
        "shop:create_order",
        "shop:list_cancelled_orders",
        "delete:create_order",
        "team:add_or_remove_member",
        "crm:update_or_delete_record",
        "s3:enable_delete_protection",
        "fw:rule_enable_disable",
    ],
)
def test_other_names_do_not(key: str) -> None:
    assert not takes_away(tool(key))


def test_a_tool_that_only_tells_takes_nothing_away() -> None:
    assert not takes_away(Tool(server="x", name="get_void", description="", annotations=Annotations(read_only=True)))


@pytest.mark.parametrize(
    "task",
    [
        "mark issue 4 as complete",
        "roll back booking b_12",
        "exclude Bob",
        "rescind it",
        "undo it",
        "take Bob from the group",
        "borra el pedido a Ana",
        "Annule la commande a temps",
        "cancle order 12",
    ],
)
def test_a_task_speaks_of_it_in_other_words_or_in_another_language(task: str) -> None:
    assert speaks_of_taking_away(task)


@pytest.mark.parametrize("task", ["update the order 12", "let us go on with it", "Order 12 is for my aunt"])
def test_other_tasks_do_not(task: str) -> None:
    assert not speaks_of_taking_away(task)


async def _planned(catalogue: Catalogue, task: str) -> Plan:
    async with Router(catalogue) as router:
        return plan(PlanRequest(decision=await router.route(task)))


@pytest.mark.parametrize("task", ["let go of the booking", "let go of booking b_12"])
async def test_nothing_else_is_changed_in_its_place_and_the_reason_says_so(task: str) -> None:
    made = await _planned(TRAVEL, task)
    assert not made.steps
    assert "travel:cancel_booking takes something away" in made.reasons[-1]


async def test_what_was_said_before_may_have_spoken_of_it() -> None:
    orders = taking("order_id", order_id="Id of the order")
    shop = Catalogue([tool("shop:cancel_order", "Cancel an order.", input_schema=orders), tool("mail:send_email")])
    async with Router(shop) as router:
        turns = ((await router.route("cancel order 12")).turn("shop:cancel_order"),)
        further = await router.route("the same for order 13", conversation=turns)
    made = plan(PlanRequest(decision=further, conversation=turns))
    assert [(step.tool, step.arguments) for step in made.steps] == [("shop:cancel_order", {"order_id": "13"})]


async def test_what_looks_it_up_may_take_its_place() -> None:
    order = taking("order_id", order_id="Id of the order")
    shop = Catalogue(
        [
            tool("shop:shop_cancel_order", "Cancel an order.", input_schema=order),
            tool("shop:shop_get_order", "Get an order.", input_schema=order),
        ]
    )
    made = await _planned(shop, "update the shop order 12")
    assert [step.tool for step in made.steps if step.tool] in ([], ["shop:shop_get_order"])
