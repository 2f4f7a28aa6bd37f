"""Parts of a task and the tools that they are bound to: by what routing found for each part, else by words alone."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from orchestrator.planning.planner import plan
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.tool import Match, Tool
from orchestrator.routing.router import Router
from tests.decisions import NOW, READ, TEXT, decision, schema

REBOOT = Tool(server="deploy", name="restart_service", description="Restart a service that runs")
REFUND = Tool(server="billing", name="refund_payment", description="Give a payment back")


def found(parts: Sequence[str], *chances: tuple[Tool, tuple[float, ...]], seam: str = ", then ") -> Decision:
    """A Decision on the task of these parts, which routing searched for by themselves: each tool's chance for each."""
    matches = tuple(Match(tool=tool, score=0.5, for_parts=own) for tool, own in chances)
    return replace(decision(seam.join(parts)), matches=matches, parts=tuple(parts))


def bound(made: Plan) -> list[tuple[str, str]]:
    return [(step.task, step.tool) for step in made.steps]


@pytest.mark.parametrize(
    ("task", "tools"),
    [
        ("show the open issues and close the duplicates", ["jira:search_issues", "zendesk:merge_tickets"]),
        (
            "look up the latest chargebacks, then post a summary to #finance",
            ["stripe:list_disputes", "slack:post_message"],
        ),
        ("get the weather for Oslo tomorrow and find flights there", ["weather:get_forecast", "amadeus:searchFlights"]),
        (
            "please list the open pull requests, then please merge number 12",
            ["github:list_pull_requests", "github:merge_pull_request"],
        ),
        (
            "The user can't log in. Reset his MFA, and if that doesn't help, open a ticket.",
            ["okta:reset-mfa", "zendesk:create_ticket"],
        ),
        ("google the price of copper and post it to #ops", ["builtin:web_search", "slack:post_message"]),
        (
            "check the docs and list the pull requests",
            ["builtin:workspace_rag_query", "github:list_pull_requests"],
        ),
        (
            "I'm curious about the weather in Oslo tomorrow. Book a desk in Berlin for Monday.",
            ["weather:get_forecast", "facilities:book_desk"],
        ),
        ("list the channels of our slack, then find the meaning of life", ["slack:list_channels", ""]),
        ("reserve a desk in Berlin for Monday and archive the old orders", ["facilities:book_desk", ""]),
    ],
)
async def test_each_part_goes_to_the_tool_that_routing_finds_for_it_or_to_none(
    router: Router, task: str, tools: list[str]
) -> None:
    """By shared words "show the open issues" opened an issue, and "archive the old orders" cancelled one."""
    made = plan(PlanRequest(decision=await router.route(task)))
    assert [step.tool for step in made.steps] == tools


def test_a_tool_that_only_shares_a_word_does_not_take_the_part_of_a_likelier_one() -> None:
    parts = ("reboot the payment service", "read the file a.txt")
    made = plan(PlanRequest(decision=found(parts, (REFUND, (0.4, 0.0)), (REBOOT, (0.6, 0.0)), (READ, (0.0, 0.9)))))
    assert [step.tool for step in made.steps] == ["deploy:restart_service", "files:read_file"]
    assert made.steps[0].why == "60% likely for this part; shares 'servic'"


def test_a_part_whose_likeliest_tool_is_unlikely_stays_without_one() -> None:
    parts = ("read the file a.txt", "return the payment")
    unlikely = found(parts, (READ, (0.9, 0.0)), (REFUND, (0.0, 0.19)))
    assert bound(plan(PlanRequest(decision=unlikely))) == [(parts[0], "files:read_file"), (parts[1], "")]
    assert plan(PlanRequest(decision=unlikely, min_confidence=0.2)).steps[1].tool == "billing:refund_payment"


@pytest.mark.parametrize(("chance", "tool"), [(0.69, ""), (0.7, "time:get_current_time")])
def test_a_tool_that_shares_no_word_with_a_part_is_bound_to_it_only_where_routing_is_sure(
    chance: float, tool: str
) -> None:
    sure = found(("read the file a.txt", "say how late we are"), (READ, (0.9, 0.0)), (NOW, (0.0, chance)))
    assert plan(PlanRequest(decision=sure)).steps[1].tool == tool


def test_of_two_likely_tools_the_one_whose_required_arguments_stand_in_the_part_goes_first() -> None:
    note = Tool(server="notes", name="file_note", description="File a note", input_schema=schema("title", title=TEXT))
    parts = ("get the time in UTC", "read the file a.txt")
    both = found(parts, (NOW, (0.9, 0.0)), (note, (0.0, 0.6)), (READ, (0.0, 0.5)))
    assert plan(PlanRequest(decision=both)).steps[1].tool == "files:read_file"


