"""What a call would do otherwise than the task says is asked for, or the call is not planned."""

from typing import Any

import pytest

from orchestrator import Catalogue, Router
from orchestrator.planning.effects import flags, undoes, unread
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest, Step
from tests.catalogues import tool


def takes(required: str, **others: dict[str, Any]) -> dict[str, Any]:
    own = {"type": "string", "description": "Its id"}
    return {"type": "object", "properties": {required: own, **others}, "required": [required]}


TEXT, NUMBER, SWITCH = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
DESK = Catalogue(
    [
        tool("pay:refund_charge", "Refund a charge.", input_schema=takes("charge", amount=NUMBER)),
        tool("ads:pause_campaign", "Pause a campaign.", input_schema=takes("campaign_id", paused=SWITCH)),
        tool("desk:assign_issue", "Assign or unassign an issue.", input_schema=takes("issue_key", assignee=TEXT)),
        tool("desk:update_issue", "Change an issue.", input_schema=takes("issue_id", state=TEXT, title=TEXT)),
        tool("car:lock_doors", "Lock the doors.", input_schema=takes("door", unlock=SWITCH)),
        tool("list:subscribe_contact", "Subscribe a contact to the newsletter.", input_schema=takes("contact_id")),
        tool("pay:list_charges", "List the charges.", input_schema=takes("customer", amount=NUMBER)),
    ]
)


async def step_for(task: str, **given: Any) -> Step | None:
    async with Router(DESK) as router:
        steps = plan(PlanRequest(decision=await router.route(task), arguments=given)).steps
    return steps[0] if steps else None


@pytest.mark.parametrize(
    ("task", "called", "asked"),
    [
        ("refund 20 euros of charge ch_3", "pay:refund_charge", "amount"),
        ("refund charge ch_3, but only half of it", "pay:refund_charge", "amount"),
        ("refund 20 of charge ch_3", "pay:refund_charge", "amount"),
        ("refund charge ch_3 by a quarter", "pay:refund_charge", "amount"),
        ("I'd like to refund charge ch_3 for $9", "pay:refund_charge", "amount"),
        ("Please do refund half of charge ch_3", "pay:refund_charge", "amount"),
        ("refund charge ch_3 (USD 9, not the whole charge)", "pay:refund_charge", "amount"),
        ("refund nine dollars of charge ch_3", "pay:refund_charge", "amount"),
        ("refund all but the shipping of charge ch_3", "pay:refund_charge", "amount"),
        ("refund charge ch_3, just the shipping", "pay:refund_charge", "amount"),
        ("refund charge ch_3, not in full but 9 euros", "pay:refund_charge", "amount"),
        ("refund charge ch_3, she paid $9 too much", "pay:refund_charge", "amount"),
        ("assign the issue OPS-88 to Sven", "desk:assign_issue", "assignee"),
        ("close the issue with the issue id ENG-204", "desk:update_issue", "state"),
        ("rename the issue with the issue id ENG-204", "desk:update_issue", "title"),
    ],
)
async def test_what_would_be_done_otherwise_without_a_value_is_asked_for(task: str, called: str, asked: str) -> None:
    step = await step_for(task)
    assert step is not None
    assert (step.tool, step.missing) == (called, (asked,))


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("refund charge ch_3", {"charge": "ch_3"}),
        ("refund charge ch_3 in full (20 euros)", {"charge": "ch_3"}),
        ("refund charge ch_3, the customer paid $20", {"charge": "ch_3"}),
        ("unassign the issue OPS-88", {"issue_key": "OPS-88"}),
        ("list the charges of customer cus_9 over 20 euros", {"customer": "cus_9"}),
    ],
)
async def test_nothing_is_asked_for_that_the_task_does_not_speak_of(task: str, arguments: dict[str, Any]) -> None:
    step = await step_for(task)
    assert step is not None
    assert (step.arguments, step.missing) == (arguments, ())


async def test_a_value_that_is_given_is_not_asked_for() -> None:
    step = await step_for("refund half of charge ch_3", amount=1000)
    assert step is not None
    assert (step.arguments, step.missing) == ({"charge": "ch_3", "amount": 1000}, ())


