"""What somebody is told, asked to do or given as a reason asks for nothing, and brings no tool that would do it."""

from time import perf_counter

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.language.asides import without_asides
from orchestrator.language.reports import errands, handed_on, questions, reasons, reports
from orchestrator.language.told import told_in
from orchestrator.planning.planner import plan
from orchestrator.planning.unasked import is_unasked
from orchestrator.records.plan import PlanRequest
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.routing.router import Router
from orchestrator.routing.understand import understand
from tests.catalogues import tool
from tests.timing import seconds

CANCEL = tool("shop:cancel_order", "Cancel an order.")
MERGE = tool("hub:merge_pull_request", "Merge a pull request.")
RESTART = tool("ops:restart_deployment", "Restart a deployment, so that all its pods come up anew.")
DESK = Catalogue(
    [
        CANCEL,
        MERGE,
        RESTART,
        tool("shop:get_order", "Get an order with its state."),
        tool("chat:post_message", "Send a message to a person or a channel."),
        tool("mail:send_email", "Send an email to somebody."),
        tool("desk:create_ticket", "Create a ticket."),
        tool("pay:refund_charge", "Refund a charge."),
    ]
)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("email Bo that 88 is merged", "88 is merged"),
        ("reply to Ana that we cancelled order 12", "we cancelled order 12"),
        ("tell Ana I cancelled the meeting", "I cancelled the meeting"),
        ("tell her that we will cancel order 12 and refund ch_3", "we will cancel order 12 and refund ch_3"),
        ("tell Ana I'm about to merge 88 and delete the branch", "I'm about to merge 88 and delete the branch"),
        ("tell Ana I'll be late and cancel the 3pm", "I'll be late"),
        ("Tell #dev we are restarting the api", "we are restarting the api"),
        ("let the team know the api was restarted", "the api was restarted"),
        ("ask Bo, then text Ana she's late", "she's late"),
        ("message everyone saying we deployed the api", "we deployed the api"),
        ("mail bo@acme.io to say the order is cancelled", "the order is cancelled"),
        ("email Bo because order 12 was cancelled", "order 12 was cancelled"),
        ("leave a note under ISS-418 that we've reproduced it", "we've reproduced it"),
        ("write down that we picked Postgres", "we picked Postgres"),
        ("ask Bo if he can restart it", "he can restart it"),
        ("ask finance whether they can refund ch_12", "they can refund ch_12"),
        ("ask the supplier which order to cancel", "order to cancel"),
        ("ask her when we merge 88, then cut a release", "we merge 88"),
        ("ask the team why 88 was merged and cancel order 12", "88 was merged"),
        ("tell our manager how to restart the api", "to restart the api"),
        ("let the customer know order 12 is cancelled", "order 12 is cancelled"),
        ("let Ana know how to merge 88", "how to merge 88"),
        ("let Bo know that order 12 is refunded and cancel order 13", "order 12 is refunded"),
        ("Tell the customer we are sorry and refund charge ch_3", "we are sorry"),
        ("Reply to ticket 12 saying we refunded it, then close it", "we refunded it"),
        ("tell Ana that I merged 212 and closed the ticket", "I merged 212 and closed the ticket"),
    ],
)
def test_what_somebody_is_told_is_a_report(task: str, said: str) -> None:
    assert {task[start:end] for start, end in reports(task)} == {said}


@pytest.mark.parametrize(
    "task",
    [
        "tell me that order 12 was cancelled",
        "let me know the time in Rome",
        "find the email that she sent",
        "summarise the text that I need to classify",
        "an alert system for the Philippines that I can subscribe to",
        "update the version of the application named storefront",
        "let her have it in writing",
        "page 440 of the Arabic text the way it is in the book",
        "ask the chatbot if it knows any good games",
        "write code that we need",
    ],
)
def test_what_is_asked_for_is_no_report(task: str) -> None:
    assert reports(task) == errands(task) == ()


