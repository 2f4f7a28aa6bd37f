"""Orders that do not begin with a verb are orders all the same: wishes, and what stands behind a statement."""

import pytest

from orchestrator import Catalogue, Router
from orchestrator.language.statements import only_states
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from tests.catalogues import taking, tool

SHOP = Catalogue(
    [
        tool("shop:cancel_order", "Cancel an order.", input_schema=taking("order_id", order_id="Id of the order")),
        tool("shop:get_order", "Get an order with its state.", input_schema=taking("order_id", order_id="Its id")),
        tool("pay:refund_charge", "Refund a charge.", input_schema=taking("charge", charge="Id of the charge")),
        tool("files:delete_file", "Delete a file.", input_schema=taking("path", path="Where it is")),
        tool("admin:deactivate_user", "Deactivate the account of a user."),
    ]
)


@pytest.mark.parametrize(
    "task",
    [
        "Your task is to cancel order 12",
        "The goal is to cancel order 12",
        "My request is to cancel order 12",
        "They want order 12 cancelled",
        "Ana wants order 12 cancelled",
        "the customer needs her order 12 cancelled",
        "The order 12 is to be cancelled",
        "The customer is asking for order 12 to be cancelled",
        "My boss said to cancel order 12",
        "This is to request that order 12 be cancelled",
        "Ana asked for her order 12 to be cancelled",
        "We ask that the order 12 be cancelled",
        "It is required that the order 12 be cancelled today",
        "I'd propose that the order 12 be cancelled",
        "The buyer requested that we cancel order 12",
        "The order 12 can now be cancelled",
        "We are fine for you to cancel order 12",
        "The item is gone (cancel order 12)",
        "cancel order 12 made by Ana",
        "cancel order 12 unless paid",
        "The item is gone… cancel order 12",
        "The item is gone / cancel order 12",
        "The item is gone -- cancel order 12",
        "The item is gone。Cancel order 12",
    ],
)
async def test_an_order_in_other_words_is_carried_out(task: str) -> None:
    async with Router(SHOP) as router:
        made = plan(PlanRequest(decision=await router.route(task)))
    assert [(step.tool, step.arguments) for step in made.steps] == [("shop:cancel_order", {"order_id": "12"})]


@pytest.mark.parametrize(
    "task",
    [
        "Bob never said to cancel order 12",
        "The policy says to cancel order 12 within 2 days",
        "Order 12 is to be cancelled by the customer himself",
        "Ana wants to know why order 12 was cancelled",
        "Ana wants the status of order 12 cancelled last week",
        "The buyer has requested that Bob cancels order 12",
        "The order 12 can be cancelled until noon",
        "The pull request 12 for cancelled orders is to be merged by Bob",
        "Ana is fine for now, order 12 was cancelled",
    ],
)
async def test_what_somebody_else_says_or_does_is_no_order(task: str) -> None:
    async with Router(SHOP) as router:
        made = plan(PlanRequest(decision=await router.route(task)))
    assert "shop:cancel_order" not in [step.tool for step in made.steps]


@pytest.mark.parametrize("task", ["Jane left: deactivate", "Her account was a test, delete"])
def test_one_word_may_be_an_order(task: str) -> None:
    assert not only_states(task)


@pytest.mark.parametrize(
    "task",
    [
        "Order 12 is fine",
        "Pull request 90 has conflicts",
        "The item is gone (it was the last one)",
        "Jane left",
        "They never asked for order 12 to be cancelled",
        "I suggest that the order 12 not be cancelled",
        "The buyer asked me why order 12 was cancelled",
        "Ana is happy for the quick refund",
        "The order 12 cannot be cancelled",
    ],
)
def test_what_only_tells_how_things_are_is_none(task: str) -> None:
    assert only_states(task)


@pytest.mark.parametrize(
    ("task", "tool_key", "arguments"),
    [
        ("Cancel order 12. Order 13 is fine", "shop:cancel_order", {"order_id": "12"}),
        ("Order 11 was shipped. Cancel order 12", "shop:cancel_order", {"order_id": "12"}),
        ("Order 12 is late. Cancel it", "shop:cancel_order", {"order_id": "12"}),
        ("Order 12 is late. Cancel the order", "shop:cancel_order", {"order_id": "12"}),
        ("Refund charge ch_3. Charge ch_4 was fine.", "pay:refund_charge", {"charge": "ch_3"}),
        ("Refund the charge. Charge ch_4 was fine.", "pay:refund_charge", {}),
        ("Delete draft.txt. I wrote final.txt.", "files:delete_file", {"path": "draft.txt"}),
    ],
)
async def test_an_order_has_its_own_arguments_and_what_it_points_at(
    task: str, tool_key: str, arguments: dict[str, str]
) -> None:
    async with Router(SHOP) as router:
        made = plan(PlanRequest(decision=await router.route(task)))
    assert [(step.tool, step.arguments) for step in made.steps] == [(tool_key, arguments)]
