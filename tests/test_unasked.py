"""What a task tells of as done, or asks about, is no step of its plan, however well a tool fits it."""

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.language.statements import only_states
from orchestrator.language.told import told_in
from orchestrator.planning.planner import plan
from orchestrator.planning.unasked import is_unasked
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.tool import Kind
from orchestrator.routing.router import Router
from tests.catalogues import taking, tool

MERGE = "hub:merge_pull_request"
CANCEL = tool("shop:cancel_order", "Cancel an order.")
DESK = Catalogue(
    [
        CANCEL,
        tool("shop:get_order", "Get an order with its state."),
        tool("pay:refund_charge", "Refund a charge.", input_schema=taking("charge", charge="id of the charge")),
        tool("hub:merge_pull_request", "Merge a pull request."),
        tool("hub:create_release", "Create a release."),
        tool("files:delete_file", "Delete a file.", input_schema=taking("path", path="path of the file")),
        tool("files:write_file", "Write a file.", input_schema=taking("path", path="path of the file")),
        tool("mail:send_email", "Send an email."),
        tool(
            "ops:scale_deployment",
            "Scale a deployment.",
            input_schema={"type": "object", "properties": {"replicas": {"type": "integer"}}, "required": ["replicas"]},
        ),
    ]
)


@pytest.mark.parametrize(
    "text",
    [
        "order 12 was cancelled",
        "I cancelled order 12",
        "we have cancelled it",
        "email Bo that order 12 was cancelled",
        "now that the order is cancelled",
        "order 12 must not be cancelled",
        "make sure it doesn't get cancelled",
        "I'm thinking about cancelling order 12",
        "we are considering cancelling it",
        "nobody should cancel order 12",
        "don't let anyone cancel it",
        "remind me to cancel order 12",
    ],
)
def test_what_was_done_or_must_not_be_is_told(text: str) -> None:
    assert told_in(text).covers(CANCEL)


@pytest.mark.parametrize(
    "text",
    [
        "cancel order 12",
        "cancel it, the customer cancelled the trip",
        "order 12 should be cancelled",
        "get order 12 cancelled",
        "I want order 12 cancelled",
        "I'd like it cancelled",
        "please have it cancelled",
        "the order needs to be cancelled",
        "make sure it is cancelled",
        "could you have order 12 cancelled",
        "would be great if order 12 was cancelled",
        "It's time it was cancelled",
        "please see that order 1.2 is cancelled",
        "refund it",
    ],
)
def test_what_is_wished_is_asked_for(text: str) -> None:
    assert not is_unasked(text, CANCEL)


def test_a_wish_reaches_over_the_parts_of_its_sentence() -> None:
    assert not told_in("13 cancelled", "I want charge 12 refunded and ").covers(CANCEL)
    assert told_in("13 cancelled", "I want charge 12 refunded. ").covers(CANCEL)
    assert not only_states("the api is restarted", "Make sure that order 12 is cancelled and ")
    assert only_states("the api is restarted", "Make sure that order 12 is cancelled. ")


def test_what_only_tells_may_be_called_for_a_question() -> None:
    assert not is_unasked("which orders were cancelled?", tool("shop:get_order", "Get an order with its state."))
    assert is_unasked("which orders were cancelled?", CANCEL)
    assert is_unasked("how do I cancel an order?", CANCEL)


@pytest.mark.parametrize(
    "text",
    [
        "how can I cancel an order?",
        "do I need to cancel the order?",
        "when will the order be cancelled?",
        "would cancelling the order help?",
        "can customers cancel orders?",
        "what if I cancel the order, do I get my money back?",
        "help me understand how orders are cancelled",
        "can order 12 still be cancelled?",
        "can I cancel order 12 after it has shipped?",
        "could somebody have cancelled the order?",
    ],
)
def test_who_asks_whether_or_how_wants_to_be_told(text: str) -> None:
    assert is_unasked(text, CANCEL)
    assert is_unasked(text, tool("ops:cancel_orders", "Cancels all orders.", kind=Kind.WORKFLOW))