@pytest.mark.parametrize(
    ("task", "deed"),
    [
        ("ask the team to restart it", "restart it"),
        ("text him to cancel order 12", "cancel order 12"),
        ("ask mira@acme.io to merge 88", "merge 88"),
        ("remind me to cancel order 12", "cancel order 12"),
        ("create a Jira ticket to restart the api", "restart the api"),
        ("open an issue for ops to delete the old logs", "delete the old logs"),
        ("create an issue to delete the old logs in repo acme/web", "delete the old logs"),
        ("tell the team not to delete the bucket", "delete the bucket"),
        ("reach out to the vendor to cancel order 12", "cancel order 12"),
        ("have the on-call restart it", "restart it"),
        ("email HR asking them to offboard Kim", "offboard Kim"),
        ("create a jira task to pause the campaign", "pause the campaign"),
        ("linear issue for Tim: mute noisy monitors", "mute noisy monitors"),
    ],
)
def test_what_is_to_be_done_later_or_by_others_is_an_errand(task: str, deed: str) -> None:
    assert [task[start:end] for start, end in errands(task)] == [deed]
    assert deed not in without_asides(task)


@pytest.mark.parametrize(
    "task",
    [
        "tell the browser to open example.com",
        "email the report to Bob",
        "add a fresh ticket called Fix printer to list 61aa7",
        "create a task to retrieve the results",
        "the text to translate is below",
        "use this card to purchase the insurance",
        "I need someone to fix this",
        "have them use 10.4.0.27 instead",
        "have the api restarted",
        "have John's order cancelled",
    ],
)
def test_what_a_tool_is_told_to_do_is_none(task: str) -> None:
    assert errands(task) == ()


def test_whose_errand_it_is_depends_on_what_a_name_names() -> None:
    task = "Ask Ana to merge pull request 88"
    assert [name for name, _ in handed_on(task)] == ["Ana"]
    assert [name for name, _ in handed_on("I need Tom to restart it")] == ["Tom"]
    assert told_in(task).covers(MERGE)
    assert not told_in("Ask Hub to merge pull request 88").covers(MERGE)
    assert not told_in("Ask Claude to merge pull request 88 on hub").covers(MERGE)
    assert told_in("Ask Hub whether to merge pull request 88").covers(MERGE)


@pytest.mark.parametrize(
    ("task", "asked"),
    [
        ("Ask Ana how to merge pull request 88", "Ana how to merge pull request 88"),
        ("ask the user which branch to delete", "the user which branch to delete"),
        ("Tell Bo when we merge 88, and restart the api", "Bo when we merge 88"),
    ],
)
def test_what_somebody_is_asked_is_known_whoever_that_is(task: str, asked: str) -> None:
    assert [task[start:end].strip() for start, end in questions(task)] == [asked]


@pytest.mark.parametrize("task", ["let Ana know by email", "tell me how to merge 88", "Notify Bo when 88 is merged"])
def test_how_and_when_somebody_is_told_is_no_question(task: str) -> None:
    assert questions(task) == reports(task) == ()


def test_a_reason_asks_for_nothing() -> None:
    assert reasons("restart the api because the deploy failed") == [(24, 41)]
    assert told_in("email Bo because order 12 was cancelled").covers(CANCEL)
    assert not told_in("cancel order 12 because it was cancelled twice before").covers(CANCEL)


def test_each_part_tells_of_its_own() -> None:
    order, report = understand("refund charge ch_3, and email Bo that order 12 was cancelled").parts
    assert (order.tells_of.verbs, report.tells_of.verbs) == (set(), {"cancel", "order"})
    wish = understand("I want order 12 cancelled, and then charge ch_3 refunded and the parcel sent")
    assert not wish.tells_of.verbs


def test_only_what_nothing_else_asks_for_is_told() -> None:
    assert told_in("order 12 was cancelled, refund ch_3").verbs == {"cancel"}
    assert told_in("find what was cancelled, and cancel order 12").verbs == set()
    assert told_in("13 refunded", before="I want 12 cancelled and").verbs == set()
    assert told_in("Hello! We decided not to merge 88.").verbs == {"merg"}


@pytest.mark.parametrize(
    ("task", "told", "called"),
    [
        ("Order 12 was cancelled, refund charge ch_3", CANCEL, "pay:refund_charge"),
        ("Tell #dev that we restarted the api deployment", RESTART, "chat:post_message"),
        ("Email Bo saying we cancelled order 12", CANCEL, "mail:send_email"),
        ("Create a ticket to restart the api deployment", RESTART, "desk:create_ticket"),
        ("Text him to cancel order 12", CANCEL, "mail:send_email"),
        ("Tell the customer that we refund and cancel", CANCEL, "chat:post_message"),
        ("Send an email because they restart the deployment each night", RESTART, "mail:send_email"),
    ],
)
async def test_the_tool_that_would_do_what_is_told_does_not_match(task: str, told: Tool, called: str) -> None:
    async with Router(DESK) as router:
        decision = await router.route(RouteRequest(query=task, tenant="local"))
    assert all(match.score < 0.05 for match in decision.matches if match.tool == told)
    made = plan(PlanRequest(decision=decision))
    assert [step.tool for step in made.steps] == [called]