def test_a_part_that_routing_took_for_a_task_is_not_swallowed_by_its_neighbour() -> None:
    parts = ("read the file a.txt", "water the plants")
    apart = found(parts, (READ, (0.9, 0.0)), seam=" and ")
    made = plan(PlanRequest(decision=apart))
    assert bound(made) == [("read the file a.txt", "files:read_file"), ("water the plants", "")]
    assert [step.depends_on for step in made.steps] == [(), ()]
    whole = plan(PlanRequest(decision=replace(apart, parts=())))
    assert bound(whole) == [("read the file a.txt and water the plants", "files:read_file")]


def test_what_has_the_verb_of_the_part_is_bound_in_place_of_what_does_the_opposite() -> None:
    lock = Tool(server="directory", name="lock_user_account", description="Locks the account of a user.")
    unlock = Tool(server="vpn", name="unlock_login", description="Unlocks a login.")
    change = Tool(server="vpn", name="update_login", description="Updates an account's login.")
    for other, tools in ((unlock, ["vpn:unlock_login"]), (change, [])):
        made = plan(PlanRequest(decision=decision("unlock the account of the user", [lock, other])))
        assert [step.tool for step in made.steps] == tools


def test_a_match_that_routing_found_for_no_part_is_bound_to_none() -> None:
    parts = ("get the time in UTC", "return the payment")
    beside = found(parts, (NOW, (0.9, 0.0)), (REFUND, ()))  # as a flagged tool stands beside the others
    assert [step.tool for step in plan(PlanRequest(decision=beside)).steps] == ["time:get_current_time", ""]


def test_where_only_words_tell_the_score_for_the_whole_task_counts() -> None:
    """As in a Decision that was recorded before routing told the chances for each part."""
    find, mail = Tool(server="crm", name="find_mail_lead"), Tool(server="post", name="search_mail")
    matches = tuple(Match(tool=tool, score=score) for tool, score in ((NOW, 0.9), (find, 0.1), (mail, 0.6)))
    made = plan(PlanRequest(decision=replace(decision("get the time in UTC, then find the mail"), matches=matches)))
    assert [step.tool for step in made.steps] == ["time:get_current_time", "post:search_mail"]


async def test_several_steps_left_over_are_bound_by_what_a_further_route_finds_for_each(router: Router) -> None:
    task = "get the current time in UTC, then show the open issues, then look up the latest chargebacks"
    first = plan(PlanRequest(decision=decision(task, [NOW])))
    further = await router.route("; ".join(step.task for step in first.unbound))
    second = plan(PlanRequest(decision=further, first=first))
    assert [step.tool for step in second.steps][1:] == ["jira:search_issues", "stripe:list_disputes"]


@pytest.mark.parametrize(
    ("task", "tool", "arguments"),
    [
        (
            'bill of 99.90 from vendor "Acme", account "6000", due 2026-04-30',
            "quickbooks:create_bill",
            {"vendor": "Acme", "amount": 99.9, "account": "6000", "due": "2026-04-30"},
        ),
        (
            'onboard an employee named "Ann", email ann@example.org, role "dev", team "core", start date 2026-05-01',
            "workflows:onboard_employee",
            {"name": "Ann", "email": "ann@example.org", "role": "dev", "team": "core", "start_date": "2026-05-01"},
        ),
        (
            'update opportunity "006", close date 2026-05-05, next step "call Ann"',
            "salesforce:update_opportunity",
            {"opportunity_id": "006", "close_date": "2026-05-05", "next_step": "call Ann"},
        ),
        (
            'pay back receipts "r1" and "r2" to employee "e7", purpose "taxi"',
            "workflows:expense_reimbursement",
            {"employee": "e7", "receipts": ["r1", "r2"], "purpose": "taxi"},
        ),
        (
            'show the exchange rate history from 2026-01-01 with base "EUR" and quote "USD"',
            "currency:rate-history",
            {"base": "EUR", "quote": "USD", "from": "2026-01-01"},
        ),
    ],
)
async def test_a_part_that_only_gives_a_value_belongs_to_the_part_before(
    router: Router, task: str, tool: str, arguments: dict[str, object]
) -> None:
    """ "Due 2026-04-30" was a step of its own, and went to vendor onboarding."""
    (step,) = plan(PlanRequest(decision=await router.route(task))).steps
    assert (step.tool, step.arguments) == (tool, arguments)


async def test_an_action_on_a_value_is_a_part_of_its_own(router: Router) -> None:
    task = "create a hubspot contact for bo@example.org and email ann@example.org about it"
    made = plan(PlanRequest(decision=await router.route(task)))
    assert [step.task for step in made.steps] == task.split(" and ")
    assert [step.arguments for step in made.steps] == [{"email": "bo@example.org"}, {"recipients": ["ann@example.org"]}]


def test_values_do_not_cross_from_one_part_to_another() -> None:
    parts = ('file a note titled "Plan"', "read the file a.txt")
    note = Tool(server="notes", name="file_note", input_schema=schema("title", title=TEXT, path=TEXT))
    made = plan(PlanRequest(decision=found(parts, (note, (0.9, 0.0)), (READ, (0.0, 0.9)))))
    assert [step.arguments for step in made.steps] == [{"title": "Plan"}, {"path": "a.txt"}]
