"""Modes: who asks to be told something gets no tool that changes it, and the other way round."""

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.language.modes import CHANGES, STARTS, TELLS, TELLS_OF_A_DEED, UNSAID, done_by
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.tool import Annotations, Kind, Tool
from orchestrator.routing.router import Router
from orchestrator.routing.understand import understand
from tests.catalogues import tool


@pytest.mark.parametrize(
    ("found", "mode"),
    [
        (tool("crm:list_deals", "All deals."), TELLS),
        (tool("crm:update_deal", "Update a deal."), CHANGES),
        (tool("azure:webtests_create", "A web test."), CHANGES),
        (tool("shop:order_history", "Order history of a customer."), UNSAID),
        (tool("ci:build_status", "Status of the latest build."), TELLS),
        (tool("ci:deploy_history", "Past deployments of a service."), TELLS),
        (tool("ci:build_log", "Build log of a job."), TELLS),
        (tool("ops:upload_log", "Upload the log to the server."), CHANGES),
        (tool("ops:upload_logs", "Upload the logs to the server."), CHANGES),
        (tool("chat:set_status", "Set the status of a user."), CHANGES),
        (tool("pay:charge", "Charge a card."), CHANGES),
        (tool("weather:current", "Returns the weather."), TELLS),
        (tool("list-maker:remove", "Remove an item."), CHANGES),
        (tool("books:record_payment"), UNSAID),
        (tool("books:record_payment", annotations=Annotations(read_only=False)), CHANGES),
        (tool("notes:update_view", "Shows a view.", annotations=Annotations(read_only=True)), TELLS),
    ],
)
def test_a_tool_does_what_its_hint_its_name_or_its_description_says(found: Tool, mode: int) -> None:
    assert done_by(found) == mode


@pytest.mark.parametrize(
    ("found", "mode"),
    [
        (tool("desk:find_tickets", "Find tickets.", kind=Kind.AGENT), UNSAID),
        (tool("desk:list_and_close", "Runs every night.", kind=Kind.WORKFLOW), STARTS),
        (tool("desk:summary", "Get a summary.", kind=Kind.WORKFLOW, annotations=Annotations(read_only=True)), TELLS),
        (tool("desk:find_tickets", "Find tickets.", kind=Kind.INTEGRATION), TELLS),
    ],
)
def test_agents_and_workflows_may_do_more_than_their_name_says(found: Tool, mode: int) -> None:
    assert done_by(found) == mode


@pytest.mark.parametrize(
    ("name", "description", "mode"),
    [
        ("list_and_delete", "", UNSAID),
        ("get_or_create_contact", "Get a contact.", UNSAID),
        ("fetch_report_and_send", "", UNSAID),
        ("create_and_view", "", UNSAID),
        ("find_then_notify", "", UNSAID),
        ("list_likes_and_views", "", TELLS),
        ("get_pros_and_cons", "", TELLS),
        ("search_and_find", "", TELLS),
        ("create_or_update", "", CHANGES),
        ("return_order", "", UNSAID),
        ("collect_payment", "", UNSAID),
        ("track_time", "", UNSAID),
        ("access_token", "", UNSAID),
        ("provide_feedback", "", UNSAID),
        ("track_parcel", "Shows where a parcel is.", TELLS),
        ("return_rows", "Returns the rows of a table.", TELLS),
        ("collect_payment", "Create a payment.", CHANGES),
        ("notebook", "List, create or delete a note.", UNSAID),
        ("editor", "View and edit files.", UNSAID),
        ("text", "Find and replace words.", UNSAID),
        ("notes", "List, search and read notes.", TELLS),
        ("detect_language", "Detects the language of a text.", UNSAID),
        ("geocode", "Geocode an address.", UNSAID),
        ("notes", "And the notes.", UNSAID),
        ("export_contacts", "", UNSAID),
    ],
)
def test_a_name_or_a_description_that_may_mean_both_tells_nothing(name: str, description: str, mode: int) -> None:
    assert done_by(tool(f"x:{name}", description)) == mode


def test_parts_want_different_things_and_the_whole_then_neither() -> None:
    task = understand("show the open issues and close the duplicates")
    assert [part.mode for part in task.parts] == [TELLS, CHANGES]
    assert task.mode == UNSAID


def test_parts_that_all_ask_want_to_be_told() -> None:
    task = understand("show the open issues and did anyone close issue 12?")
    assert [part.mode for part in task.parts] == [TELLS, TELLS_OF_A_DEED]
    assert task.mode == TELLS


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


SHOP = Catalogue(
    [
        tool("shop:cancel_order", "Cancel an order and give the money back."),
        tool("shop:get_order", "Get an order with its state."),
        tool("shop:create_order", "Create an order."),
        tool("desk:order_review", "Reviews an order and closes it.", kind=Kind.WORKFLOW),
        tool("mail:send_mail", "Send a mail."),
    ]
)


@pytest.mark.parametrize(
    "query", ["did we cancel order 12?", "has order 12 been cancelled?", "who cancelled order 12?"]
)
async def test_who_asks_of_a_deed_gets_what_tells_of_it(query: str) -> None:
    async with Router(SHOP) as router:
        decision = await router.route(query)
        ordered = await router.route("cancel order 12")
    assert decision.matches[0].tool.key == "shop:get_order"
    assert ordered.matches[0].tool.key == "shop:cancel_order"
    assert decision.confidence <= decision.matches[0].score + 0.2  # What does it would stand ahead.


async def test_where_nothing_tells_of_a_deed_none_is_done() -> None:
    """It stands alone, and far ahead of all others; but it is no answer."""
    async with Router(Catalogue([found for found in SHOP if found.name != "get_order"])) as router:
        for query in ("did we cancel order 12?", "was order 12 reviewed?"):
            decision = await router.route(query)
            assert not plan(PlanRequest(decision=decision)).steps, query


async def test_a_question_behind_an_order_does_not_carry_it_out_again() -> None:
    async with Router(SHOP) as router:
        first = await router.route("cancel order 12")
        before = [first.turn("shop:cancel_order")]
        for query in ("did it work?", "is it cancelled?", "was it done again?"):
            decision = await router.route(query, conversation=before)
            made = plan(PlanRequest(decision=decision, conversation=tuple(before)))
            assert [step.tool for step in made.steps] in ([], ["shop:get_order"]), query


async def test_a_workflow_is_not_started_for_what_is_only_told() -> None:
    restart = tool("ops:restart_service", "Restarts a service and waits.", kind=Kind.WORKFLOW)
    async with Router(Catalogue([*SHOP, restart])) as router:
        told = await router.route("we restarted the service, send a mail to Bo")
        stated = await router.route("The service is stuck")
    assert all(match.score < 0.05 for match in told.matches if match.tool == restart)
    assert [step.tool for step in plan(PlanRequest(decision=told)).steps] == ["mail:send_mail"]
    assert stated.matches[0].tool == restart
    assert not plan(PlanRequest(decision=stated)).steps
