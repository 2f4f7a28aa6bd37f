"""Modes: who asks to be told something gets no tool that changes it, and the other way round."""

import pytest

from orchestrator.catalogue import Catalogue
from orchestrator.language.modes import CHANGES, TELLS, UNSAID, done_by, wanted
from orchestrator.models import Annotations, RouteHint, RouteRequest, Tool
from orchestrator.router import Router
from orchestrator.stages.understand import understand
from tests.catalogues import tool


@pytest.mark.parametrize(
    "task",
    [
        "which deals are about to close?",
        "show me the open issues",
        "could you please look up the invoice",
        "charts installed?",
        "give me the price of gold",
        "I'd like you to find customer Nowak",
        "Welche Rechnungen sind überfällig?",
        "what did the team decide and who was there",
    ],
)
def test_a_task_that_asks_wants_to_be_told(task: str) -> None:
    assert wanted(task) == TELLS


@pytest.mark.parametrize(
    "task",
    [
        "delete the old bucket",
        "can you cancel my appointment on Friday?",
        "please send the report to Ana",
        "open a ticket for the broken login",
        "let's give new customers 10% off",
        "I want to book a table for two",
    ],
)
def test_a_task_that_orders_wants_something_changed(task: str) -> None:
    assert wanted(task) == CHANGES


@pytest.mark.parametrize(
    "task",
    [
        "find the customer and refund her",
        "create a list of all open issues",
        "convert 3 miles to kilometres",
        "Peux-tu envoyer le rapport ?",
        "the invoice for Dunder",
        "would it carry on to the left?",
    ],
)
def test_a_task_that_says_both_or_neither_wants_nothing_for_sure(task: str) -> None:
    assert wanted(task) == UNSAID


@pytest.mark.parametrize(
    ("found", "mode"),
    [
        (tool("crm:list_deals", "All deals."), TELLS),
        (tool("crm:update_deal", "Update a deal."), CHANGES),
        (tool("azure:webtests_create", "A web test."), CHANGES),
        (tool("shop:order_history", "Order history of a customer."), UNSAID),
        (tool("pay:charge", "Charge a card."), CHANGES),
        (tool("weather:current", "Returns the weather."), TELLS),
        (tool("list-maker:remove", "Remove an item."), CHANGES),
        (tool("notes:update_view", "Shows a view.", annotations=Annotations(read_only=True)), TELLS),
    ],
)
def test_a_tool_does_what_its_hint_its_name_or_its_description_says(found: Tool, mode: int) -> None:
    assert done_by(found) == mode


def test_parts_want_different_things_and_the_whole_then_neither() -> None:
    task = understand("show the open issues and close the duplicates")
    assert [part.mode for part in task.parts] == [TELLS, CHANGES]
    assert task.mode == UNSAID


DEALS = Catalogue(
    [
        tool("crm:update_deal", "Update a deal: its stage, its amount, or when it is about to close."),
        tool("crm:list_deals", "List deals by stage."),
        tool("crm:list_contacts", "List contacts."),
        tool("mail:send_mail", "Send a mail."),
    ]
)


async def test_a_question_is_answered_with_what_tells_and_an_order_with_what_does() -> None:
    async with Router(DEALS) as router:

        async def scores(query: str) -> dict[str, float]:
            decision = await router.route(RouteRequest(query=query, tenant="local", route_hint=RouteHint.SEMANTIC))
            return {match.tool.name: match.score for match in decision.matches}

        asked, ordered = await scores("which deals are about to close?"), await scores("update the deal of Nowak")
    assert asked["list_deals"] > asked["update_deal"]
    assert ordered["update_deal"] > ordered["list_deals"]


async def test_the_gate_is_less_sure_of_a_tool_that_does_the_other_thing() -> None:
    async with Router(DEALS) as router:
        sure = [
            (await router.route(query)).gate_confidence
            for query in ("deals that are about to close", "which deals are about to close?")
        ]
    assert sure[1] < sure[0]
