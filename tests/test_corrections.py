"""Who corrects themselves means what they say last: "cancel order 5520, no wait, 5521" cancels 5521."""

import pytest

from orchestrator import Router
from orchestrator.language.corrections import corrected
from orchestrator.planner import plan
from orchestrator.plans import PlanRequest


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("cancel order 5520, no wait, 5521", "cancel order 5521"),
        ("Cancel order 5520. No wait, 5521.", "Cancel order 5521."),
        ("cancel order 5520, sorry, I meant 5521, and refund it", "cancel order 5521, and refund it"),
        ("pause campaign 118, I mean 119", "pause campaign 119"),
        ("invite Bob, I mean Bill, to the review", "invite Bill to the review"),
        ("what's the weather in Rome, I mean Milan?", "what's the weather in Milan?"),
        ("post it in #general, sorry, #random", "post it in #random"),
        ("set it to 40, make that 45", "set it to 45"),
        ("send 20 euros to Ana, no, 25 euros", "send 25 euros to Ana"),
        ("deploy v2.3.0, no wait v2.3.1, to staging", "deploy v2.3.1 to staging"),
        ("storniere Bestellung 5520, nein, 5521", "storniere Bestellung 5521"),
        ("delete task 9, no, task 8", "delete task 8"),
        ("book a room in Berlin, no, in Munich for 2 nights", "book a room in Munich for 2 nights"),
        ("delete the project 'Umzug', wait no, only the group 'Keller'", "delete the group 'Keller'"),
        ("delete task 9, no, close task 9", "close task 9"),
        ("refund ch_3 and cancel order 5, no wait, delete it", "refund ch_3 and order 5 - delete it"),
        ("cancel order 5521 - no, don't, just tell me where it is", "order 5521 - just tell me where it is"),
        ("cancel order 5521, scratch that", "don't cancel order 5521"),
        ("refund charge ch_3. Never mind.", "don't refund charge ch_3"),
        ("refund charge ch_3 - no wait, forget it", "don't refund charge ch_3"),
        ("merge 88 - wait no don't merge anything", "don't merge anything"),
        ("email Bob, no, Call Ana", "Call Ana"),
        ("restart deployment checkout-api, no, billing-api", "restart deployment billing-api"),
        ("delete repository acme/web, no, acme/api", "delete repository acme/api"),
        ("call +49 170 1234567, no, +49 170 7654321", "call +49 170 7654321"),
        ("Transfer 50 euros to Ana, actually make it 60", "Transfer 60 euros to Ana"),
        ("meet Monday at 12, no, Tuesday at 12", "meet Tuesday at 12"),
        (
            "invite Bob on Monday, create it with Bo on Monday, no, with Al",
            "invite Bob on Monday, create it with Al on Monday",
        ),
    ],
)
def test_what_is_said_last_takes_the_place_of_what_is_taken_back(said: str, meant: str) -> None:
    assert corrected(said) == meant


@pytest.mark.parametrize(
    "said",
    [
        "list contacts, no email",
        "Send Ana a message saying sorry, I meant to write earlier",
        "Tell him sorry, I meant to call",
        "text Ana scratch that, see you at 6",
        "Cancel the order I meant to cancel yesterday",
        "Email Ana that I said 6 but I meant 5",
        "refund charge ch_3, actually refund ch_4 as well",
        "play Yes, No, Maybe",
        "Search the web for 'what I meant', never mind the lyrics",
        "play the song with that name, I always forget it. Tell me who sings it",
        "Is it done? No, restart it",
        "no wait, cancel it",
        "No, the other one",
        "restart the api, wait 5 minutes and check it",
        "restart it, wait, then delete the logs",
        "Track 5 is still called 'Demo', make that 'Chorus'",
        "book a table for two, sorry for the late notice",
        "use the superior units, by that I mean Celsius",
        "check whether the mix exists, no wait, first find the band",
        "Delete task 8, I mean the one from Monday",
        "message Ana that I can't make it, sorry",
        "post 'order 5520, no wait, 5521' in #general",
        "cancel order 5520, sorry, order 5520",
    ],
)
def test_what_corrects_nothing_stays_as_it_is(said: str) -> None:
    assert corrected(said) == said


def test_a_long_text_is_no_task_and_stays_as_it_is() -> None:
    document = "cancel order 5520, no wait, 5521. " * 200
    assert corrected(document) == document


@pytest.mark.parametrize(
    ("task", "called"),
    [
        ("cancel order 5520, no wait, 5521", [("shopify:cancelOrder", {"orderId": "5521"})]),
        ("refund charge ch_3, no, ch_4", [("stripe:refund_charge", {"charge": "ch_4"})]),
    ],
)
async def test_nothing_is_done_with_what_was_taken_back(
    router: Router, task: str, called: list[tuple[str, dict[str, str]]]
) -> None:
    decision = await router.route(task)
    assert decision.query == task
    assert any("it corrects itself" in warning for warning in decision.warnings)
    assert [(step.tool, step.arguments) for step in plan(PlanRequest(decision=decision)).steps] == called


async def test_an_order_that_is_taken_back_is_not_carried_out(router: Router) -> None:
    assert not plan(PlanRequest(decision=await router.route("refund charge ch_3 - no wait, scratch that"))).steps
