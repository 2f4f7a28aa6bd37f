"""Who corrects themselves means what they say last: "cancel order 5520, no wait, 5521" cancels 5521."""

import pytest

from orchestrator import Router
from orchestrator.language.corrections import corrected
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest


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
        ("delete report.pdf, no wait, keep it", "don't delete report.pdf"),
        ("pause campaign 118, actually leave it as it is", "don't pause campaign 118"),
        ("archive the channel, no wait, leave the channel", "leave the channel"),
        ("delete branch release-2, no, make it read-only", "branch release-2 - make it read-only"),
        ("close ticket 7, no wait, make it urgent", "ticket 7 - make it urgent"),
        ("archive ticket 7, actually reopen it. I was too quick.", "ticket 7 - reopen it. I was too quick."),
        ("refund ch_3, actually email Bob, and tell Ana, too", "email Bob, and tell Ana, too"),
        ("close issue 4, actually don't close it, too", "issue 4 - don't close it, too"),
        ("Pause campaign 118, No wait, 119", "Pause campaign 119"),
        ("DELETE TASK 9, NO WAIT, 8", "DELETE TASK 8"),
        ("Delete Task 9, Scratch That", "don't Delete Task 9"),
        ("Delete Task 9, No Wait, Don't", "don't Delete Task 9"),
        ("Invite Bob, No, Bill", "Invite Bill"),
        ("Delete task 9, sorry I meant to update task 8", "update task 8"),
        ("close issue 4, I meant to close issue 5", "close issue 5"),
        ("text Bob the address, I meant to text Ana", "text Ana"),
        ("Send 20 euros to Ana I meant to Bob", "Send 20 euros to Bob"),
        ("message ana no wait message bob", "message bob"),
        ("ping Ana no wait Bob", "ping Bob"),
        ("text Ana - sorry, I meant Bob", "text Bob"),
        ("Archive all of that, no wait, don't", "don't Archive all of that"),
        ("Delete what Bob said, no wait, don't", "don't Delete what Bob said"),
        ("Take a train from Bonn to Ulm, no, from Trier. Tell Bo.", "Take a train from Trier to Ulm. Tell Bo."),
        ("Fly from Bonn to Ulm, no, from Trier. Write to Bo.", "Fly from Trier to Ulm. Write to Bo."),
        ("Cancel the lunch with Ana, no, the phone call", "Cancel the phone call"),
        ("meet at 8 in Berlin, no, at 9:30", "meet at 9:30 in Berlin"),
        ("Please cancel my order 7. Sorry, I meant order 8.", "Please cancel my order 8."),
        ("cancel my order, no wait, order another one", "order another one"),
        ("cancel order 7, no wait, order 8 pens", "order 8 pens"),
        ("complete task 5, no wait, archive it", "task 5 - archive it"),
        ("archive task 5, no wait, complete it", "task 5 - complete it"),
        ("Close ticket 7, no ticket 8 please", "Close ticket 8 please"),
        ("delete a.txt, actually never mind", "don't delete a.txt"),
        ("delete a.txt, never mind that", "don't delete a.txt"),
        ("Delete a.txt, wait, don't", "don't Delete a.txt"),
        ("Delete a.txt, sorry, don't", "don't Delete a.txt"),
        ("Restart it, actually hold on", "don't Restart it"),
        ("Pause campaign 118, no, actually, 119", "Pause campaign 119"),
        ("send the file to Ana by Monday, no, to Bob", "send the file to Bob by Monday"),
        ("send the file to Ana by Monday, sorry, to Bob", "send the file to Bob by Monday"),
        ("add Bob to group red, no, to group blue", "add Bob to group blue"),
        ("add a note to order 5, I meant to refund ch_3", "refund ch_3"),
        ("Send 50 to Ana on Friday, no, 60 to Bob", "Send 60 on Friday to Bob"),
        ("send 20 euros to Ana, no, 25 euros to Bob", "send 25 euros to Bob"),
        ("delete a.txt, no wait, I need it. Email Bob.", "don't delete a.txt. Email Bob."),
        ("refund ch_3, no wait, refund ch_4 too", "refund ch_4 too"),
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
        "text Ana no wait for me at 6",
        "write in the guest book what Ana said scratch that, add a heart",
        "Tell Ana sorry about the noise, I meant to call her",
        "Tell Ana that sorry, I meant to call",
        "refund charge ch_3, actually refund ch_4, too",
        "refund charge ch_3, actually also refund ch_4",
        "show the orders, no wait, only the late ones",
        "send it to Ana, sorry to bother you",
        "list the tasks, no task 8",
        "close the ticket, no order 8",
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
        ("Cancel order 5520, No Wait, keep it", []),
        ("cancel order 5520, actually don't cancel it, it's too late", [("shopify:getOrder", {"orderId": "5520"})]),
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