@pytest.mark.parametrize(
    ("task", "switches"),
    [
        ("pause campaign_id c118", {"paused": True}),
        ("resume campaign_id c118", {"paused": False}),
        ("unlock the door 'front'", {"unlock": True}),
    ],
)
async def test_a_switch_is_set_as_the_verb_says(task: str, switches: dict[str, bool]) -> None:
    step = await step_for(task)
    assert step is not None
    assert switches.items() <= step.arguments.items()


async def test_odd_text_is_planned_with_all_the_same() -> None:
    assert await step_for("pause\ud800 campaign_id c118") is not None


async def test_no_step_does_the_opposite_of_what_is_asked_for() -> None:
    assert await step_for("unsubscribe the contact with contact_id c-7 from the newsletter") is None
    step = await step_for("subscribe the contact with contact_id c-7 to the newsletter")
    assert step is not None
    assert step.tool == "list:subscribe_contact"


REPOSITORY = Catalogue(
    [
        tool("git:merge_pull_request", "Merge a pull request.", input_schema=takes("number")),
        tool("git:create_release", "Publish a release of a repository.", input_schema=takes("version")),
        tool("git:list_pull_requests", "List the open pull requests of a repository."),
        tool("pay:refund_charge", "Refund a charge.", input_schema=takes("charge")),
        tool("pay:void_refund", "Void a refund that has not been paid out.", input_schema=takes("refund")),
        tool("ops:rollback_release", "Bring back the release before this one.", input_schema=takes("release")),
        tool("desk:create_issue", "Create an issue.", input_schema=takes("title")),
    ]
)


async def planned(task: str, *without: str) -> list[str]:
    async with Router(REPOSITORY.without(without)) as router:
        return [step.tool for step in plan(PlanRequest(decision=await router.route(task))).steps]


@pytest.mark.parametrize(
    "task",
    [
        "undo the refund of charge ch_3",
        "reverse the refund of charge ch_3",
        "take back the refund of charge ch_3",
        "close pull request 42",
        "reject pull request 42",
        "revert pull request 42",
        "undo the merge of pull request 42",
        "roll the release v1.4.0 back",
        "close the issue OPS-12",
    ],
)
async def test_nothing_is_done_anew_that_is_to_be_taken_back(task: str) -> None:
    called = await planned(task, "pay:void_refund", "ops:rollback_release")
    assert set(called) <= {"git:list_pull_requests"}


@pytest.mark.parametrize(
    ("name", "description", "task"),
    [
        ("hr:request_leave", "Request days of leave.", "cancel my leave"),
        ("ci:run_pipeline", "Run a pipeline.", "stop the pipeline"),
        ("git:release", "Publish a release of a version.", "unpublish version 2.3"),
        ("git:merge_pull_request", "Merge a pull request.", "cancel pull request 14"),
        ("pay:approve_invoice", "Approve an invoice.", "cancel the approval of invoice 77"),
        ("bank:pay_invoice", "Pay an invoice.", "stop the payment of invoice 77"),
        ("pay:transfer_money", "Transfer money.", "cancel the transfer to account ac_12"),
        ("iam:invite_user", "Invite a user.", "revoke the invitation for ann@x.org"),
        ("cal:schedule_meeting", "Schedule a meeting.", "call the meeting off"),
        ("git:merge_pull_request", "Merge a pull request.", "withdraw pull request 14"),
    ],
)
def test_what_brings_something_about_does_not_end_it(name: str, description: str, task: str) -> None:
    assert undoes(tool(name, description), task)


@pytest.mark.parametrize(
    ("name", "description", "task"),
    [
        ("git:close_pull_request", "Close a pull request.", "cancel pull request 14"),
        ("desk:create_cancellation", "Create a cancellation of an order.", "cancel order 12"),
        ("shop:submit_change", "Submit a change: edit or cancel an order.", "cancel the change of order 12"),
        ("db:run_query", "Run a query on the database.", "delete the rows of May"),
        ("mail:send_email", "Send an email.", "cancel the email course by sending an email to Bob"),
        ("desk:edit_page", "Edit a page.", "remove the title of page 12"),
        ("mail:send_email", "Send an email.", "cancel the membership with an email to Bob"),
        ("shop:submit_order_change", "Submit a change to an order.", "remove item 3 from order 12"),
        ("ci:deploy_service", "Deploy a service.", "unfortunately deploy service api"),
        ("ci:run_pipeline", "Run a pipeline.", "unblock the pipeline nightly"),
    ],
)
def test_what_may_end_it_is_not_held_back(name: str, description: str, task: str) -> None:
    assert not undoes(tool(name, description), task)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("cancel pull request 42", True),
        ("undo the merge of pull request 42", True),
        ("merge pull request 42", False),
        ("list the open pull requests", False),
    ],
)
async def test_a_decision_tells_that_what_it_recommends_does_the_opposite(task: str, told: bool) -> None:
    async with Router(REPOSITORY) as router:
        decision = await router.route(task)
    assert any("does the opposite of what the task begins with" in said for said in decision.warnings) == told