@pytest.mark.parametrize(
    "text",
    [
        "can you cancel the order?",
        "can't you just cancel the order?",
        "would it be possible to cancel the order?",
        "how do I cancel the order? please do it for me",
        "can I have the order cancelled?",
        "may I ask you to cancel the order?",
        "is there any chance you could cancel the order?",
        "if possible, can you cancel the order?",
        "could the order be cancelled?",
        "can I cancel the order?",
        "can order 12 be cancelled?",
        "check if the order has shipped and if not cancel it",
    ],
)
def test_a_question_that_asks_to_do_it_is_a_request(text: str) -> None:
    assert not is_unasked(text, CANCEL)
    assert not is_unasked(text, tool("ops:cancel_orders", "Cancels all orders.", kind=Kind.WORKFLOW))


@pytest.mark.parametrize(
    ("task", "called"),
    [
        ("Order 12 was cancelled. Please refund charge ch_9.", ["pay:refund_charge"]),
        ("I deleted notes.txt. Write a file new.txt.", ["files:write_file"]),
        ("now that pull request 88 is merged, create a release", ["hub:create_release"]),
        ("create a release, pull request 88 is merged", ["hub:create_release"]),
        ("email Bo that order 12 was cancelled", ["mail:send_email"]),
        ("which files were deleted? write them to the file list.txt", ["files:write_file"]),
        ("if order 12 is cancelled, refund the charge", ["pay:refund_charge"]),
        ("I want order 12 cancelled and charge ch_9 refunded", ["shop:cancel_order", "pay:refund_charge"]),
        ("Was order 12 cancelled? If not, cancel it.", ["shop:cancel_order"]),
        ("Order 12 was cancelled", []),
        ("I sent the email to Bo, now refund the charge", ["pay:refund_charge"]),
        ("once you're done, email Bo", ["mail:send_email"]),
        ("should I cancel order 12?", []),
        ("pull request 88 must not be merged before Friday", []),
        ("Make sure the file is deleted and order 12 is cancelled", ["files:delete_file", "shop:cancel_order"]),
        ("Make sure order 12 is cancelled and the charge ch_9 is refunded", ["shop:cancel_order", "pay:refund_charge"]),
        ("get charge ch_9 refunded and order 12 cancelled", ["pay:refund_charge", "shop:cancel_order"]),
        ("I need Tom to look up order 12", []),
        ("Ask Release Bot to create a release", ["hub:create_release"]),
        ("We decided to cancel order 12. Please do so.", ["shop:cancel_order"]),
        ("The pull request 88 is ready. Water the plants.", []),
        ("I cancelled the order and the file", []),
        ("restore order 12", []),
    ],
)
async def test_a_plan_does_only_what_is_asked_for(task: str, called: list[str]) -> None:
    made = await _planned(task)
    assert [step.tool for step in made.steps if step.tool] == called
    assert made.steps or "nothing is called" in made.reasons[0]


async def test_a_pasted_text_that_only_tells_how_things_are_does_nothing() -> None:
    assert not (await _planned("Pull request 88 is ready, and the team is happy with it. " * 80)).steps


@pytest.mark.parametrize(
    ("task", "path"),
    [
        ("I failed to delete a.txt, delete it", "a.txt"),
        ("Bob refused to delete a.txt. Delete it.", "a.txt"),
        ("Bob refused to delete a.txt. Delete b.txt.", "b.txt"),
    ],
)
async def test_an_order_may_point_at_what_is_only_told(task: str, path: str) -> None:
    (step,) = (await _planned(task)).steps
    assert (step.tool, step.arguments) == ("files:delete_file", {"path": path})


async def test_values_of_a_condition_are_not_the_request_s() -> None:
    made = await _planned("if the deployment has 5 replicas, scale the deployment to 3")
    assert made.steps[0].arguments == {"replicas": 3}