async def test_what_somebody_else_is_to_do_is_sent_to_them_and_not_done() -> None:
    async with Router(DESK) as router:
        asked, ordered = [await router.route(f"{task} pull request 88") for task in ("Ask Ana to merge", "Merge")]
    assert [step.tool for step in plan(PlanRequest(decision=asked)).steps] == ["chat:post_message"]
    assert [step.tool for step in plan(PlanRequest(decision=ordered)).steps] == ["hub:merge_pull_request"]


@pytest.mark.parametrize(
    "task",
    [
        "Ask Ana how to merge pull request 88",
        "ask Ana why order 12 was cancelled",
        "Ask Bo when we restart the api deployment",
        "ask Ana whether to refund charge ch_3",
        "ask the supplier which order to cancel",
        "let the customer know order 12 is cancelled",
        "Tell Bo how to restart the api deployment",
        "reach out to Ana to merge pull request 88",
        "write to the vendor to cancel order 12",
    ],
)
async def test_what_somebody_is_asked_or_let_know_is_sent_and_not_done(task: str) -> None:
    async with Router(DESK) as router:
        made = plan(PlanRequest(decision=await router.route(task)))
    assert [step.tool for step in made.steps] == ["chat:post_message"]


@pytest.mark.parametrize("task", ["ask Jarvis why order 12 was paid", "Ask Shop how many items order 12 has"])
def test_what_anybody_is_asked_may_be_looked_up_and_is_never_done(task: str) -> None:
    assert is_unasked(task, CANCEL)
    assert not is_unasked(task, tool("shop:get_order", "Get an order with its state."))


async def test_nothing_is_called_for_what_somebody_else_is_to_do_where_no_tool_tells_them() -> None:
    async with Router(Catalogue([MERGE, RESTART])) as router:
        asked = await router.route("Ask Ana to merge pull request 88")
    assert asked.confidence < 0.5
    assert not plan(PlanRequest(decision=asked)).steps


@pytest.mark.parametrize(
    ("task", "called"),
    [
        ("Tell the customer we are sorry and refund charge ch_3", ["chat:post_message", "pay:refund_charge"]),
        ("Cancel order 1001 because it is late and refund charge ch_3", ["shop:cancel_order", "pay:refund_charge"]),
        ("Because the deploy failed, restart the deployment", ["ops:restart_deployment"]),
        ("Hurry up because the order is late and refund charge ch_3", ["pay:refund_charge"]),
        ("have Ana's order 12 cancelled", ["shop:cancel_order"]),
        ("send an email to HR, then ask Bo to merge 88 and restart the deployment", ["mail:send_email"]),
    ],
)
async def test_an_order_beside_it_is_carried_out(task: str, called: list[str]) -> None:
    async with Router(DESK) as router:
        made = plan(PlanRequest(decision=await router.route(task)))
    assert [step.tool for step in made.steps if step.tool] == called


async def test_a_text_full_of_told_verbs_takes_no_time() -> None:
    tools = [tool(f"s{number}:merge_{number}", "Merge it.") for number in range(50)]
    async with Router(Catalogue(tools)) as router:
        await router.route("merge it")
        task = ("the branch was merged, we will not merge " * 100)[:3_990]
        began = perf_counter()
        await router.route(RouteRequest(query=task, tenant="local", limit=50))
    assert perf_counter() - began < 1


@pytest.mark.parametrize("text", ["the branch was merged " * 180, "merged " * 570])
def test_one_verb_said_all_over_a_text_takes_no_time(text: str) -> None:
    assert seconds(lambda: [told_in(text[:4000]).verbs]) < 0.1


@pytest.mark.parametrize("text", ["tell Ana we " * 300, "email a " * 500, "ask the to " * 350, "note that the " * 280])
def test_a_long_text_takes_no_time(text: str) -> None:
    assert seconds(lambda: [reports(text[:4000]), errands(text[:4000]), handed_on(text[:4000])]) < 0.5