async def test_what_takes_it_back_is_called() -> None:
    assert await planned("roll back the release v1.4.0") == ["ops:rollback_release"]
    assert await planned("reverse charge ch_3") == ["pay:refund_charge"]
    assert await planned("please merge pull request 42") == ["git:merge_pull_request"]


@pytest.mark.parametrize(
    ("task", "called"),
    [
        ("refuse to refund charge ch_3", []),
        ("ignore the request to refund charge ch_3", []),
        ("never fail to refund charge ch_3", ["pay:refund_charge"]),
    ],
)
async def test_nothing_is_done_in_place_of_what_is_refused(task: str, called: list[str]) -> None:
    assert await planned(task, "pay:list_charges") == called


async def test_what_ends_something_else_does_not_stand_in() -> None:
    leave = tool("hr:request_leave", "Request days of leave.", input_schema=takes("day"))
    booking = tool("cal:cancel_booking", "Cancel the booking of a room.", input_schema=takes("room"))
    async with Router(Catalogue([leave, booking])) as router:
        assert not plan(PlanRequest(decision=await router.route("cancel my leave on 2026-12-01"))).steps


async def test_of_two_things_left_open_none_is_done() -> None:
    assert await planned("either refund charge ch_3 or void the refund") == []


def asked(task: str, name: str = "desk:update_ticket", **others: dict[str, Any]) -> tuple[str, ...]:
    return unread(tool(name, "Change a ticket.", input_schema=takes("ticket_id", **others)), task, {"ticket_id": "T-1"})


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ({"state": {"enum": ["open", "closed"]}}, ("state",)),
        ({"state": {"type": ["string", "null"]}}, ("state",)),
        ({"state": SWITCH}, ()),
        ({"status_id": TEXT}, ("status_id",)),
        ({"status_reason": TEXT}, ()),
        ({"state": TEXT, "status": TEXT}, ("state",)),
    ],
)
def test_what_an_update_sets_is_asked_for_once(others: dict[str, Any], named: tuple[str, ...]) -> None:
    assert asked("close ticket T-1", **others) == named


def test_a_name_is_asked_for_where_something_is_renamed() -> None:
    assert asked("rename ticket T-1", display_name=TEXT) == ("display_name",)


def test_an_amount_is_no_switch() -> None:
    task = "refund half of ticket T-1"
    assert asked(task, "pay:refund_ticket", with_amount=SWITCH, amount=NUMBER) == ("amount",)


@pytest.mark.parametrize("fixed", [{"const": True}, {"enum": [True]}])
def test_a_switch_with_one_position_is_not_set(fixed: dict[str, Any]) -> None:
    schema = takes("campaign_id", paused={**SWITCH, **fixed})
    assert flags(tool("ads:pause_campaign", "Pause a campaign.", input_schema=schema), "resume campaign c1") == {}


def test_a_tool_whose_parameter_says_the_opposite_does_that_too() -> None:
    lock, empty = takes("door", code=TEXT), {"type": "string", "description": "Leave empty to unlock"}
    assert undoes(tool("car:lock_doors", "Lock the doors.", input_schema=lock), "unlock the doors")
    lock = takes("door", code=empty)
    assert not undoes(tool("car:lock_doors", "Lock the doors.", input_schema=lock), "unlock the doors")


@pytest.mark.parametrize("task", ["unsilence alert 12", "Unreserve alert 12"])
def test_what_begins_with_un_undoes_the_verb_behind_it(task: str) -> None:
    verb = task.split()[0][2:].lower()
    assert undoes(tool(f"desk:{verb}_alert", f"{verb} an alert."), task)
    assert not undoes(tool(f"desk:un{verb}_alert", f"Un{verb} an alert."), task)
    assert not undoes(tool(f"desk:{verb}_alert", f"{verb} an alert."), f"{verb} alert 12")