@pytest.mark.parametrize(
    ("task", "called"),
    [
        ("The deployment is too small. Scale it to 3 replicas.", ["ops:scale_deployment"]),
        ("Cancel order 12. The order is a duplicate.", ["shop:cancel_order"]),
        ("I want order 12 cancelled. Cancel order 13 as well.", ["shop:cancel_order", "shop:cancel_order"]),
        ("Cancel order 12. Cancel order 13.", ["shop:cancel_order", "shop:cancel_order"]),
        ("Our deployment is too small. Send an email to Bo and merge pull request 88", ["mail:send_email", MERGE]),
        ("The file is a duplicate, delete it and create a release", ["files:delete_file", "hub:create_release"]),
        ("The parcel arrived broken. Refund charge ch_3.", ["pay:refund_charge"]),
        (
            "The parcel arrived broken, so refund charge ch_3 and send an email",
            ["pay:refund_charge", "mail:send_email"],
        ),
        ("That was quick. Merge pull request 88.", [MERGE]),
        ("Our deployment is too small. Water the plants. Merge pull request 88.", ["", "", MERGE]),
        ("Water the plants. The order is a duplicate.", []),
        ("I'm at my desk and going to delete file old.txt. Now merge pull request 88.", [MERGE]),
        (
            "Our customer talked of something dull and past in file a.txt. Please delete file b.txt",
            ["files:delete_file"],
        ),
        ("We are done and ready to merge pull request 88. Please send an email to Bo.", ["mail:send_email"]),
        (
            "Make sure order 12 is cancelled, the charge ch_9 is refunded and pull request 88 is merged",
            ["shop:cancel_order", "pay:refund_charge", MERGE],
        ),
    ],
)
async def test_what_tells_how_things_are_is_one_step_with_its_order(task: str, called: list[str]) -> None:
    assert [step.tool for step in (await _planned(task)).steps] == called


@pytest.mark.parametrize(
    "text",
    [
        "the api is stuck",
        "Jane resigned",
        "That was quick",
        "our checkout is down, and has been since noon",
        "Order 8812 was shipped on Monday and got lost",
        "Northwind keeps asking for their bill",
        "A customer wants to know",
        "I'm about to restart checkout",
    ],
)
def test_what_tells_how_things_are(text: str) -> None:
    assert only_states(text)


@pytest.mark.parametrize(
    "text",
    [
        "Bob left, deactivate his account",
        "I'm looking for a hotel",
        "the file must be deleted",
        "Restart failed jobs",
        "can you restart it",
        "the time in Rome",
        "our new engineer starting May 2",
        "Page whoever is on duty",
        "I don't want campaign 4411 running any longer",
        "The customer requested that we cancel order 12",
        "WEB-3 works, so it can go to Done",
        "charge ch_9 refunded",
    ],
)
def test_what_orders_or_wishes_tells_more(text: str) -> None:
    assert not only_states(text)


async def test_a_lookup_takes_no_place_of_an_order_though_all_that_it_requires_is_there() -> None:
    order = {"order_id": "id of the order", "reason": "why"}
    catalogue = Catalogue(
        [
            tool("shop:cancel_order", "Cancel an order.", input_schema=taking("order_id", "reason", **order)),
            tool("shop:get_order", "Get an order.", input_schema=taking("order_id", **order)),
        ]
    )
    async with Router(catalogue) as router:
        made = plan(PlanRequest(decision=await router.route("get order 1001 cancelled")))
    assert [(step.tool, step.missing) for step in made.steps] == [("shop:cancel_order", ("reason",))]


async def _planned(task: str) -> Plan:
    async with Router(DESK) as router:
        return plan(PlanRequest(decision=await router.route(task)))


@pytest.mark.parametrize(
    ("task", "cancels"),
    [
        ("update order 12", False),
        ("update the order for the customer", False),
        ("cancle order 12", True),
        ("scrap order 12", True),
        ("I no longer want order 12", True),
        ("pedido cancel_order 12", True),
    ],
)
async def test_nothing_is_taken_away_that_nobody_speaks_of(task: str, cancels: bool) -> None:
    shop = Catalogue([CANCEL, tool("shop:get_order", "Get an order: track it, and see its state.")])
    async with Router(shop) as router:
        made = plan(PlanRequest(decision=await router.route(task)))
    assert ("shop:cancel_order" in [step.tool for step in made.steps]) == cancels
